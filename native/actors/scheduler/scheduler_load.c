/* After a death of the whole tree: which messages are in the log already, though the files do not say so.
 *
 * The files are written now and then. From the position that they name on, each record of the log is looked at: one that a scheduler
 * put there names its message. It is read once reput has reached the end of what is to be read: then the queues are known. Nothing is
 * put into the log before all of it is read.
 */
#include "actors/scheduler/scheduler_parts.h"
#include "base/crash_point.h"

#include <errno.h>
#include <string.h>

#define LOAD_BYTES (4u << 20) /* of the log in one step */

void scheduler_begin(struct scheduler *scheduler, const uint64_t next[18], const uint64_t timer[4], uint64_t from)
{
    static_assert(DELAY_LEVELS == 18, "as the header says");
    const struct control *control = scheduler->attachment->control;
    memcpy(scheduler->slot.next, next, sizeof scheduler->slot.next);
    scheduler->slot.timer = (struct timer_progress){.known = timer[0], .due_ms = timer[1], .offset = timer[2], .floor = timer[3]};
    /* acquire: min_offset before files are removed */
    const uint64_t min = atomic_load_explicit(&control->min_offset.value, memory_order_acquire);
    scheduler->load_from = scheduler->load_at = from > min ? from : min;
    scheduler->load_end = UINT64_MAX;
}

/* The queues know how far they go. */
static void heed_queues(struct scheduler *scheduler)
{
    const struct topic_entry *topic = scheduler_topic(scheduler);
    struct delay_slot *slot = &scheduler->slot;
    for (uint32_t level = 0; topic && level < DELAY_LEVELS; level++) {
        /* relaxed: reput's position was acquired, and covers it [P1] */
        const uint64_t max = level < topic->slot_capacity ? atomic_load_explicit(
            &topics_queue(scheduler->attachment->topics, topic->first_slot + level)->max_offset, memory_order_relaxed) : 0;
        if (slot->next[level] > max) { /* the log was cut, or the files are another store's */
            slot->next[level] = max;
            memset(slot->done[level], 0, sizeof slot->done[level]);
        }
    }
}

/* False: not now. */
static bool look_at(struct scheduler *scheduler, const struct record_view *view)
{
    uint32_t level;
    uint64_t offset;
    if (delay_of_mark(view->prepared_offset, &level, &offset))
        delay_done(&scheduler->slot, level, offset);
    else if (!timer_of_mark(view->prepared_offset, &offset))
        return true;
    else if (!scheduler_mark(scheduler, offset))
        return false;
    const uint64_t end = view->physical_offset + view->total_size;
    if (scheduler->slot.end < end) /* else it is read again, for other marks */
        scheduler->slot.end = end;
    return true;
}

uint32_t scheduler_load(struct scheduler *scheduler)
{
    if (scheduler->load_end == UINT64_MAX) {
        /* A predecessor that died while it loaded may have put something into the lane (scheduler_missed.c). It is in the log, or
         * refused, before we read the log. */
        if (!put_lane_answered(&scheduler->put))
            return 0;
        /* acquire: the log's bytes before the position [W1] */
        scheduler->load_end = atomic_load_explicit(&scheduler->attachment->control->wrote.value, memory_order_acquire);
    }
    /* acquire: every queue's maximum before reput's position [P1] */
    if (!scheduler->missed.started &&
        (atomic_load_explicit(&scheduler->attachment->control->reput.value, memory_order_acquire) < scheduler->load_end ||
         !scheduler_begin_missed(scheduler)))
        return 0; /* at the next look */
    const uint64_t file_size = scheduler->log.file_size, from = scheduler->load_at;
    while (scheduler->load_at < scheduler->load_end && scheduler->load_at - from < LOAD_BYTES) {
        const uint64_t file_end = scheduler->load_at - scheduler->load_at % file_size + file_size;
        const uint64_t end = scheduler->load_end < file_end ? scheduler->load_end : file_end;
        const uint8_t *at = log_map_at(&scheduler->log, scheduler->load_at);
        const int error = at ? 0 : errno;
        struct record_view view;
        while (at && scheduler->load_at < end && scheduler->load_at - from < LOAD_BYTES) {
            if (record_parse(at, end - scheduler->load_at, &view) != RECORD_GOOD) {
                at = NULL;
                break;
            }
            if (!look_at(scheduler, &view))
                return 0; /* at the next look */
            at += view.total_size;
            scheduler->load_at += view.total_size;
        }
        if (!at && log_map_passing(error))
            return 0; /* at the next look */
        if (!at)
            scheduler->load_at = file_end; /* its end, or retention has removed it */
    }
    scheduler->read += scheduler->load_at - from;
    scheduler_let_go(scheduler);
    if (scheduler->load_at < scheduler->load_end)
        return (uint32_t)(scheduler->load_at - from);
    heed_queues(scheduler);
    const enum missed_result result = scheduler_find_missed(scheduler);
    if (result != MISSED_OVER)
        return result == MISSED_GOES_ON;
    CRASH_POINT("scheduler_load_done");
    scheduler->slot.lane = scheduler->put.out.position;
    delay_write(&scheduler->attachment->control->delay, &scheduler->slot);
    scheduler->known = true;
    return 1;
}

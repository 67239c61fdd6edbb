/* After a death of the whole tree, of the messages with a time: which are done, though orbitmq/delayed does not say so, and which were
 * passed over.
 *
 * The log's records name those that are done. In the order of keys, the cursor stood at the last of them at least. A message that is not
 * done, with a key below that, had come late, or the log had refused it. Those are put there now, before anything is written down, in
 * portions; then all is done up to that cursor. If we die meanwhile, a successor begins with the files again, and finds more in the log.
 * One that is not due, because the clock was set back, is waited for, and nothing else is delivered before it.
 */
#include "actors/scheduler_parts.h"
#include "base/crash_point.h"
#include "shared/verdict.h"

#include <stdlib.h>

bool scheduler_mark(struct scheduler *scheduler, uint64_t offset)
{
    struct missed *missed = &scheduler->missed;
    if (missed->count == missed->room) {
        const uint64_t room = missed->room ? 2 * missed->room : 1024;
        uint64_t *grown = realloc(missed->marked, room * sizeof *grown);
        if (!grown)
            return false;
        missed->marked = grown;
        missed->room = room;
    }
    missed->marked[missed->count++] = offset;
    missed->sorted = false;
    return true;
}

static int by_offset(const void *a, const void *b)
{
    const uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return first < second ? -1 : first > second;
}

static bool is_marked(const struct missed *missed, uint64_t offset)
{
    return missed->count && bsearch(&offset, missed->marked, missed->count, sizeof offset, by_offset);
}

/* The cursor: the largest key of those that the log names. False: not now. */
static bool find_cursor(struct scheduler *scheduler, const struct topic_entry *topic, uint64_t min, uint64_t max)
{
    struct missed *missed = &scheduler->missed;
    struct timer_progress *progress = &scheduler->slot.timer;
    struct timer_entry entry;
    for (uint64_t i = 0; i < missed->count; i++) {
        const uint64_t offset = missed->marked[i];
        if (offset < min || offset >= max)
            continue; /* the waiting one is gone */
        if (!timer_unit(&scheduler->timer, topic, offset, &entry))
            return false;
        if (timer_before(progress->due_ms, progress->offset, entry.due_ms, offset)) {
            progress->due_ms = entry.due_ms;
            progress->offset = offset;
        }
    }
    return true;
}

/* Puts those that the log lacks into the lane, from missed->at on. */
static void put_missed(struct scheduler *scheduler, const struct topic_entry *topic, uint64_t max)
{
    struct missed *missed = &scheduler->missed;
    const struct timer_progress *progress = &scheduler->slot.timer, *before = &missed->before;
    struct timer_entry entry;
    const uint64_t now_ms = clock_real_ms() + (uint64_t)scheduler->ahead_ms[0];
    missed->from = missed->at;
    missed->counted = scheduler->put.out.position;
    for (uint32_t put = 0; missed->at < max && put < TIMER_PORTION; missed->at++) {
        if (!timer_unit(&scheduler->timer, topic, missed->at, &entry))
            break;
        if (!timer_reached(progress, entry.due_ms, entry.offset) || is_marked(missed, entry.offset) ||
            (entry.offset < before->known && timer_reached(before, entry.due_ms, entry.offset)))
            continue;
        if (entry.due_ms > now_ms) { /* the clock was set back */
            scheduler->retry_ms = clock_ms() + RETRY_MS;
            break;
        }
        const struct queue_unit unit = {entry.physical_offset, entry.size, (int64_t)entry.due_ms};
        const enum image_result result = scheduler_put(scheduler, KIND_TIMER, entry.offset, &unit);
        if (result == IMAGE_FULL || result == IMAGE_LATER)
            break;
        put += result == IMAGE_PUT;
    }
    if (put_lane_ahead(&scheduler->put, missed->counted))
        put_lane_publish(&scheduler->put);
    CRASH_POINT("scheduler_missed_put");
}

/* What became of a portion. If any was refused, the portion is made again, without those that were not. */
static bool settle_missed(struct scheduler *scheduler)
{
    struct missed *missed = &scheduler->missed;
    struct put_note note;
    bool refused = false;
    struct ring_consumer look = put_lane_notes(&scheduler->put, missed->counted);
    while (put_lane_next(&scheduler->put, &look, &note)) {
        if (note.code != VERDICT_APPENDED)
            refused = true;
        else if (!scheduler_mark(scheduler, note.name.number))
            return false;
        if (note.code == VERDICT_APPENDED && scheduler->slot.end < note.end)
            scheduler->slot.end = note.end;
    }
    missed->counted = scheduler->put.out.position;
    if (refused) {
        missed->at = missed->from;
        scheduler->retry_ms = clock_ms() + RETRY_MS;
    }
    return true;
}

bool scheduler_find_missed(struct scheduler *scheduler)
{
    struct missed *missed = &scheduler->missed;
    const struct topic_entry *topic = scheduler_timer_topic(scheduler);
    if (topic) {
        const struct queue_slot *queue = topics_queue(scheduler->tree->topics, topic->first_slot);
        /* acquire: the units before max_offset [Q1]; min_offset: raised before files are removed [O1] */
        const uint64_t max = atomic_load_explicit(&queue->max_offset, memory_order_acquire);
        const uint64_t min = atomic_load_explicit(&queue->min_offset, memory_order_acquire);
        if (!put_lane_answered(&scheduler->put))
            return false;
        if (!missed->started) {
            missed->before = scheduler->slot.timer;
            missed->at = scheduler->slot.timer.floor > min ? scheduler->slot.timer.floor : min;
            missed->counted = scheduler->put.out.position;
            if (!find_cursor(scheduler, topic, min, max))
                return false;
            missed->started = true;
        }
        if (!settle_missed(scheduler))
            return false;
        if (!missed->sorted)
            qsort(missed->marked, missed->count, sizeof *missed->marked, by_offset);
        missed->sorted = true;
        if (missed->at < min)
            missed->at = min;
        if (missed->at < max) {
            if (scheduler->slot.timer.due_ms || scheduler->slot.timer.offset)
                put_missed(scheduler, topic, max);
            else
                missed->at = max; /* none was ever put there */
        }
        if (missed->at < max || !put_lane_answered(&scheduler->put) || missed->counted != scheduler->put.out.position)
            return false;
        scheduler->slot.timer.known = missed->at;
    }
    free(missed->marked);
    *missed = (struct missed){0};
    timer_again(&scheduler->timer);
    return true;
}

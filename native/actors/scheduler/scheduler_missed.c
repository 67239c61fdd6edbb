/* After a death of the whole tree, of the messages with a time: which are done, though orbitmq/delayed does not say so, and which were
 * passed over.
 *
 * The log's records name those that are done; a bit for each message remembers which. There are MISSED_UNITS of them: where more wait,
 * because orbitmq/delayed was damaged, the queue is gone through in pieces, and the log is read for each. So memory is bounded.
 * In the order of keys, the cursor stood at the last of those that are done at least. A message that is not
 * done, with a key below that, had come late, or the log had refused it. Those are put there now, before anything is written down, in
 * portions; then all is done up to that cursor. If we die meanwhile, a successor begins with the files again, and finds more in the log.
 * If the clock was set back, such a message may not be due: then it is waited for, and nothing else is delivered before it.
 */
#include "actors/scheduler/scheduler_parts.h"
#include "base/crash_point.h"
#include "shared/verdict.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool scheduler_begin_missed(struct scheduler *scheduler)
{
    struct missed *missed = &scheduler->missed;
    struct timer_progress *progress = &scheduler->slot.timer;
    const struct topic_entry *topic = scheduler_timer_topic(scheduler);
    const struct queue_slot *queue = topic ? topics_queue(scheduler->attachment->topics, topic->first_slot) : NULL;
    /* relaxed: reput's position was acquired, and covers it [P1]. acquire, of min_offset: raised before files are removed [O1] */
    const uint64_t max = queue ? atomic_load_explicit(&queue->max_offset, memory_order_relaxed) : 0;
    const uint64_t min = queue ? atomic_load_explicit(&queue->min_offset, memory_order_acquire) : 0;
    if (progress->known > max) /* the log was cut, or the files are another store's */
        progress->known = max;
    if (progress->floor > progress->known)
        progress->floor = progress->known;
    const uint64_t at = progress->floor > min ? progress->floor : min, left = max > at ? max - at : 0;
    const uint64_t units = left < missed->most ? left : missed->most;
    if (!(missed->marked = calloc(units / 64 + 1, sizeof *missed->marked)))
        return false;
    missed->units = units;
    missed->base = missed->at = missed->cancels_at = at;
    missed->max = max;
    missed->before = *progress;
    missed->counted = scheduler->put.out.position;
    missed->started = true;
    return true;
}

static void mark(struct missed *missed, uint64_t offset)
{
    const uint64_t at = offset - missed->base; /* very large if the offset is before base */
    if (at < missed->units)
        missed->marked[at / 64] |= UINT64_C(1) << (at % 64);
}

static bool is_marked(const struct missed *missed, uint64_t offset)
{
    const uint64_t at = offset - missed->base;
    assert(at < missed->units);
    return missed->marked[at / 64] >> (at % 64) & 1;
}

bool scheduler_mark(struct scheduler *scheduler, uint64_t offset)
{
    struct missed *missed = &scheduler->missed;
    struct timer_progress *progress = &scheduler->slot.timer;
    struct timer_entry entry;
    const struct topic_entry *topic = scheduler_timer_topic(scheduler);
    if (offset >= missed->max)
        return true;
    const struct queue_slot *queue = topics_queue(scheduler->attachment->topics, topic->first_slot);
    /* acquire: raised before files are removed [O1] */
    if (offset < atomic_load_explicit(&queue->min_offset, memory_order_acquire))
        return true; /* the waiting one is gone */
    if (!timer_unit(&scheduler->timer, topic, offset, &entry))
        return false;
    if (timer_before(progress->due_ms, progress->offset, entry.due_ms, offset)) {
        progress->due_ms = entry.due_ms;
        progress->offset = offset;
    }
    mark(missed, offset);
    return true;
}

/* Marks messages of this piece that were cancelled: they are not to come. A piece of the queue behind them; false: it cannot go on now. */
static bool mark_cancelled(struct scheduler *scheduler, const struct topic_entry *topic)
{
    struct missed *missed = &scheduler->missed;
    struct timer_entry entry;
    for (uint32_t n = 0; missed->cancels_at < missed->max && n < scheduler->timer.most; n++, missed->cancels_at++) {
        if (!timer_unit(&scheduler->timer, topic, missed->cancels_at, &entry))
            return false;
        if (entry.cancels && entry.due_ms < entry.offset)
            mark(missed, entry.due_ms);
    }
    return true;
}

/* Puts those that the log lacks into the lane, from missed->at on. False: it cannot go on now. */
static bool put_missed(struct scheduler *scheduler, const struct topic_entry *topic)
{
    struct missed *missed = &scheduler->missed;
    const struct timer_progress *progress = &scheduler->slot.timer, *before = &missed->before;
    struct timer_entry entry;
    const uint64_t now_ms = clock_real_ms() + (uint64_t)scheduler->ahead_ms[0];
    const uint64_t end = missed->base + missed->units;
    bool goes_on = true;
    missed->from = missed->at;
    missed->counted = scheduler->put.out.position;
    for (uint32_t put = 0; missed->at < end && missed->at - missed->from < scheduler->timer.most && put < TIMER_PORTION; missed->at++) {
        if (!timer_unit(&scheduler->timer, topic, missed->at, &entry)) {
            goes_on = false;
            break;
        }
        if (entry.cancels || !timer_reached(progress, entry.due_ms, entry.offset) || is_marked(missed, entry.offset) ||
            (entry.offset < before->known && timer_reached(before, entry.due_ms, entry.offset)))
            continue;
        if (entry.due_ms > now_ms) { /* the clock was set back */
            scheduler->retry_ms = clock_ms() + RETRY_MS;
            goes_on = false;
            break;
        }
        const struct queue_unit unit = {entry.physical_offset, entry.size, (int64_t)entry.due_ms};
        const enum image_result result = scheduler_put(scheduler, KIND_TIMER, entry.offset, &unit);
        if (result == IMAGE_FULL || result == IMAGE_LATER) {
            goes_on = false;
            break;
        }
        put += result == IMAGE_PUT;
    }
    if (put_lane_ahead(&scheduler->put, missed->counted)) {
        put_lane_publish(&scheduler->put);
        goes_on = false; /* once the writer has answered */
    }
    CRASH_POINT("scheduler_missed_put");
    return goes_on;
}

/* What became of a portion. If any was refused, the portion is made again, without those that were not. */
static void settle_missed(struct scheduler *scheduler)
{
    struct missed *missed = &scheduler->missed;
    struct put_note note;
    bool refused = false;
    struct ring_consumer look = put_lane_notes(&scheduler->put, missed->counted);
    while (put_lane_next(&scheduler->put, &look, &note)) {
        if (note.code != VERDICT_APPENDED) {
            refused = true;
            continue;
        }
        mark(missed, note.name.number);
        if (scheduler->slot.end < note.end)
            scheduler->slot.end = note.end;
    }
    missed->counted = scheduler->put.out.position;
    if (refused) {
        missed->at = missed->from;
        scheduler->retry_ms = clock_ms() + RETRY_MS;
    }
}

/* The next piece of the queue: the log is read again for it. */
static void go_further(struct scheduler *scheduler)
{
    struct missed *missed = &scheduler->missed;
    const uint64_t left = missed->max - missed->at;
    memset(missed->marked, 0, (missed->units / 64 + 1) * sizeof *missed->marked);
    missed->base = missed->cancels_at = missed->at;
    missed->units = left < missed->units ? left : missed->units;
    scheduler->load_at = scheduler->load_from;
}

enum missed_result scheduler_find_missed(struct scheduler *scheduler)
{
    struct missed *missed = &scheduler->missed;
    struct timer_progress *progress = &scheduler->slot.timer;
    const struct topic_entry *topic = scheduler_timer_topic(scheduler);
    if (!put_lane_answered(&scheduler->put))
        return MISSED_WAITS;
    settle_missed(scheduler);
    if (topic) {
        const struct queue_slot *queue = topics_queue(scheduler->attachment->topics, topic->first_slot);
        /* acquire: raised before files are removed [O1] */
        const uint64_t min = atomic_load_explicit(&queue->min_offset, memory_order_acquire);
        if (missed->at < min)
            missed->at = min;
        if (missed->cancels_at < min)
            missed->cancels_at = min;
    }
    const uint64_t end = missed->base + missed->units;
    if (!progress->due_ms && !progress->offset && missed->at < missed->max)
        missed->at = missed->max; /* none was ever put there */
    if (missed->at < end && missed->cancels_at < missed->max)
        return mark_cancelled(scheduler, topic) ? MISSED_GOES_ON : MISSED_WAITS;
    if (missed->at < end && (scheduler->retry_ms > clock_ms() || !put_missed(scheduler, topic)))
        return MISSED_WAITS;
    if (missed->at < end)
        return MISSED_GOES_ON;
    if (missed->at < missed->max) {
        go_further(scheduler);
        return MISSED_GOES_ON;
    }
    progress->known = missed->at;
    free(missed->marked);
    missed->marked = NULL;
    timer_again(&scheduler->timer);
    return MISSED_OVER;
}

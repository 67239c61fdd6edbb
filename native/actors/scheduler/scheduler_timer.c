/* What is due of the messages with a time. */
#include "actors/scheduler/scheduler_parts.h"

const struct topic_entry *scheduler_timer_topic(const struct scheduler *scheduler)
{
    const struct topics *topics = scheduler->attachment->topics;
    const uint32_t index = topics_find(topics, (const uint8_t *)TIMER_TOPIC, sizeof TIMER_TOPIC - 1);
    return index == TOPIC_NONE ? NULL : &topics->topic[index];
}

/* What retention has removed does not wait any more. */
static void heed_minimum(struct scheduler *scheduler, uint64_t min)
{
    if (scheduler->slot.timer.floor >= min)
        return;
    timer_raise(&scheduler->timer, min);
    scheduler->changed = true;
}

/* Puts an entry into the portion, unless the result is IMAGE_FULL or IMAGE_LATER. */
static enum image_result put(struct scheduler *scheduler, const struct timer_entry *entry, bool late, uint64_t now_ms)
{
    const struct queue_unit unit = {entry->physical_offset, entry->size, (int64_t)entry->due_ms};
    const enum image_result result = scheduler_put(scheduler, KIND_TIMER, entry->offset, &unit);
    if (result != IMAGE_PUT && result != IMAGE_GONE)
        return result;
    if (result == IMAGE_GONE)
        count(scheduler->attachment->page, COUNT_REJECTED, 1);
    else
        scheduler_note_late(scheduler, entry->due_ms, now_ms);
    timer_take(&scheduler->timer, entry, late, result == IMAGE_PUT);
    return result;
}

/* Messages that were cancelled keep files of the log until the queue is read again. */
static bool keeps_cancelled(const struct scheduler *scheduler)
{
    const struct timer *timer = &scheduler->timer;
    const uint64_t now_ms = clock_ms() + (uint64_t)scheduler->ahead_ms[1];
    return timer->cancels && now_ms - timer->begun_ms > CANCELS_MS && timer->read >= timer->scanned;
}

static bool full(const struct scheduler *scheduler)
{
    return timer_full(&scheduler->timer) || put_lane_ahead(&scheduler->put, scheduler->slot.lane) >= PORTION_BYTES;
}

bool scheduler_put_timer(struct scheduler *scheduler, uint64_t now_ms)
{
    const struct topic_entry *topic = scheduler_timer_topic(scheduler);
    if (!topic)
        return true;
    struct timer *timer = &scheduler->timer;
    const struct queue_slot *queue = topics_queue(scheduler->attachment->topics, topic->first_slot);
    /* acquire: the units before max_offset [Q1]; min_offset: raised before files are removed [O1] */
    const uint64_t max = atomic_load_explicit(&queue->max_offset, memory_order_acquire);
    scheduler->seen = max;
    heed_minimum(scheduler, atomic_load_explicit(&queue->min_offset, memory_order_acquire));
    struct timer_entry late;
    enum timer_look look;
    enum image_result result = IMAGE_PUT;
    bool room = true;
    const uint64_t from = timer->read, floor = timer->progress->floor;
    /* If the clock was set back, one that came late is perhaps not due yet; those behind it wait for it. */
    while ((look = timer_read(timer, topic, max, &late)) == TIMER_LATE && late.due_ms <= now_ms && room && result != IMAGE_LATER) {
        room = !full(scheduler) && !scheduler_must_keep(scheduler);
        if (room)
            result = put(scheduler, &late, true, now_ms);
        room = room && result != IMAGE_FULL;
    }
    if (look == TIMER_MORE && timer->read > from && timer->behind <= from)
        timer->behind = max;
    else if (look == TIMER_LATE && late.due_ms > now_ms)
        timer->behind = 0;
    const struct timer_entry *first = NULL;
    while (room && result != IMAGE_LATER && (first = timer_first(timer)) && first->due_ms <= now_ms) {
        const struct timer_entry due = *first;
        room = !full(scheduler) && !scheduler_must_keep(scheduler);
        if (room)
            result = put(scheduler, &due, false, now_ms);
        room = room && result != IMAGE_FULL;
    }
    if (result == IMAGE_LATER || (look == TIMER_MORE && timer->read == from))
        scheduler->retry_ms = clock_ms() + RETRY_MS; /* short of something */
    else if (look == TIMER_MORE)
        scheduler->changed = true; /* something was done: the next step reads on */
    else if (look == TIMER_LATE && late.due_ms > now_ms && late.due_ms < scheduler->due_ms)
        scheduler->due_ms = late.due_ms;
    else if (room && first && first->due_ms < scheduler->due_ms)
        scheduler->due_ms = first->due_ms;
    const bool advanced = timer->put == 0 && timer_advance(timer);
    if (advanced || timer->progress->floor != floor)
        scheduler->changed = true; /* a reading raises the floor, too */
    if (room && timer->put == 0 && (timer_low(timer) || keeps_cancelled(scheduler)) && (!first || first->due_ms > now_ms + TIMER_QUIET_MS)) {
        timer_again(timer);
        scheduler->changed = true; /* something was done: the next step reads */
    }
    return room;
}

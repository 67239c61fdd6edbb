#include "actors/scheduler/scheduler_parts.h"
#include "base/crash_point.h"
#include "shared/verdict.h"

#include <stdlib.h>
#include <string.h>

#define MAPPED_BYTES (8u << 20)   /* of the log that may be read before its mappings are made anew */

struct scheduler *scheduler_open(struct attachment *attachment)
{
    const struct settings *settings = &attachment->control->settings;
    struct scheduler *scheduler = calloc(1, sizeof *scheduler);
    if (!scheduler)
        return NULL;
    scheduler->attachment = attachment;
    scheduler->due_ms = UINT64_MAX;
    scheduler->missed.most = MISSED_UNITS;
    log_map_open(&scheduler->log, settings->store, settings->log_file_size, false);
    put_lane_open(&scheduler->put, attachment, OWN_LANE_SCHEDULER);
    uint64_t version;
    delay_read(&attachment->control->delay, &scheduler->slot, &version);
    scheduler->known = version > 0;
    if (scheduler->known)
        delay_count(&attachment->control->delay, &scheduler->slot);
    if (!timer_open(&scheduler->timer, settings->store, settings->queue_file_units, &scheduler->slot.timer, &attachment->control->delay)) {
        scheduler_close(scheduler);
        return NULL;
    }
    return scheduler;
}

static void close_mappings(struct scheduler *scheduler)
{
    const struct settings *settings = &scheduler->attachment->control->settings;
    log_map_close(&scheduler->log);
    for (uint32_t level = 0; level < DELAY_LEVELS; level++)
        consume_queue_reader_close(&scheduler->levels[level].units, settings->queue_file_units);
    timer_unmap(&scheduler->timer);
}

void scheduler_close(struct scheduler *scheduler)
{
    close_mappings(scheduler);
    timer_close(&scheduler->timer);
    free(scheduler->missed.marked);
    free(scheduler);
}

void scheduler_let_go(struct scheduler *scheduler)
{
    const struct settings *settings = &scheduler->attachment->control->settings;
    if (scheduler->read < MAPPED_BYTES)
        return;
    close_mappings(scheduler);
    log_map_open(&scheduler->log, settings->store, settings->log_file_size, false);
    scheduler->read = 0;
}

void scheduler_set_clocks(struct scheduler *scheduler, int64_t real_ms, int64_t monotonic_ms)
{
    scheduler->ahead_ms[0] = real_ms;
    scheduler->ahead_ms[1] = monotonic_ms;
}

void scheduler_set_room(struct scheduler *scheduler, uint32_t room) { scheduler->timer.room = room; }

void scheduler_set_most(struct scheduler *scheduler, uint32_t most)
{
    scheduler->timer.most = most;
    scheduler->missed.most = 8 * most;
}

bool scheduler_knows(const struct scheduler *scheduler) { return scheduler->known; }

void scheduler_kept(struct scheduler *scheduler)
{
    scheduler->kept = true;
    scheduler->needs_kept = false;
    scheduler->retry_ms = 0;
}

void scheduler_not_kept(struct scheduler *scheduler)
{
    scheduler->needs_kept = false;
    scheduler->retry_ms = clock_ms() + RETRY_MS;
}

const struct topic_entry *scheduler_topic(const struct scheduler *scheduler)
{
    const struct topics *topics = scheduler->attachment->topics;
    const uint32_t index = topics_find(topics, (const uint8_t *)DELAY_TOPIC, sizeof DELAY_TOPIC - 1);
    return index == TOPIC_NONE ? NULL : &topics->topic[index];
}

/* ---- counting ------------------------------------------------------------------------------------------------------ */

/* Something was published, by us or by a predecessor, that is not counted yet. */
static bool pending(const struct scheduler *scheduler) { return put_lane_ahead(&scheduler->put, scheduler->slot.lane) > 0; }

/* Messages with a time: all of the portion, or some of it, or a predecessor's, of which we know no more than the notes. */
static void settle_timer(struct scheduler *scheduler, uint32_t appended)
{
    struct put_note note;
    if (appended == scheduler->timer.put) {
        timer_advance(&scheduler->timer);
        return;
    }
    if (appended == 0 && timer_put_back(&scheduler->timer)) {
        timer_advance(&scheduler->timer); /* what was read counts: cancels are told, though the log takes no more */
        return;
    }
    struct ring_consumer look = put_lane_notes(&scheduler->put, scheduler->slot.lane);
    while (put_lane_next(&scheduler->put, &look, &note))
        if (note.name.kind == KIND_TIMER && note.code == VERDICT_APPENDED)
            timer_add_extra(&scheduler->slot.timer, note.name.number);
    timer_again(&scheduler->timer);
}

/* Reads what the writer noted, and counts. What it refused is tried again. */
static uint32_t settle(struct scheduler *scheduler)
{
    struct put_note note;
    uint32_t appended = 0, refused = 0, timed = 0;
    struct ring_consumer look = put_lane_notes(&scheduler->put, scheduler->slot.lane);
    while (put_lane_next(&scheduler->put, &look, &note)) {
        assert(note.name.kind <= KIND_TIMER);
        timed += note.name.kind == KIND_TIMER && note.code == VERDICT_APPENDED;
        if (note.code == VERDICT_APPENDED) {
            if (note.name.kind < KIND_TIMER)
                delay_done(&scheduler->slot, note.name.kind, note.name.number);
            if (scheduler->slot.end < note.end)
                scheduler->slot.end = note.end;
            appended++;
        } else {
            refused++;
        }
    }
    settle_timer(scheduler, timed);
    CRASH_POINT("scheduler_read_notes");
    scheduler->slot.lane = scheduler->put.out.position;
    delay_write(&scheduler->attachment->control->delay, &scheduler->slot);
    scheduler->changed = false;
    if (refused) {
        count(scheduler->attachment->page, COUNT_FULL, refused);
        scheduler->retry_ms = clock_ms() + RETRY_MS;
    }
    count(scheduler->attachment->page, COUNT_STEPS, 1);
    count(scheduler->attachment->page, COUNT_MESSAGES, appended);
    return appended + refused;
}

bool scheduler_seen(const struct control *control, const struct lane *lane, struct delay_seen *seen)
{
    struct delay_slot slot;
    uint64_t version;
    delay_read(&control->delay, &slot, &version);
    memcpy(seen->next, slot.next, sizeof seen->next);
    memcpy(seen->timer, &slot.timer, sizeof seen->timer);
    seen->end = slot.end;
    return version && slot.lane == ring_tail_position(&lane->ring) && !delay_has_gap(&slot);
}

/* ---- what is due --------------------------------------------------------------------------------------------------- */

bool scheduler_must_keep(struct scheduler *scheduler)
{
    if (!scheduler->kept)
        scheduler->needs_kept = true;
    return !scheduler->kept;
}

void scheduler_note_late(struct scheduler *scheduler, uint64_t due_ms, uint64_t now_ms)
{
    histogram_record(&scheduler->attachment->page->histogram, now_ms > due_ms ? now_ms - due_ms : 0);
}

/* Publishes one portion. Returns whether there was anything to do. */
static uint32_t put_portion(struct scheduler *scheduler)
{
    const struct topic_entry *topic = scheduler_topic(scheduler);
    scheduler->due_ms = UINT64_MAX;
    const uint64_t now_ms = clock_real_ms() + (uint64_t)scheduler->ahead_ms[0];
    /* relaxed: the number of queues only grows */
    const uint32_t queues = topic ? atomic_load_explicit(&topic->queues, memory_order_relaxed) : 0;
    const uint32_t levels = queues < DELAY_LEVELS ? queues : DELAY_LEVELS;
    /* Each in turn is the first; the messages with a time are as one level more. */
    bool room = true;
    for (uint32_t i = 0; i <= levels && room; i++) {
        const uint32_t which = (scheduler->turn + i) % (levels + 1);
        room = which < levels ? scheduler_put_level(scheduler, topic, which, now_ms) : scheduler_put_timer(scheduler, now_ms);
    }
    if (!room)
        scheduler->due_ms = 0; /* those that had no turn */
    scheduler->turn = (scheduler->turn + 1) % (levels + 1);
    if (pending(scheduler)) {
        put_lane_publish(&scheduler->put);
    } else if (scheduler->changed) {
        delay_write(&scheduler->attachment->control->delay, &scheduler->slot);
        scheduler->changed = false;
        return 1;
    }
    scheduler_let_go(scheduler);
    return pending(scheduler);
}

uint32_t scheduler_step(struct scheduler *scheduler)
{
    if (scheduler->attachment->control->settings.read_only)
        return 0;
    if (!scheduler->known)
        return scheduler->retry_ms > clock_ms() ? 0 : scheduler_load(scheduler);
    if (pending(scheduler))
        return put_lane_answered(&scheduler->put) ? settle(scheduler) : 0;
    if (scheduler->retry_ms > clock_ms())
        return 0;
    return put_portion(scheduler);
}

/* ---- loop ---------------------------------------------------------------------------------------------------------- */

/* Until the next message is due, or the next look. The shortest delay of a level is far longer than BELL_LIMIT_NS, so a message of
 * one that comes meanwhile is seen before it is due. For one with a time that is before `delay_wakes_ms`, reput rings. */
static uint64_t rest_ns(const struct scheduler *scheduler)
{
    if (scheduler->due_ms >= UINT64_MAX / 1000000u || scheduler->retry_ms > clock_ms())
        return BELL_LIMIT_NS;
    const uint64_t now_ns = clock_read_ns(CLOCK_REALTIME), due_ns = scheduler->due_ms * 1000000u;
    return due_ns <= now_ns ? 1 : due_ns - now_ns < BELL_LIMIT_NS ? due_ns - now_ns : BELL_LIMIT_NS;
}

/* Messages with a time have come that were not looked at. */
static bool has_arrivals(const void *of)
{
    const struct scheduler *scheduler = of;
    const struct topic_entry *topic = scheduler_timer_topic(scheduler);
    /* relaxed: the announcement's fence orders it after `delay_wakes_ms` [K2] */
    return topic && atomic_load_explicit(&topics_queue(scheduler->attachment->topics, topic->first_slot)->max_offset, memory_order_relaxed) >
                        scheduler->seen;
}

static enum bell_wake rest(struct scheduler *scheduler)
{
    const bool awaits = scheduler->known ? pending(scheduler) : !put_lane_answered(&scheduler->put);
    _Atomic uint64_t *wakes_ms = &scheduler->attachment->control->delay_wakes_ms;
    if (awaits || !scheduler->known || scheduler->retry_ms > clock_ms())
        return put_lane_rest(&scheduler->put, awaits, BELL_LIMIT_NS, NULL, NULL);
    const uint64_t limit_ns = rest_ns(scheduler);
    /* relaxed, both: the announcement's fence orders the first before our look at max_offset; the second costs a needless ring [K2] */
    atomic_store_explicit(wakes_ms, clock_real_ms() + limit_ns / 1000000u, memory_order_relaxed);
    const enum bell_wake wake = put_lane_rest(&scheduler->put, false, limit_ns, has_arrivals, scheduler);
    atomic_store_explicit(wakes_ms, 0, memory_order_relaxed);
    return wake;
}

enum run_result scheduler_run(struct scheduler *scheduler, uint32_t limit_ms)
{
    const uint64_t end = clock_ms() + limit_ms;
    for (;;) {
        const uint32_t done = scheduler_step(scheduler);
        attachment_beat(scheduler->attachment);
        if (scheduler->needs_kept)
            return RUN_NEED;
        if (!done && rest(scheduler) == BELL_SIGNAL)
            return RUN_SIGNAL;
        if (clock_ms() >= end)
            return RUN_TIME;
    }
}

bool scheduler_drain(struct scheduler *scheduler, uint32_t limit_ms)
{
    const uint64_t end = clock_ms() + limit_ms;
    while (scheduler->known && pending(scheduler) && clock_ms() < end)
        if (put_lane_answered(&scheduler->put))
            settle(scheduler);
        else
            rest(scheduler);
    return !scheduler->known || !pending(scheduler);
}

#include "actors/dispatcher/dispatcher_parts.h"
#include <stdlib.h>
#include <string.h>

#define PUT_LOOK_NS 1000000u /* between two looks at whether the writer has taken a portion */

struct dispatcher *dispatcher_open(struct attachment *attachment)
{
    struct dispatcher *dispatcher = calloc(1, sizeof *dispatcher);
    if (!dispatcher)
        return NULL;
    dispatcher->attachment = attachment;
    dispatcher->pace = pace_start();
    /* relaxed: what was there before us */
    dispatcher->log_end = atomic_load_explicit(&attachment->control->wrote.value, memory_order_relaxed);
    log_map_open(&dispatcher->log, attachment->control->settings.store, attachment->control->settings.log_file_size, false);
    return dispatcher;
}

void dispatcher_know(struct dispatcher *dispatcher, uint32_t most) { dispatcher->known_max = most; }

void dispatcher_boot(struct dispatcher *dispatcher, const uint8_t *boot) { memcpy(dispatcher->boot, boot, sizeof dispatcher->boot); }

static bool needs_plan(const struct dispatcher *dispatcher)
{
    return !dispatcher->planned || control_work_version(dispatcher->attachment->control) != dispatcher->work_version;
}

static uint32_t look_at_queues(struct dispatcher *dispatcher, uint64_t now_ms)
{
    uint32_t messages = 0;
    for (uint32_t g = 0; g < dispatcher->group_count; g++) {
        struct work_group *group = dispatcher->groups[g];
        for (uint32_t i = 0; i < group->queue_count; i++) {
            messages += work_queue_expire(group->queues[i], now_ms);
            dispatcher_raise(group->queues[i]);
        }
        messages += dispatcher_hand_out(dispatcher, group, now_ms);
    }
    return messages;
}

uint32_t dispatcher_step(struct dispatcher *dispatcher)
{
    if (!dispatcher->planned || !dispatcher_load(dispatcher))
        return 0;
    const uint32_t heard = dispatcher_look_at_sessions(dispatcher);
    const uint64_t now_ms = clock_ms();
    const uint32_t answered = heard + dispatcher_take_answers(dispatcher, now_ms);
    dispatcher->passed = 0;
    const uint32_t handed = look_at_queues(dispatcher, now_ms);
    const uint32_t put = dispatcher_put(dispatcher, now_ms);
    if (answered || handed) {
        struct actor_page *page = dispatcher->attachment->page;
        count(page, COUNT_STEPS, 1);
        count(page, COUNT_MESSAGES, handed);
        if (handed)
            histogram_record(&page->histogram, handed);
    }
    return answered + handed + put + dispatcher->passed;
}

static bool has_news(struct dispatcher *dispatcher)
{
    /* acquire: as in dispatcher_look_at_sessions; after the announcement's fence [B1] */
    if (needs_plan(dispatcher) || !dispatcher->looked ||
        dispatcher->sessions_version != atomic_load_explicit(&dispatcher->attachment->control->sessions_version, memory_order_acquire))
        return true;
    for (uint32_t g = 0; g < dispatcher->group_count; g++)
        if (dispatcher_can_hand_out(dispatcher, dispatcher->groups[g]))
            return true;
    return dispatcher_answered(dispatcher) || dispatcher_has_to_put(dispatcher, clock_ms()) ||
           (dispatcher_putting(dispatcher) && put_lane_answered(&dispatcher->put));
}

/* Until the next message is due, and at most BELL_LIMIT_NS. */
static uint64_t sleep_limit(const struct dispatcher *dispatcher)
{
    const uint64_t now_ms = clock_ms();
    /* The writer's answer rings another bell; what is put is not in a hurry. */
    uint64_t limit = dispatcher_putting(dispatcher) ? PUT_LOOK_NS : BELL_LIMIT_NS;
    for (uint32_t g = 0; g < dispatcher->group_count; g++)
        for (uint32_t i = 0; i < dispatcher->groups[g]->queue_count; i++) {
            const struct work_queue *queue = dispatcher->groups[g]->queues[i];
            const uint64_t due_ms = queue->due_ms > queue->scan_ms ? queue->due_ms : queue->scan_ms;
            const uint64_t left_ns = due_ms <= now_ms ? 1000000u : (due_ms - now_ms) < 1000 ? (due_ms - now_ms) * 1000000u : BELL_LIMIT_NS;
            if (left_ns < limit)
                limit = left_ns;
        }
    return limit;
}

/* Tells workers whether others wait for what they acknowledge: then they ring for each answer. */
static void heed_answers(const struct dispatcher *dispatcher)
{
    for (uint32_t g = 0; g < dispatcher->group_count; g++) {
        const struct work_group *group = dispatcher->groups[g];
        bool heeded = order_waits(group) || group->queue_ordered;
        for (uint32_t i = 0; i < group->queue_count; i++)
            heeded |= group->queues[i]->frontier - group->queues[i]->floor >= WORK_WINDOW;
        for (uint32_t i = 0; i < group->worker_count; i++) {
            _Atomic uint32_t *word = &dispatcher->attachment->control->sessions[group->workers[i]->slot].heeded;
            /* relaxed, both: only we write it, and the announcement's fence stands between this and the look for answers. Pairs with
             * waited_for [J5]. */
            if (atomic_load_explicit(word, memory_order_relaxed) != heeded)
                atomic_store_explicit(word, heeded, memory_order_relaxed);
        }
    }
}

static enum bell_wake wait_for_news(struct dispatcher *dispatcher)
{
    struct bell *bell = &dispatcher->attachment->wake->dispatcher;
    heed_answers(dispatcher);
    const uint32_t ticket = bell_announce(bell);
    if (has_news(dispatcher)) {
        bell_cancel(bell, ticket);
        return BELL_RUNG;
    }
    count(dispatcher->attachment->page, COUNT_SLEEPS, 1);
    return bell_sleep(bell, ticket, sleep_limit(dispatcher));
}

enum run_result dispatcher_run(struct dispatcher *dispatcher, uint32_t limit_ms)
{
    struct attachment *attachment = dispatcher->attachment;
    const uint64_t end = clock_ms() + limit_ms;
    const uint64_t spin_ns = (uint64_t)attachment->control->settings.spin_us * 1000u;
    for (;;) {
        enum bell_wake wake = BELL_RUNG;
        if (needs_plan(dispatcher))
            return RUN_NEED;
        const uint32_t done = dispatcher_step(dispatcher);
        if (done) {
            pace_work(&dispatcher->pace, done);
        } else {
            const enum pace_rest rest = pace_idle(&dispatcher->pace, dispatcher->group_count ? spin_ns : 0, control_crowded(attachment->control));
            wake = rest == PACE_SLEEP ? wait_for_news(dispatcher) : rest == PACE_SIGNAL ? BELL_SIGNAL : BELL_RUNG;
        }
        attachment_beat(attachment);
        if (dispatcher->missing[0])
            return RUN_NEED;
        if (wake == BELL_SIGNAL)
            return RUN_SIGNAL;
        if (clock_ms() >= end)
            return RUN_TIME;
    }
}

void dispatcher_missing(struct dispatcher *dispatcher, char name[128])
{
    memcpy(name, dispatcher->missing, sizeof dispatcher->missing);
    dispatcher->missing[0] = 0;
}

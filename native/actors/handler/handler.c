/* The send handler: its life and its loop. Which sessions have news, whose turn it is, when to sleep; handler_intake.c takes the frames. */
#include "actors/handler/handler_parts.h"
#include "base/crash_point.h"
#include <stdlib.h>

#define ENDS_FIRST 4u /* steps that begin with ends of transactions, for each that begins with sends */

static bool ours(const struct handler *handler, uint32_t slot)
{
    return session_lane(&handler->attachment->control->settings, slot) == handler->index;
}

static void all_pending(struct handler *handler)
{
    for (uint32_t slot = handler->index; slot < SESSIONS_MAX; slot += handler_lanes(&handler->attachment->control->settings))
        if (handler->attachment->control->sessions[slot].shape.epoch)
            handler->pending[slot / 64] |= UINT64_C(1) << (slot % 64);
}

struct handler *handler_open(struct attachment *attachment, uint32_t lane)
{
    assert(lane < handler_lanes(&attachment->control->settings) && attachment->lanes[lane]);
    struct handler *handler = calloc(1, sizeof *handler);
    if (!handler)
        return NULL;
    handler->attachment = attachment;
    handler->index = lane;
    handler->lane = attachment->lanes[lane];
    handler->last_topic = TOPIC_NONE;
    handler->pace = pace_start();
    log_map_open(&handler->log, attachment->control->settings.store, attachment->control->settings.log_file_size, false);
    handler->step_bytes = handler->lane->capacity;
    ring_producer_attach(&handler->out, &handler->lane->ring, handler->lane->capacity);
    handler->published = handler->out.position;
    handler_scan_lane(handler);
    /* relaxed: a flag of ours that a predecessor may have left up */
    atomic_store_explicit(&handler->lane->stalled, 0, memory_order_relaxed);
    handler->sessions_version = atomic_load_explicit(&attachment->control->sessions_version, memory_order_acquire);
    all_pending(handler);
    return handler;
}

void handler_close(struct handler *handler)
{
    log_map_close(&handler->log);
    consume_queue_reader_close(&handler->units, handler->attachment->control->settings.queue_file_units);
    free(handler);
}

void handler_limit_step(struct handler *handler, uint64_t bytes) { handler->step_bytes = bytes; }

struct bell *handler_bell(struct handler *handler) { return &handler->attachment->wake->handler[handler->index]; }

/* Moves the news bits of our lane to pending[]. */
static void collect(struct handler *handler)
{
    _Atomic uint64_t *news = handler->attachment->wake->news[handler->index];
    for (uint32_t word = 0; word < SESSION_WORDS; word++) {
        /* relaxed look first, so that an idle scan does not write; seq_cst exchange: the bit is cleared before the ring's
         * tail is read (the fence below), and the client sets tail before bit [N1] */
        if (atomic_load_explicit(&news[word], memory_order_relaxed))
            handler->pending[word] |= atomic_exchange_explicit(&news[word], 0, memory_order_seq_cst);
    }
    /* seq_cst: the bits' clearing before our look at the rings; an acquiring load may pass the store half of an exchange. Pairs with
     * the fence between a client's frame and its look at the bit [N1]. */
    atomic_thread_fence(memory_order_seq_cst);
    CRASH_POINT("handler_collected");
    const uint32_t version = atomic_load_explicit(&handler->attachment->control->sessions_version, memory_order_acquire);
    if (version != handler->sessions_version) {
        handler->sessions_version = version;
        all_pending(handler); /* sessions that have come or are closing */
    }
}

/* Wakes the clients of sessions whose verdicts the writer has delivered. */
static void deliver(struct handler *handler)
{
    _Atomic uint64_t *words = handler->attachment->control->deliver[handler->index];
    for (uint32_t word = 0; word < SESSION_WORDS; word++) {
        /* relaxed look first, so that an idle scan does not write */
        if (!atomic_load_explicit(&words[word], memory_order_relaxed))
            continue;
        /* acquire: the verdicts before the bit. Pairs with the writer's release [D1]. */
        uint64_t bits = atomic_exchange_explicit(&words[word], 0, memory_order_acquire);
        CRASH_POINT("handler_deliver_cleared");
        for (; bits; bits &= bits - 1) {
            const uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(bits);
            struct session_map *map = attachment_session(handler->attachment, slot, handler->attachment->control->sessions[slot].shape.epoch);
            if (map && bell_ring_client(&map->session->bell))
                count(handler->attachment->page, COUNT_WAKES, 1);
        }
    }
}

/* Sessions of which each has its turn. */
struct sessions_in_turn {
    const uint64_t *among; /* a bit for each */
    uint32_t *turn;        /* the one to begin with */
};

/* Libraries end transactions over a session of their own. The gateway's session has ends among its sends: it is one that sends. */
static void learn(struct handler *handler, uint32_t slot, uint32_t taken, uint32_t ends)
{
    const uint64_t bit = UINT64_C(1) << (slot % 64);
    if (taken && taken == ends)
        handler->ending[slot / 64] |= bit;
    else if (taken)
        handler->ending[slot / 64] &= ~bit;
}

static void serve(struct handler *handler, uint32_t slot, uint32_t *taken)
{
    const uint32_t taken_before = *taken, ends_before = handler->ends;
    const uint64_t bit = UINT64_C(1) << (slot % 64);
    struct control *control = handler->attachment->control;
    struct session_entry *entry = &control->sessions[slot];
    const uint32_t epoch = entry->shape.epoch;
    /* acquire: the epoch before the state, which is therefore this session's where the epoch is the same at the end. Pairs with the
     * fence in session_open_entry [E2]. */
    atomic_thread_fence(memory_order_acquire);
    /* acquire, and before the ring's tail is read: a client publishes, then ends. Looked at afterwards, the state could be that of an end
     * whose last frames came after our look at the ring. */
    const uint32_t state = atomic_load_explicit(&entry->state, memory_order_acquire);
    const bool closing = state == SESSION_CLOSING;
    if (state == SESSION_LOST && ours(handler, slot)) {
        handler->pending[slot / 64] &= ~bit;
        session_move_state(control, slot, SESSION_LOST, SESSION_FAULTY); /* we hold nothing of it: the slot may be freed */
        return;
    }
    struct session_map *map = ours(handler, slot) ? handler_attach(handler, slot) : NULL;
    enum intake_result result = map ? handler_take(handler, slot, map, taken) : INTAKE_EMPTY;
    handler_publish(handler);
    learn(handler, slot, *taken - taken_before, handler->ends - ends_before);
    if (map)
        handler_settle(handler, slot, map);
    if (result == INTAKE_STALLED)
        handler->stalled = true;
    if (result == INTAKE_EMPTY || result == INTAKE_FAULTY)
        handler->pending[slot / 64] &= ~bit;
    if (result == INTAKE_FAULTY) {
        count(handler->attachment->page, COUNT_FAULTS, 1);
        if (!session_move_state(control, slot, SESSION_READY, SESSION_FAULTY))
            session_move_state(control, slot, SESSION_CLOSING, SESSION_FAULTY);
    } else if (result == INTAKE_EMPTY && closing && ours(handler, slot) && entry->shape.sq_capacity &&
               entry->shape.epoch == epoch) {
        /* Only a session with a ring is kept for us; any other slot may be free by now, or belong to another session that is
         * closing too. */
        session_move_state(control, slot, SESSION_CLOSING, SESSION_DRAINED);
        CRASH_POINT("handler_drained");
    }
}

/* Serves those of `sessions` in [from, to) that are pending, until the lane is full. The next look at them begins with a session that got
 * no room at all, else with the one after the last: a session that can fill the lane alone must not starve those after it. */
static void serve_between(struct handler *handler, const struct sessions_in_turn *sessions, uint32_t from, uint32_t to, uint32_t *taken)
{
    for (uint32_t slot = from; slot < to && !handler->full; slot++) {
        const uint64_t bits = (handler->pending[slot / 64] & sessions->among[slot / 64]) >> (slot % 64);
        if (!bits) {
            slot |= 63;
            continue;
        }
        slot += (uint32_t)__builtin_ctzll(bits);
        if (slot >= to)
            return;
        const uint32_t before = *taken;
        serve(handler, slot, taken);
        handler->full = handler->stalled || handler->out.position - handler->step_from >= handler->step_bytes;
        if (handler->full)
            *sessions->turn = (*taken == before ? slot : slot + 1) % SESSIONS_MAX;
    }
}

static void serve_in_turn(struct handler *handler, const uint64_t *among, uint32_t *turn, uint32_t *taken)
{
    const struct sessions_in_turn sessions = {among, turn};
    const uint32_t first = *turn;
    serve_between(handler, &sessions, first, SESSIONS_MAX, taken);
    serve_between(handler, &sessions, 0, first, taken);
}

/* Ends of transactions go before sends, so that none waits for the turns of all who send; but in one step of five they do not, or
 * somebody who does nothing but end could starve all sends. */
static void serve_ending(struct handler *handler, uint32_t *taken)
{
    if (handler->ends_first == ENDS_FIRST) {
        handler->ends_first = 0;
        return;
    }
    serve_in_turn(handler, handler->ending, &handler->ending_turn, taken);
    handler->ends_first += *taken > 0;
}

uint32_t handler_step(struct handler *handler)
{
    uint32_t taken = 0;
    attachment_sweep(handler->attachment);
    deliver(handler);
    collect(handler);
    handler->stalled = handler->full = false;
    handler->step_from = handler->out.position;
    serve_ending(handler, &taken);
    serve_in_turn(handler, handler->pending, &handler->turn, &taken);
    if (taken) {
        count(handler->attachment->page, COUNT_STEPS, 1);
        count(handler->attachment->page, COUNT_MESSAGES, taken);
        histogram_record(&handler->attachment->page->histogram, taken);
    }
    return taken;
}

bool handler_has_news(const struct handler *handler)
{
    const _Atomic uint64_t *news = handler->attachment->wake->news[handler->index];
    const _Atomic uint64_t *words = handler->attachment->control->deliver[handler->index];
    uint64_t any = 0;
    for (uint32_t word = 0; word < SESSION_WORDS; word++) {
        /* acquire, after the announcement's fence [B1] */
        any |= atomic_load_explicit(&news[word], memory_order_acquire);
        any |= atomic_load_explicit(&words[word], memory_order_acquire);
        if (!handler->stalled)
            any |= handler->pending[word];
    }
    if (handler->stalled) { /* an atomic batch may not fit into half of a lane: then only more room helps */
        const uint64_t head = ring_head_position(&handler->lane->ring);
        any |= head != handler->out.head_seen && handler->out.position - head < handler->lane->capacity / 2;
    }
    /* acquire: as in collect */
    return any || handler->sessions_version !=
                      atomic_load_explicit(&handler->attachment->control->sessions_version, memory_order_acquire);
}

static enum bell_wake sleep_for_news(struct handler *handler)
{
    struct bell *bell = handler_bell(handler);
    if (handler->stalled) {
        count(handler->attachment->page, COUNT_FULL, 1);
        /* relaxed: the announcement's fence below orders it before our look at the lane's head [M1] */
        atomic_store_explicit(&handler->lane->stalled, 1, memory_order_relaxed);
        CRASH_POINT("handler_stalled");
    }
    enum bell_wake wake = BELL_RUNG;
    const uint32_t ticket = bell_announce(bell);
    if (handler_has_news(handler))
        bell_cancel(bell, ticket);
    else {
        count(handler->attachment->page, COUNT_SLEEPS, 1);
        wake = bell_sleep(bell, ticket, BELL_LIMIT_NS);
    }
    /* relaxed: if the flag is still seen, the writer rings once in vain */
    atomic_store_explicit(&handler->lane->stalled, 0, memory_order_relaxed);
    return wake;
}

/* Every BELL_LIMIT_NS all sessions are looked at, because a client may have lied about its news bit, or another may have
 * cleared it. By the clock, and not after a sleep that ran out: a client that clears bits can ring as well, and a busy handler
 * never sleeps. */
static void look_at_all(struct handler *handler, uint64_t now_ms)
{
    if (now_ms - handler->looked_ms < BELL_LIMIT_NS / 1000000u)
        return;
    handler->looked_ms = now_ms;
    all_pending(handler);
}

void handler_tick(struct handler *handler, uint64_t now_ms)
{
    look_at_all(handler, now_ms);
    attachment_beat(handler->attachment);
}

enum run_result handler_run(struct handler *handler, uint32_t limit_ms)
{
    const uint64_t end = clock_ms() + limit_ms;
    const uint64_t spin_ns = (uint64_t)handler->attachment->control->settings.spin_us * 1000u;
    for (;;) {
        const uint32_t taken = handler_step(handler);
        const enum pace_rest rest = taken ? PACE_LOOK : pace_idle(&handler->pace, spin_ns, control_crowded(handler->attachment->control));
        if (taken)
            pace_work(&handler->pace, taken);
        if (rest == PACE_SIGNAL || (rest == PACE_SLEEP && sleep_for_news(handler) == BELL_SIGNAL))
            return RUN_SIGNAL;
        const uint64_t now_ms = clock_ms();
        handler_tick(handler, now_ms);
        if (now_ms >= end)
            return RUN_TIME;
    }
}

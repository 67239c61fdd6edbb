#include "waiter.h"
#include "crash_point.h"
#include <poll.h>
#include <string.h>

void waiter_attach(struct waiter *waiter, struct session *session, const struct session_shape *shape,
                   const struct control *control, struct wake *wake, int supervisor)
{
    memset(waiter, 0, sizeof *waiter);
    waiter->session = session;
    waiter->shape = *shape;
    waiter->control = control;
    waiter->wake = wake;
    waiter->supervisor = supervisor;
    waiter->group = WAITER_NO_GROUP;
    waiter->pace = pace_start();
    session_parts(session, shape, &waiter->parts);
}

void waiter_join(struct waiter *waiter, uint32_t group, uint64_t epoch)
{
    assert(group == WAITER_NO_GROUP || group < GROUPS_MAX);
    waiter->group = group;
    waiter->epoch = epoch;
}

bool waiter_interests(struct waiter *waiter, const uint32_t *slots, uint32_t count)
{
    if (count > waiter->shape.queue_capacity)
        return false;
    struct session *session = waiter->session;
    /* relaxed: the notifier bounds whatever it sees of a list that changes, and reads it again for the new version */
    for (uint32_t i = 0; i < count; i++)
        atomic_store_explicit(&waiter->parts.interest[i], slots[i], memory_order_relaxed);
    CRASH_POINT("waiter_interests_listed");
    atomic_store_explicit(&session->interest_count, count, memory_order_relaxed);
    const uint32_t version = atomic_load_explicit(&session->interest_version, memory_order_relaxed);
    /* release: the list before its version. Pairs with the acquire in the notifier's update [S2]. */
    atomic_store_explicit(&session->interest_version, version + 1, memory_order_release);
    CRASH_POINT("waiter_interests_raised");
    /* seq_cst: the version before the bit; the notifier clears the bit before it reads the version [S2] */
    atomic_fetch_or_explicit(&waiter->wake->interests[waiter->shape.slot / 64], UINT64_C(1) << (waiter->shape.slot % 64),
                             memory_order_seq_cst);
    CRASH_POINT("waiter_interests_told");
    bell_ring(&waiter->wake->notifier);
    return true;
}

bool waiter_current(const struct waiter *waiter)
{
    /* acquire: what the coordinator did before it raised the epoch is seen by who asks it afterwards [G1] */
    return waiter->group == WAITER_NO_GROUP ||
           atomic_load_explicit(&waiter->control->groups[waiter->group].epoch, memory_order_acquire) == waiter->epoch;
}

static bool supervisor_ended(const struct waiter *waiter)
{
    struct pollfd watched = {.fd = waiter->supervisor, .events = POLLIN};
    return waiter->supervisor >= 0 && poll(&watched, 1, 0) > 0;
}

static uint32_t tree_state(const struct waiter *waiter)
{
    /* relaxed: only decides whether we go on */
    return atomic_load_explicit(&waiter->control->tree_state, memory_order_relaxed);
}

bool waiter_gone(const struct waiter *waiter)
{
    const uint32_t state = tree_state(waiter);
    return state == TREE_STOPPING || state == TREE_STOPPED || supervisor_ended(waiter);
}

bool waiter_dead(const struct waiter *waiter) { return tree_state(waiter) == TREE_STOPPED || supervisor_ended(waiter); }

/* Says to the coordinator that this member goes on. */
static void called(struct waiter *waiter, uint64_t now)
{
    if (now == waiter->called_ns)
        return;
    waiter->called_ns = now;
    /* relaxed: a time for session_called_ns, which reads nothing behind it */
    atomic_store_explicit(&waiter->session->called_ns, now, memory_order_relaxed);
}

enum waiter_result waiter_check(struct waiter *waiter)
{
    const uint64_t now = clock_coarse_ns();
    called(waiter, now);
    if (now - waiter->lived_ns >= WAITER_LIFE_NS) {
        if (waiter_dead(waiter))
            return WAITER_GONE;
        waiter->lived_ns = now;
    } else if (tree_state(waiter) == TREE_STOPPED) {
        return WAITER_GONE;
    }
    return waiter_current(waiter) ? WAITER_NEWS : WAITER_REBALANCE;
}

/* What ends a wait beside a signal, or WAITER_TIMEOUT for nothing yet. */
static enum waiter_result look(struct waiter *waiter, struct reader *reader)
{
    /* relaxed, both: a flag, and the ring that follows it wakes us. What it is about stands elsewhere, and is looked for after. */
    if (atomic_load_explicit(&waiter->interrupted, memory_order_relaxed)) {
        atomic_store_explicit(&waiter->interrupted, 0, memory_order_relaxed);
        return WAITER_INTERRUPTED;
    }
    if (!waiter_current(waiter))
        return WAITER_REBALANCE;
    return reader_ready(reader) ? WAITER_NEWS : WAITER_TIMEOUT;
}

enum waiter_result waiter_wait(struct waiter *waiter, struct reader *reader, uint64_t timeout_ns)
{
    enum waiter_result result = look(waiter, reader);
    if (result != WAITER_TIMEOUT || timeout_ns == 0)
        return result;
    const uint64_t began = clock_ns();
    struct bell *bell = &waiter->session->bell;
    for (;;) {
        const uint64_t now = clock_ns(), passed = now - began;
        called(waiter, now);
        const bool due = now - waiter->rechecked_ns >= WAITER_RECHECK_NS;
        if (due) {
            reader_recheck(reader);
            waiter->rechecked_ns = now;
        }
        /* The look between the announcement and the sleep is at the reput position first, which reput publishes before its fence
         * and its rings: whoever sleeps has seen it stand still, or is rung. Pairs with the fence in reput.c [I2] [B1]. */
        result = look(waiter, reader);
        if (result == WAITER_TIMEOUT && passed < timeout_ns && !due) {
            const enum pace_rest rest = pace_idle(&waiter->pace, 0, false);
            if (rest == PACE_SIGNAL)
                return WAITER_SIGNAL;
            if (rest == PACE_LOOK)
                continue;
        }
        const uint32_t ticket = bell_announce(bell);
        if (result == WAITER_TIMEOUT)
            result = look(waiter, reader);
        if (result == WAITER_TIMEOUT && waiter_gone(waiter))
            result = WAITER_GONE;
        if (result != WAITER_TIMEOUT || passed >= timeout_ns || due) {
            bell_cancel(bell, ticket);
            if (result == WAITER_NEWS)
                pace_work(&waiter->pace, reader->recent);
            if (result != WAITER_TIMEOUT)
                return result;
            return due ? WAITER_RECHECK : WAITER_TIMEOUT; /* also when the time is over: the next look is 5 s away */
        }
        const uint64_t rest = timeout_ns - passed;
        if (bell_sleep(bell, ticket, rest < BELL_LIMIT_NS ? rest : BELL_LIMIT_NS) == BELL_SIGNAL)
            return WAITER_SIGNAL;
    }
}

void waiter_interrupt(struct waiter *waiter)
{
    /* relaxed: bell_ring fences before it looks for sleepers */
    atomic_store_explicit(&waiter->interrupted, 1, memory_order_relaxed);
    bell_ring(&waiter->session->bell);
}

void waiter_give_words(struct waiter *waiter, struct commit_words *words) { waiter->words = words; }

bool waiter_closed(const struct waiter *waiter)
{
    /* relaxed: the fence of waiter_commit_all orders it [G2] */
    return waiter->words && atomic_load_explicit(&waiter->words->closed, memory_order_relaxed) != 0;
}

bool waiter_commit_all(struct waiter *waiter, const uint64_t *offsets, uint32_t count)
{
    assert(count <= waiter->shape.queue_capacity);
    struct commit_words *words = waiter->words;
    if (!words || !waiter_current(waiter) || waiter_closed(waiter))
        return false;
    const uint64_t epoch = waiter->epoch << OFFSET_BITS; /* its low 16 bits */
    for (uint32_t i = 0; i < count; i++)
        if (offsets[i] != WAITER_NO_OFFSET)
            /* relaxed: the fence below orders it */
            atomic_store_explicit(&words->word[i], epoch | (offsets[i] & OFFSET_MASK), memory_order_relaxed);
    CRASH_POINT("waiter_offsets_put");
    /* seq_cst: the words before the second look at the epoch and at `closed`. The coordinator raises the epoch, fences, and reads the
     * words, so either it sees them or we see its epoch [G1]. Who takes them for the last time does so with `closed` [G2]. */
    atomic_thread_fence(memory_order_seq_cst);
    return waiter_current(waiter) && !waiter_closed(waiter);
}

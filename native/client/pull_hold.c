#include "client/pull_hold.h"
#include "base/cpu.h"
#include "base/crash_point.h"
#include <poll.h>
#include <sched.h>
#include <string.h>

#define SPIN_LOOKS 16 /* between two yields, which are system calls */

void pull_hold_attach(struct pull_hold *hold, struct session *session, const struct session_shape *shape,
                   const struct control *control, struct wake *wake, int supervisor)
{
    memset(hold, 0, sizeof *hold);
    hold->session = session;
    hold->shape = *shape;
    hold->control = control;
    hold->wake = wake;
    hold->supervisor = supervisor;
    hold->group = PULL_HOLD_NO_GROUP;
    hold->pace = pace_start();
    session_parts(session, shape, &hold->parts);
}

void pull_hold_join(struct pull_hold *hold, uint32_t group, uint64_t epoch)
{
    assert(group == PULL_HOLD_NO_GROUP || group < GROUPS_MAX);
    hold->group = group;
    hold->epoch = epoch;
}

bool pull_hold_interests(struct pull_hold *hold, const uint32_t *slots, uint32_t count)
{
    if (count > hold->shape.queue_capacity)
        return false;
    struct session *session = hold->session;
    /* relaxed: the notifier bounds whatever it sees of a list that changes, and reads it again for the new version */
    for (uint32_t i = 0; i < count; i++)
        atomic_store_explicit(&hold->parts.interest[i], slots[i], memory_order_relaxed);
    CRASH_POINT("pull_hold_interests_listed");
    atomic_store_explicit(&session->interest_count, count, memory_order_relaxed);
    const uint32_t version = atomic_load_explicit(&session->interest_version, memory_order_relaxed);
    /* release: the list before its version. Pairs with the acquire in the notifier's update [S2]. */
    atomic_store_explicit(&session->interest_version, version + 1, memory_order_release);
    CRASH_POINT("pull_hold_interests_raised");
    /* seq_cst: the version before the bit; the notifier clears the bit before it reads the version [S2] */
    atomic_fetch_or_explicit(&hold->wake->interests[hold->shape.slot / 64], UINT64_C(1) << (hold->shape.slot % 64),
                             memory_order_seq_cst);
    CRASH_POINT("pull_hold_interests_told");
    bell_ring(&hold->wake->notifier);
    return true;
}

bool pull_hold_current(const struct pull_hold *hold)
{
    /* acquire: what the coordinator did before it raised the epoch is visible to a member that asks it afterwards [G1] */
    return hold->group == PULL_HOLD_NO_GROUP ||
           atomic_load_explicit(&hold->control->groups[hold->group].epoch, memory_order_acquire) == hold->epoch;
}

static bool supervisor_ended(const struct pull_hold *hold)
{
    struct pollfd watched = {.fd = hold->supervisor, .events = POLLIN};
    return hold->supervisor >= 0 && poll(&watched, 1, 0) > 0;
}

static uint32_t attachment_state(const struct pull_hold *hold)
{
    /* relaxed: only decides whether to continue */
    return atomic_load_explicit(&hold->control->tree_state, memory_order_relaxed);
}

bool pull_hold_gone(const struct pull_hold *hold)
{
    const uint32_t state = attachment_state(hold);
    return state == TREE_STOPPING || state == TREE_STOPPED || supervisor_ended(hold);
}

bool pull_hold_dead(const struct pull_hold *hold) { return attachment_state(hold) == TREE_STOPPED || supervisor_ended(hold); }

/* Tells the coordinator that this member is alive. */
static void called(struct pull_hold *hold, uint64_t now)
{
    if (now == hold->called_ns)
        return;
    hold->called_ns = now;
    /* relaxed: a time for session_called_ns, which reads nothing behind it */
    atomic_store_explicit(&hold->session->called_ns, now, memory_order_relaxed);
}

enum pull_hold_result pull_hold_check(struct pull_hold *hold)
{
    const uint64_t now = clock_coarse_ns();
    called(hold, now);
    if (now - hold->lived_ns >= PULL_HOLD_LIFE_NS) {
        if (pull_hold_dead(hold))
            return PULL_HOLD_GONE;
        hold->lived_ns = now;
    } else if (attachment_state(hold) == TREE_STOPPED) {
        return PULL_HOLD_GONE;
    }
    return pull_hold_current(hold) ? PULL_HOLD_NEWS : PULL_HOLD_REBALANCE;
}

/* What ends a wait besides a signal; PULL_HOLD_TIMEOUT: nothing yet. */
static enum pull_hold_result look(struct pull_hold *hold, struct reader *reader)
{
    /* relaxed, both: a flag, and the ring that follows it wakes us. What it is about is in other words, which are read
     * afterwards. */
    if (atomic_load_explicit(&hold->interrupted, memory_order_relaxed)) {
        atomic_store_explicit(&hold->interrupted, 0, memory_order_relaxed);
        return PULL_HOLD_INTERRUPTED;
    }
    if (!pull_hold_current(hold))
        return PULL_HOLD_REBALANCE;
    return reader_ready(reader) ? PULL_HOLD_NEWS : PULL_HOLD_TIMEOUT;
}

/* True once in PULL_HOLD_RECHECK_NS, after a look at every queue. */
static bool recheck(struct pull_hold *hold, struct reader *reader, uint64_t now)
{
    if (now - hold->rechecked_ns < PULL_HOLD_RECHECK_NS)
        return false;
    reader_recheck(reader);
    hold->rechecked_ns = now;
    return true;
}

enum pull_hold_result pull_hold_spin(struct pull_hold *hold, struct reader *reader, uint64_t limit_ns)
{
    const uint64_t began = clock_ns();
    called(hold, began);
    const bool due = recheck(hold, reader, began);
    /* before the looks, so that what a dying tree did last is still seen */
    const bool gone = pull_hold_gone(hold);
    do {
        for (int i = 0; i < SPIN_LOOKS; i++) {
            const enum pull_hold_result result = look(hold, reader);
            if (result == PULL_HOLD_NEWS)
                pace_work(&hold->pace, reader->recent);
            if (result != PULL_HOLD_TIMEOUT)
                return result;
            if (gone || due)
                return gone ? PULL_HOLD_GONE : PULL_HOLD_RECHECK;
            cpu_pause();
        }
        sched_yield();
    } while (clock_ns() - began < limit_ns && attachment_state(hold) == TREE_RUNNING);
    return PULL_HOLD_TIMEOUT;
}

enum pull_hold_result pull_hold_wait(struct pull_hold *hold, struct reader *reader, uint64_t timeout_ns)
{
    enum pull_hold_result result = look(hold, reader);
    if (result != PULL_HOLD_TIMEOUT || timeout_ns == 0)
        return result;
    const uint64_t began = clock_ns();
    struct bell *bell = &hold->session->bell;
    for (;;) {
        const uint64_t now = clock_ns(), passed = now - began;
        called(hold, now);
        const bool due = recheck(hold, reader, now);
        /* The look between the announcement and the sleep is at the reput position first, which reput publishes before its fence
         * and its rings: whoever sleeps has seen it stand still, or is rung. Pairs with the fence in reput_publish.c [I2] [B1]. */
        result = look(hold, reader);
        if (result == PULL_HOLD_TIMEOUT && passed < timeout_ns && !due) {
            const enum pace_rest rest = pace_idle(&hold->pace, 0, false);
            if (rest == PACE_SIGNAL)
                return PULL_HOLD_SIGNAL;
            if (rest == PACE_LOOK)
                continue;
        }
        const uint32_t ticket = bell_announce(bell);
        if (result == PULL_HOLD_TIMEOUT)
            result = look(hold, reader);
        if (result == PULL_HOLD_TIMEOUT && pull_hold_gone(hold))
            result = PULL_HOLD_GONE;
        if (result != PULL_HOLD_TIMEOUT || passed >= timeout_ns || due) {
            bell_cancel(bell, ticket);
            if (result == PULL_HOLD_NEWS)
                pace_work(&hold->pace, reader->recent);
            if (result != PULL_HOLD_TIMEOUT)
                return result;
            return due ? PULL_HOLD_RECHECK : PULL_HOLD_TIMEOUT; /* also if the time is over: the next look is 5 s away */
        }
        const uint64_t rest = timeout_ns - passed;
        if (bell_sleep(bell, ticket, rest < BELL_LIMIT_NS ? rest : BELL_LIMIT_NS) == BELL_SIGNAL)
            return PULL_HOLD_SIGNAL;
    }
}

void pull_hold_interrupt(struct pull_hold *hold)
{
    /* relaxed: bell_ring fences before it looks for sleepers */
    atomic_store_explicit(&hold->interrupted, 1, memory_order_relaxed);
    bell_ring(&hold->session->bell);
}

void pull_hold_give_words(struct pull_hold *hold, struct commit_words *words) { hold->words = words; }

bool pull_hold_closed(const struct pull_hold *hold)
{
    /* relaxed: the fence of pull_hold_commit_all orders it [G2] */
    return hold->words && atomic_load_explicit(&hold->words->closed, memory_order_relaxed) != 0;
}

bool pull_hold_commit_all(struct pull_hold *hold, const uint64_t *offsets, uint32_t count)
{
    assert(count <= hold->shape.queue_capacity);
    struct commit_words *words = hold->words;
    if (!words || !pull_hold_current(hold) || pull_hold_closed(hold))
        return false;
    const uint64_t epoch = hold->epoch << OFFSET_BITS; /* its low 16 bits */
    for (uint32_t i = 0; i < count; i++)
        if (offsets[i] != PULL_HOLD_NO_OFFSET)
            /* relaxed: the fence below orders it */
            atomic_store_explicit(&words->word[i], epoch | (offsets[i] & OFFSET_MASK), memory_order_relaxed);
    CRASH_POINT("pull_hold_offsets_put");
    /* seq_cst: the words before the second look at the epoch and at `closed`. The coordinator raises the epoch, fences, and reads the
     * words, so either it sees them or we see its epoch [G1]. `closed` does the same when the words are taken for the last time [G2]. */
    atomic_thread_fence(memory_order_seq_cst);
    return pull_hold_current(hold) && !pull_hold_closed(hold);
}

/* Pulls that are held, and how reput wakes the gateway for them. Nothing gets lost between a pull that finds nothing and a sleep:
 *
 *   gateway: the queue's bit in `held` set; bell announced, full fence, the queue's maximum read, sleep in epoll
 *   reput:   maximum stored, full fence, bit and announcement read; if there are both, the gateway's event written    [Y1]
 *
 * The event is an eventfd, because epoll cannot wait for a futex. Pulls of a client that does not read what was said to it wait for this, too.
 */
#include "base/crash_point.h"
#include "remoting/gateway/gateway_pop.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

bool gateway_holds_open(struct gateway *gateway)
{
    const struct attachment *const attachment = gateway->attachment;
    gateway->held = calloc(attachment->topics->queue_capacity, sizeof *gateway->held);
    struct control *const control = attachment->control;
    for (uint32_t i = 0; i < QUEUE_WORDS; i++) /* a predecessor's; relaxed: as in gateway_listen */
        atomic_store_explicit(&control->held[gateway->number][i], 0, memory_order_relaxed);
    atomic_fetch_and_explicit(&control->holding, ~(1u << gateway->number), memory_order_relaxed);
    for (uint32_t i = 0; i < SESSION_WORDS && !gateway->number; i++)
        atomic_store_explicit(&control->popped[i], 0, memory_order_relaxed);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = CONNECTION_EVENT};
    return gateway->held && epoll_ctl(gateway->poll, EPOLL_CTL_ADD, attachment->gateway_event[gateway->number], &event) == 0;
}

void gateway_listen(struct gateway *gateway, uint32_t slot, bool on)
{
    struct control *const control = gateway->attachment->control;
    _Atomic uint64_t *const word = &control->held[gateway->number][slot / 64];
    const uint64_t bit = UINT64_C(1) << (slot % 64);
    const uint32_t own = 1u << gateway->number;
    /* relaxed, all: the fence of our next announcement stands between this and the look at the queue, reput's between its store of
     * the maximum and its looks at both bits [Y1]. */
    if (on && gateway->held[slot]++ == 0) {
        atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
        if (gateway->held_queues++ == 0)
            atomic_fetch_or_explicit(&control->holding, own, memory_order_relaxed);
    } else if (!on && --gateway->held[slot] == 0) {
        atomic_fetch_and_explicit(word, ~bit, memory_order_relaxed);
        if (--gateway->held_queues == 0)
            atomic_fetch_and_explicit(&control->holding, ~own, memory_order_relaxed);
    }
    CRASH_POINT("gateway_hold_listed");
}

bool gateway_hold(struct gateway *gateway, const struct gateway_pull *pull)
{
    if (gateway->hold_count == gateway->hold_room) {
        const uint32_t room = gateway->hold_room ? 2 * gateway->hold_room : 64;
        if (room > GATEWAY_HOLDS)
            return false;
        struct gateway_pull *const holds = realloc(gateway->holds, room * sizeof *holds);
        if (!holds)
            return false;
        gateway->holds = holds;
        gateway->hold_room = room;
    }
    gateway->holds[gateway->hold_count++] = *pull;
    if (pull->until_ms < gateway->holds_until_ms)
        gateway->holds_until_ms = pull->until_ms;
    if (pull->filter)
        pull->filter->users++;
    gateway_listen(gateway, pull->slot, true);
    CRASH_POINT("gateway_hold_kept");
    return true;
}

uint32_t gateway_look_at_holds(struct gateway *gateway)
{
    if (!gateway->hold_count)
        return 0;
    const uint64_t now = clock_ms();
    /* acquire: the queues' maxima before it; a hold looks at its own queue's again. Before a sleep, the fence of our announcement stands
     * before it [Y1]. */
    const uint64_t reput = atomic_load_explicit(&gateway->attachment->control->reput.value, memory_order_acquire);
    if (reput == gateway->reput_seen && now < gateway->holds_until_ms && !gateway->stopping)
        return 0;
    gateway->reput_seen = reput;
    gateway->holds_until_ms = UINT64_MAX;
    uint32_t done = 0;
    for (uint32_t i = 0; i < gateway->hold_count;) {
        struct gateway_pull *const pull = &gateway->holds[i];
        struct connection *const connection = gateway_connection(gateway, &pull->asker);
        const bool full = connection && connection_unsent(connection) > CONNECTION_OUT_MAX;
        const bool gone = !connection || (full && gateway->stopping);
        if (full && !gone) { /* however many it has: they wait until it has read what was said to it */
            connection->holds_full = true;
            i++;
            continue;
        }
        const bool hold = now < pull->until_ms && !gateway->stopping;
        if (!gone && gateway_is_paused(gateway, pull->group)) {
            gateway_refuse(gateway, &pull->asker, GATEWAY_NO_PERMISSION, "subscription group no permission");
        } else if (!gone && !gateway_serve_pull(gateway, pull, hold && !connection->finished)) {
            if (pull->until_ms < gateway->holds_until_ms)
                gateway->holds_until_ms = pull->until_ms;
            i++;
            continue;
        }
        if (pull->filter)
            pull->filter->users--;
        gateway_listen(gateway, pull->slot, false);
        gateway->holds[i] = gateway->holds[--gateway->hold_count];
        done++;
    }
    return done;
}

bool gateway_listens(const struct gateway *gateway)
{
    return gateway->hold_count || gateway->replies.until_ms || gateway_pops_wait(gateway);
}

uint32_t gateway_announce(struct gateway *gateway)
{
    count(gateway->attachment->page, COUNT_SLEEPS, 1);
    const uint32_t ticket = bell_announce(&gateway->attachment->control->gateway_bell[gateway->number]);
    CRASH_POINT("gateway_hold_announced");
    return ticket;
}

void gateway_awake(struct gateway *gateway, uint32_t ticket) { bell_cancel(&gateway->attachment->control->gateway_bell[gateway->number], ticket); }

void gateway_take_event(struct gateway *gateway)
{
    uint64_t times;
    if (read(gateway->attachment->gateway_event[gateway->number], &times, sizeof times) == sizeof times)
        count(gateway->attachment->page, COUNT_WAKES, 1);
}

int gateway_longest_sleep(const struct gateway *gateway, int limit_ms)
{
    const uint64_t now = clock_ms(), replies = gateway->replies.until_ms ? gateway->replies.until_ms : UINT64_MAX;
    const uint64_t holds = gateway->hold_count ? gateway->holds_until_ms : UINT64_MAX;
    const uint64_t pops = gateway_pops_until(gateway), first = holds < replies ? holds : replies;
    const uint64_t until = first < pops ? first : pops;
    return until <= now ? 0 : until - now < (uint64_t)limit_ms ? (int)(until - now) : limit_ms;
}

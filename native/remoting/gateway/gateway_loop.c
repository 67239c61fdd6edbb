/* The loop: it serves what epoll names and what needs no event, and sleeps until there is news.
 *
 * It sleeps in epoll, except while a send waits for its verdict: then it sleeps behind its session's bell, and looks at the sockets at
 * least once a millisecond. While pulls are held or replies awaited, reput ends its sleep (gateway_hold.c).
 */
#include "remoting/gateway/gateway_line.h"
#include "remoting/gateway/gateway_pop.h"

#include "base/clock.h"

#include <errno.h>
#include <sys/epoll.h>

#define EVENTS 64
#define SENT_LOOK_NS UINT64_C(1000000)
#define LOOK_MS 100

static uint32_t serve_waiting(struct gateway *gateway)
{
    return gateway_look_at_holds(gateway) + gateway_push_replies(gateway) + gateway_look_at_forwards(gateway) + gateway_look_at_pops(gateway);
}

/* Sleeps at most timeout_ms, unless there is news for those who wait for messages. As epoll_wait. */
static int await_events(struct gateway *gateway, struct epoll_event *events, int timeout_ms)
{
    if (!timeout_ms || !gateway_listens(gateway))
        return epoll_wait(gateway->poll, events, EVENTS, timeout_ms);
    const uint32_t ticket = gateway_announce(gateway);
    const uint32_t news = serve_waiting(gateway);
    const int count = epoll_wait(gateway->poll, events, EVENTS, news ? 0 : gateway_longest_sleep(gateway, timeout_ms));
    const int error = errno;
    gateway_awake(gateway, ticket);
    errno = error;
    return count;
}

/* Serves what epoll names, waiting for it at most timeout_ms. -1 at a signal. */
static int serve_events(struct gateway *gateway, int timeout_ms)
{
    struct epoll_event events[EVENTS];
    const int count = await_events(gateway, events, timeout_ms);
    uint32_t done = 0;
    if (count < 0)
        return errno == EINTR ? -1 : 0;
    for (int i = 0; i < count; i++) {
        if (events[i].data.u32 == CONNECTION_LISTENER) {
            gateway_accept(gateway);
            done++;
            continue;
        }
        if (events[i].data.u32 == CONNECTION_EVENT) {
            gateway_take_event(gateway);
            done++;
            continue;
        }
        if (events[i].data.u32 == CONNECTION_LINE) {
            gateway_take_lines(gateway);
            done++;
            continue;
        }
        struct connection *const connection = gateway->connections[events[i].data.u32 & ~CONNECTION_RELAY];
        if (!connection)
            continue;
        if (events[i].data.u32 & CONNECTION_RELAY) {
            done += gateway_relay_event(gateway, connection, events[i].events);
            continue;
        }
        connection->deaf |= (events[i].events & (EPOLLERR | EPOLLHUP)) != 0;
        connection->ended |= connection->deaf && gateway->stopping;
        if (events[i].events & EPOLLOUT)
            connection_flush(connection);
        done += gateway_serve(gateway, connection, (events[i].events & EPOLLIN || connection->deaf) && !gateway->stopping) + 1;
    }
    return (int)done;
}

/* What needs no event: verdicts, requests that wait for room, held pulls. */
static uint32_t serve_news(struct gateway *gateway)
{
    uint32_t done = gateway_answer_sent(gateway);
    if (gateway->stalled_count && gateway->attached)
        done += gateway_serve_stalled(gateway);
    done += serve_waiting(gateway);
    gateway_end_idle(gateway);
    gateway_tell_table(gateway);
    gateway_tell_commits(gateway);
    gateway_look_at_line(gateway);
    gateway_finish_round(gateway);
    return done;
}

static bool unanswered(const struct gateway *gateway) { return gateway->sent_from < gateway->sent_to; }

/* Sleeps behind the session's bell until the oldest send has its verdict, at most SENT_LOOK_NS. */
static void await_verdict(struct gateway *gateway)
{
    struct sender *const sender = &gateway->sender;
    const uint64_t sequence = gateway->sent[gateway->sent_from & (sender->shape.window - 1)].sequence;
    if (sender_completed(sender) < sequence)
        sender_wait(sender, sequence, SENT_LOOK_NS);
    else /* it waits for the disk */
        sender_wait_flushed(sender, sender_verdict(sender, sequence).physical_offset + sender_verdict(sender, sequence).size,
                            SENT_LOOK_NS);
}

uint32_t gateway_step(struct gateway *gateway)
{
    if (!gateway->stopping) {
        gateway->stopping = true;
        gateway->stopping_ms = clock_ms();
        gateway_listen_now(gateway, false);
    }
    const bool unsettled = gateway_pops_unsettled(gateway);
    const int done = serve_events(gateway, unsettled);
    const uint32_t all = (done > 0 ? (uint32_t)done : 0) + serve_news(gateway);
    if (!all && unanswered(gateway))
        await_verdict(gateway);
    return all + unanswered(gateway) + unsettled;
}

enum run_result gateway_run(struct gateway *gateway, uint32_t limit_ms)
{
    const uint64_t end = clock_ms() + limit_ms;
    bool busy = true;
    gateway_listen_now(gateway, true);
    for (;;) {
        const bool awake = busy || unanswered(gateway) || (gateway->stalled_count && gateway->attached);
        const int events = serve_events(gateway, awake ? 0 : LOOK_MS);
        const uint32_t news = serve_news(gateway);
        busy = events > 0 || news;
        attachment_beat(gateway->attachment);
        if (gateway->asked_count || gateway->gone_count || gateway->hello_count || gateway_pops_yielded(gateway))
            return RUN_NEED;
        if (events < 0)
            return RUN_SIGNAL;
        if (!busy && unanswered(gateway))
            await_verdict(gateway);
        if (gateway->attached && !busy && !sender_alive(&gateway->sender)) {
            attachment_state(gateway->attachment, ACTOR_FAILED, ESTALE);
            return RUN_FAILED;
        }
        if (clock_ms() >= end)
            return RUN_TIME;
    }
}

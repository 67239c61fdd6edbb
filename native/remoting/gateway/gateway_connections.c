/* Connections come and go: they are accepted, watched, flushed after each round, and closed when they have ended or nobody has said anything for
 * too long.
 */
#include "remoting/gateway/gateway_line.h"

#include "base/clock.h"
#include "base/crash_point.h"

#include <errno.h>
#include <malloc.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define IDLE_LOOK_MS 1000u
#define TRIM_BYTES (8u << 20)  /* so much goes back to the system at once, ... */
#define QUIET_BYTES (1u << 20) /* ... and so much when no more has come for a while */

bool gateway_accept_at(struct gateway *gateway, int listener)
{
    if (gateway->listener_count == GATEWAY_LISTENERS)
        return false;
    gateway->listeners[gateway->listener_count++] = listener;
    return true;
}

/* If not all of them could be put into the poll, or taken out, the next call goes on with the rest. */
void gateway_listen_now(struct gateway *gateway, bool on)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = CONNECTION_LISTENER};
    bool all = true;
    if (on == gateway->listening)
        return;
    for (uint32_t i = 0; i < gateway->listener_count; i++)
        if (epoll_ctl(gateway->poll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, gateway->listeners[i], &event) != 0)
            all &= errno == (on ? EEXIST : ENOENT);
    if (all)
        gateway->listening = on;
}

void gateway_drop(struct gateway *gateway, struct connection *connection)
{
    gateway->connections[connection->index] = NULL;
    gateway->count--;
    gateway->holds_until_ms = 0; /* its own are looked for */
    gateway_relay_close(connection);
    connection_free(connection);
}

struct connection *gateway_connect(struct gateway *gateway, int fd, const struct gateway_hello *hello)
{
    uint32_t index = 0;
    while (index < GATEWAY_CONNECTIONS && gateway->connections[index])
        index++;
    struct connection *const connection = connection_open(fd, index, ++gateway->epochs);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = index};
    if (!connection) {
        close(fd);
        return NULL;
    }
    if (hello) {
        connection->greeted = true;
        memcpy(connection->local, hello->local, sizeof connection->local);
        connection_set_peer(connection, hello->peer);
    }
    if (!gateway_has_room(gateway, connection->peer) || epoll_ctl(gateway->poll, EPOLL_CTL_ADD, fd, &event) != 0) {
        connection_free(connection);
        return NULL;
    }
    connection->interest = EPOLLIN;
    connection->heard_ms = clock_ms();
    gateway->connections[index] = connection;
    gateway->count++;
    if (index >= gateway->used)
        gateway->used = index + 1;
    if ((hello || gateway->tls == GATEWAY_PLAIN) && !gateway_relay_open(gateway, connection)) {
        gateway_drop(gateway, connection);
        return NULL;
    }
    return connection;
}

/* False: nobody can be let in now, at none of them. */
static bool accept_from(struct gateway *gateway, int listener)
{
    for (;;) {
        if (gateway->number && !gateway_line_open(gateway->lines[gateway->number])) {
            gateway->line_full = true; /* the lead does not read now: whoever is new waits until it does */
            return false;
        }
        const int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
                return true;
            gateway_turn_away(gateway, GATEWAY_NO_DESCRIPTORS, ""); /* until somebody leaves, or the next look */
            return false;
        }
        if (gateway_connect(gateway, fd, NULL))
            CRASH_POINT("gateway_connections_accepted");
    }
}

/* Epoll does not say at which of them somebody waits. */
void gateway_accept(struct gateway *gateway)
{
    for (uint32_t i = 0; i < gateway->listener_count; i++)
        if (!accept_from(gateway, gateway->listeners[i])) {
            gateway_listen_now(gateway, false);
            return;
        }
}

/* What epoll is to say about the connection from now on. If that is nothing, it is taken out: otherwise epoll would tell of a broken
 * connection without end, while its request waits for room. */
static void watch(struct gateway *gateway, struct connection *connection)
{
    const bool full = connection_unsent(connection) > CONNECTION_OUT_MAX;
    const bool waits = connection->stalled || connection->asked || connection->waits || connection->finished || full || gateway->stopping;
    const uint32_t wanted = (waits ? 0 : (uint32_t)EPOLLIN) | (connection_unsent(connection) ? (uint32_t)EPOLLOUT : 0);
    if (wanted == connection->interest)
        return;
    struct epoll_event event = {.events = wanted, .data.u32 = connection->index};
    const int how = !wanted ? EPOLL_CTL_DEL : connection->interest ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(gateway->poll, how, connection->fd, &event) == 0)
        connection->interest = wanted;
    else
        connection->ended = true; /* for want of memory; it is let go of at the next look */
}

/* A connection that Python may know is told to it. */
static void note_gone(struct gateway *gateway, const struct connection *connection)
{
    if (connection->known && gateway->gone_count < GATEWAY_CONNECTIONS)
        gateway->gone[gateway->gone_count++] = (struct gateway_client){connection->index, connection->epoch};
}

void gateway_finish_round(struct gateway *gateway)
{
    for (uint32_t i = 0; i < gateway->dirty_count; i++) {
        struct connection *const connection = gateway->dirty[i];
        connection->queued = false;
        gateway_tell_served(connection);
        gateway_relay_round(gateway, connection);
        const uint64_t unsent = connection_unsent(connection);
        connection_flush(connection);
        CRASH_POINT("gateway_connections_flushed");
        if (connection_unsent(connection) < unsent)
            connection->heard_ms = clock_ms();
        if (connection->ended || (connection->finished && !gateway_owes(gateway, connection))) {
            gateway_remove(gateway->asked, &gateway->asked_count, connection);
            gateway_remove(gateway->stalled, &gateway->stalled_count, connection);
            note_gone(gateway, connection);
            gateway_drop(gateway, connection);
            gateway_listen_now(gateway, !gateway->stopping);
        } else {
            if (connection->full && connection_unsent(connection) <= CONNECTION_OUT_MAX)
                gateway_stall(gateway, connection); /* it has requests left, and no event may come for them */
            if (connection->holds_full && connection_unsent(connection) <= CONNECTION_OUT_MAX) {
                connection->holds_full = false;
                gateway->holds_until_ms = 0; /* they are looked at */
            }
            watch(gateway, connection);
        }
    }
    gateway->dirty_count = 0;
}

void gateway_end_idle(struct gateway *gateway)
{
    const uint64_t now = clock_ms();
    if (now - gateway->idle_ms < IDLE_LOOK_MS)
        return;
    gateway->idle_ms = now;
    const uint64_t freed = gateway->freed;
    gateway_listen_now(gateway, !gateway->stopping);
    for (uint32_t i = 0; i < gateway->used; i++) {
        struct connection *const connection = gateway->connections[i];
        if (connection && (connection->ended || (!connection->of_front && now - connection->heard_ms > gateway->limits.idle_ms))) {
            connection->ended = true;
            gateway_mark(gateway, connection);
        } else if (connection && connection->finished) {
            gateway_mark(gateway, connection); /* what it was owed may have been given up without a word */
        } else if (connection && now - connection->heard_ms > IDLE_LOOK_MS) {
            gateway->freed += connection_rest(connection) + (connection->relay ? connection_rest(connection->relay->pipe) : 0);
        }
    }
    gateway_begin_line(gateway);
    if (gateway->freed > TRIM_BYTES || (gateway->freed > QUIET_BYTES && gateway->freed == freed)) {
        gateway->freed = 0;
        malloc_trim(0); /* they lie scattered, and would stay resident */
    }
}

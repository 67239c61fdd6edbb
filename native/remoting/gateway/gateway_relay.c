/* Relays, both sides. A front passes on the frames that it does not serve itself, and all answers of its client to what the lead has asked, as they
 * came; and to the client what the lead says. The lead serves its side of the pair as any connection, and marks between its own frames how many
 * bytes it has served:
 *
 *     | 0x80000000 (4) | bytes of the relay that are served (8) |      big-endian; no frame begins so
 *
 * A client's messages are stored in the order in which they came, whoever takes them: the front takes none itself before the lead has served those
 * that were passed on before, and passes none on before its own of that client have their verdicts. So has the lead, when it marks. And it
 * answers no pull before the lead has served all that was passed on before.
 *
 *   the client finishes   all is passed on, then the front shuts its side; the lead serves it and closes; then the client's connection ends
 *   the lead closes       (it has died, or there is no room for the client) the client is told what the front owes it, and its connection ends
 *   the front dies        what was passed on is served; nobody hears the answers
 *
 * While more than CONNECTION_OUT_MAX waits on a relay, nothing further is passed on, nor read from its client; and while so much waits for the
 * client, nothing is read from the relay.
 */
#include "remoting/gateway/gateway_line.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/crash_point.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MARK UINT32_C(0x80000000)
#define MARK_SIZE 12u

/* ---- the lead's side */

void gateway_tell_served(struct connection *connection)
{
    if (!connection->of_front || connection->sends || connection->passed == connection->told)
        return;
    uint8_t *const to = connection_room(connection, MARK_SIZE);
    if (!to)
        return;
    store_be32(to, MARK);
    store_be64(to + 4, connection->passed);
    connection->told = connection->passed;
    CRASH_POINT("gateway_relay_marked");
}

/* ---- a front's side */

static void watch(struct gateway *gateway, struct connection *connection)
{
    struct connection *const pipe = connection->relay->pipe;
    const bool full = connection_unsent(connection) > CONNECTION_OUT_MAX;
    const uint32_t wanted = (full ? 0 : (uint32_t)EPOLLIN) | (connection_unsent(pipe) ? (uint32_t)EPOLLOUT : 0);
    if (wanted == pipe->interest)
        return;
    struct epoll_event event = {.events = wanted, .data.u32 = connection->index | CONNECTION_RELAY};
    const int how = !wanted ? EPOLL_CTL_DEL : pipe->interest ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(gateway->poll, how, pipe->fd, &event) == 0)
        pipe->interest = wanted;
    else
        connection->ended = true;
}

bool gateway_relay_open(struct gateway *gateway, struct connection *connection)
{
    struct line_message hello = {.kind = LINE_HELLO};
    int pair[2];
    if (!gateway->number || connection->relay)
        return true;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        gateway_turn_away(gateway, GATEWAY_NO_DESCRIPTORS, connection->peer);
        return false;
    }
    struct relay *const relay = calloc(1, sizeof *relay);
    struct connection *const pipe = relay ? connection_open(pair[0], connection->index, connection->epoch) : NULL;
    if (!pipe) {
        free(relay);
        close(pair[0]);
        close(pair[1]);
        return false;
    }
    relay->pipe = pipe;
    CRASH_POINT("gateway_relay_made");
    memcpy(hello.hello.local, connection->local, sizeof hello.hello.local);
    memcpy(hello.hello.peer, connection->peer, sizeof hello.hello.peer);
    const bool told = gateway_line_put(gateway->lines[gateway->number], &hello, pair[1]);
    close(pair[1]);
    CRASH_POINT("gateway_relay_opened");
    if (!told) {
        gateway_turn_away(gateway, GATEWAY_NO_DESCRIPTORS, connection->peer);
        connection_free(pipe);
        free(relay);
        return false;
    }
    connection->relay = relay;
    connection->passed = 0;
    watch(gateway, connection);
    return true;
}

void gateway_relay_close(struct connection *connection)
{
    if (!connection->relay)
        return;
    connection_free(connection->relay->pipe); /* which takes it out of the poll */
    free(connection->relay);
    connection->relay = NULL;
}

bool gateway_relay_behind(const struct connection *connection, bool sends)
{
    const struct relay *const relay = connection->relay;
    return relay && relay->served < (sends ? relay->sent : relay->passed);
}

bool gateway_keep_raw(struct gateway *gateway, const uint8_t *data, const struct remoting_frame *frame)
{
    gateway->raw_size = 0;
    if (!gateway->number || frame->type != REMOTING_JSON) /* the other form is read as it stands */
        return true;
    if (frame->header_size > gateway->raw_room) {
        uint8_t *const raw = realloc(gateway->raw, frame->header_size);
        if (!raw)
            return false;
        gateway->raw = raw;
        gateway->raw_room = frame->header_size;
    }
    memcpy(gateway->raw, data + REMOTING_FRAME_START, frame->header_size);
    gateway->raw_size = frame->header_size;
    return true;
}

void gateway_restore_raw(const struct gateway *gateway, uint8_t *data)
{
    if (gateway->raw_size)
        memcpy(data + REMOTING_FRAME_START, gateway->raw, gateway->raw_size);
}

enum gateway_served gateway_pass_on(struct gateway *gateway, struct connection *connection, const struct remoting_frame *frame, bool sends)
{
    uint8_t *const data = connection->in + connection->in_from;
    if (!connection->relay)
        return GATEWAY_SERVED; /* the lead has gone, and so does the client: nothing more is promised to it */
    struct connection *const pipe = connection->relay->pipe;
    if (connection_unsent(pipe) > CONNECTION_OUT_MAX)
        return GATEWAY_WAITS;
    gateway_restore_raw(gateway, data);
    struct iovec piece = {data, frame->size};
    connection->relay->passed += frame->size;
    if (sends)
        connection->relay->sent = connection->relay->passed;
    CRASH_POINT("gateway_relay_passing");
    connection_write(pipe, &piece, 1);
    CRASH_POINT("gateway_relay_passed");
    count(gateway->attachment->page, COUNT_PASSED, 1);
    return GATEWAY_SERVED;
}

/* The lead says no more: it has died, or has let go of the client. */
static void end(struct gateway *gateway, struct connection *connection)
{
    gateway_relay_close(connection);
    CRASH_POINT("gateway_relay_ended");
    gateway_finished(gateway, connection);
}

/* Whole frames of what the lead has said go to the client. *wanted: the size of the next one, if it is known. False: it is no frame. */
static bool carry(struct connection *connection, uint32_t *wanted)
{
    struct relay *const relay = connection->relay;
    struct connection *const pipe = relay->pipe;
    struct remoting_frame frame;
    *wanted = 0;
    while (connection_unsent(connection) <= CONNECTION_OUT_MAX) {
        uint8_t *const data = pipe->in + pipe->in_from;
        const uint32_t size = pipe->in_to - pipe->in_from;
        if (size >= 4 && load_be32(data) == MARK) {
            if (size < MARK_SIZE)
                return true;
            relay->served = load_be64(data + 4);
            connection_pass(pipe, MARK_SIZE);
            continue;
        }
        const enum remoting_border border = remoting_frame(data, size, &frame);
        if (border == REMOTING_BAD_FRAME)
            return false;
        if (border == REMOTING_PART) {
            *wanted = frame.size;
            return true;
        }
        struct iovec piece = {data, frame.size};
        connection_write(connection, &piece, 1);
        CRASH_POINT("gateway_relay_carried");
        connection_pass(pipe, frame.size);
    }
    return true;
}

/* Its next request may be passed on, or served here. */
static uint32_t resume(struct gateway *gateway, struct connection *connection)
{
    if (!connection->waits || (connection->relay && connection_unsent(connection->relay->pipe) > CONNECTION_OUT_MAX))
        return 0;
    connection->waits = false;
    return gateway_serve(gateway, connection, false);
}

uint32_t gateway_relay_event(struct gateway *gateway, struct connection *connection, uint32_t events)
{
    uint32_t wanted = 0;
    if (!connection->relay)
        return 0;
    struct connection *const pipe = connection->relay->pipe;
    if (events & EPOLLOUT)
        connection_flush(pipe);
    bool over = events & (EPOLLIN | EPOLLERR | EPOLLHUP) && !carry(connection, &wanted);
    if (!over && events & (EPOLLIN | EPOLLERR | EPOLLHUP) && connection_unsent(connection) <= CONNECTION_OUT_MAX) {
        const enum connection_read found = connection_read(pipe, wanted);
        over = found == CONNECTION_END || found == CONNECTION_LOST || (found == CONNECTION_SOME && !carry(connection, &wanted));
        if (found == CONNECTION_SOME)
            connection->heard_ms = clock_ms();
    }
    if (over)
        end(gateway, connection);
    gateway_mark(gateway, connection);
    return 1 + resume(gateway, connection);
}

void gateway_relay_round(struct gateway *gateway, struct connection *connection)
{
    struct relay *const relay = connection->relay;
    uint32_t wanted;
    if (!relay || connection->ended)
        return;
    if (relay->pipe->in_to && !carry(connection, &wanted)) /* the client has read, and no event may come for it */
        connection->ended = true;
    connection_flush(relay->pipe);
    if (relay->pipe->ended)
        connection->ended = true; /* no memory */
    const bool passed = connection->finished && !connection->stalled && !connection->waits && !connection->full && !connection_unsent(relay->pipe);
    if (passed && !relay->shut) {
        shutdown(relay->pipe->fd, SHUT_WR);
        relay->shut = true;
        CRASH_POINT("gateway_relay_shut");
    }
    watch(gateway, connection);
}

#include "remoting/connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_BYTES (64u << 10)
#define PIECES_MAX 160u

typedef int address_of(int fd, struct sockaddr *address, socklen_t *size);

static void put_address(int fd, address_of *find, char *to, size_t room)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    char text[INET6_ADDRSTRLEN] = "";
    if (find(fd, (struct sockaddr *)&address, &size) != 0)
        return;
    if (address.ss_family == AF_INET) {
        const struct sockaddr_in *const v4 = (const struct sockaddr_in *)(const void *)&address;
        inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
        snprintf(to, room, "%s:%u", text, (unsigned)ntohs(v4->sin_port));
    } else if (address.ss_family == AF_INET6) {
        const struct sockaddr_in6 *const v6 = (const struct sockaddr_in6 *)(const void *)&address;
        const bool v4 = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr); /* at an address for both: rules and routes name it as it is */
        inet_ntop(v4 ? AF_INET : AF_INET6, &v6->sin6_addr.s6_addr[v4 ? 12 : 0], text, sizeof text);
        snprintf(to, room, v4 ? "%s:%u" : "[%s]:%u", text, (unsigned)ntohs(v6->sin6_port));
    }
}

struct connection *connection_open(int fd, uint32_t index, uint32_t epoch)
{
    struct connection *const connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->fd = fd;
    connection->index = index;
    connection->epoch = epoch;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* if it is refused, answers are later */
    put_address(fd, getsockname, connection->local, sizeof connection->local);
    put_address(fd, getpeername, connection->peer, sizeof connection->peer);
    record_host_read(connection->peer, &connection->born);
    return connection;
}

void connection_set_peer(struct connection *connection, const char *peer)
{
    snprintf(connection->peer, sizeof connection->peer, "%s", peer);
    record_host_read(connection->peer, &connection->born);
}

void connection_free(struct connection *connection)
{
    close(connection->fd);
    free(connection->parsed);
    free(connection->in);
    free(connection->out);
    free(connection);
}

/* Room for one more byte at least, and no more than twice what has come. */
static bool grow_in(struct connection *connection, uint32_t wanted)
{
    if (connection->in_from) {
        memmove(connection->in, connection->in + connection->in_from, connection->in_to - connection->in_from);
        connection->in_to -= connection->in_from;
        connection->in_from = 0;
    }
    if (connection->in_to < connection->in_room)
        return true;
    uint32_t room = connection->in_room ? 2 * connection->in_room : READ_BYTES;
    if (wanted > READ_BYTES && room > wanted && wanted > connection->in_to)
        room = wanted;
    uint8_t *const in = realloc(connection->in, room);
    if (!in)
        return false;
    connection->in = in;
    connection->in_room = room;
    return true;
}

enum connection_read connection_read(struct connection *connection, uint32_t wanted)
{
    if (connection->in_to == connection->in_room && !grow_in(connection, wanted))
        return CONNECTION_LOST;
    const ssize_t size = recv(connection->fd, connection->in + connection->in_to, connection->in_room - connection->in_to, 0);
    if (size > 0) {
        connection->in_to += (uint32_t)size;
        return CONNECTION_SOME;
    }
    if (!size)
        return CONNECTION_END;
    return errno == EAGAIN || errno == EINTR ? CONNECTION_NONE : CONNECTION_LOST;
}

void connection_pass(struct connection *connection, uint32_t size)
{
    connection->in_from += size;
    connection->passed += size;
    if (connection->in_from < connection->in_to)
        return;
    connection->in_from = connection->in_to = 0;
    if (connection->in_room > READ_BYTES) /* it was a large one */
        connection_rest(connection);
}

uint32_t connection_rest(struct connection *connection)
{
    if (connection->in_to)
        return 0;
    const uint32_t room = connection->in_room;
    free(connection->in);
    connection->in = NULL;
    connection->in_room = 0;
    return room;
}

uint8_t *connection_room(struct connection *connection, uint64_t size)
{
    if (connection->out_to + size > connection->out_room) {
        const uint64_t unsent = connection_unsent(connection);
        if (unsent)
            memmove(connection->out, connection->out + connection->out_from, unsent);
        connection->out_from = 0;
        connection->out_to = unsent;
        if (unsent + size > connection->out_room) {
            const uint64_t room = 2 * (unsent + size) + 1024;
            uint8_t *const out = realloc(connection->out, room);
            if (!out) {
                connection->ended = true;
                return NULL;
            }
            connection->out = out;
            connection->out_room = room;
        }
    }
    uint8_t *const at = connection->out + connection->out_to;
    connection->out_to += size;
    return at;
}

/* After everything was sent: the memory of a large answer is given back. */
static void rest(struct connection *connection)
{
    connection->out_from = connection->out_to = 0;
    if (connection->out_room > READ_BYTES) {
        free(connection->out);
        connection->out = NULL;
        connection->out_room = 0;
    }
}

bool connection_flush(struct connection *connection) { return connection_write(connection, NULL, 0); }

bool connection_write(struct connection *connection, struct iovec *pieces, uint32_t count)
{
    while (!connection->ended && !connection->deaf && (count || connection_unsent(connection))) {
        struct iovec all[PIECES_MAX];
        const uint32_t most = count < PIECES_MAX - 1 ? count : PIECES_MAX - 1;
        all[0] = (struct iovec){connection->out + connection->out_from, connection_unsent(connection)};
        for (uint32_t i = 0; i < most; i++)
            all[1 + i] = pieces[i];
        const struct msghdr message = {.msg_iov = all, .msg_iovlen = 1 + most};
        const ssize_t sent = sendmsg(connection->fd, &message, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EAGAIN || errno == EINTR)
                break;
            const bool broken = errno == EPIPE || errno == ECONNRESET || errno == ETIMEDOUT;
            connection->deaf = broken;
            connection->ended = !broken; /* it lives, but would wait for its answers in vain */
            break;
        }
        uint64_t size = (uint64_t)sent;
        const uint64_t before = size < all[0].iov_len ? size : all[0].iov_len;
        connection->out_from += before;
        size -= before;
        for (; count && size >= pieces->iov_len; pieces++, count--)
            size -= pieces->iov_len;
        if (size) {
            pieces->iov_base = (uint8_t *)pieces->iov_base + size;
            pieces->iov_len -= size;
        }
    }
    if (connection->deaf)
        connection->out_from = connection->out_to = 0;
    for (; count && !connection->ended && !connection->deaf; pieces++, count--) {
        uint8_t *const at = connection_room(connection, pieces->iov_len);
        if (at)
            memcpy(at, pieces->iov_base, pieces->iov_len);
    }
    if (!connection_unsent(connection))
        rest(connection);
    return !connection->ended;
}

/* Connections that begin with TLS. The loop speaks none: it hands their sockets to Python (actors/gateway/tls_door.py), which decrypts what comes into a
 * socket of a pair, and the other one of the pair becomes a connection like any other. RocketMQ decides by the first byte, too.
 */
#include "remoting/gateway/gateway_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define HANDSHAKE 0x16 /* the type of the record with which TLS begins; no frame of less than 352 MiB begins so */

void gateway_speak_tls(struct gateway *gateway, enum gateway_tls tls) { gateway->tls = tls; }

/* Python gets a duplicate, so that the connection can end as any other. */
static void hand_over(struct gateway *gateway, struct connection *connection)
{
    struct gateway_hello *const hello = &gateway->hellos[gateway->hello_count];
    epoll_ctl(gateway->poll, EPOLL_CTL_DEL, connection->fd, NULL); /* a duplicate would keep it there */
    connection->ended = true;
    hello->fd = fcntl(connection->fd, F_DUPFD_CLOEXEC, 0);
    if (hello->fd < 0)
        return; /* no descriptors are left */
    memcpy(hello->local, connection->local, sizeof hello->local);
    memcpy(hello->peer, connection->peer, sizeof hello->peer);
    gateway->hello_count++;
}

bool gateway_greets(struct gateway *gateway, struct connection *connection)
{
    uint8_t first;
    if (gateway->tls == GATEWAY_PLAIN || connection->greeted)
        return true;
    const ssize_t size = recv(connection->fd, &first, 1, MSG_PEEK);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (size > 0 && first == HANDSHAKE && gateway->hello_count < GATEWAY_CONNECTIONS)
        hand_over(gateway, connection);
    else if (size > 0 && first != HANDSHAKE && gateway->tls == GATEWAY_PLAIN_OR_TLS && gateway_relay_open(gateway, connection))
        connection->greeted = true;
    else
        connection->ended = true;
    gateway_mark(gateway, connection);
    return connection->greeted;
}

bool gateway_hello(struct gateway *gateway, struct gateway_hello *hello)
{
    if (!gateway->hello_count)
        return false;
    *hello = gateway->hellos[--gateway->hello_count];
    return true;
}

bool gateway_adopt(struct gateway *gateway, const struct gateway_hello *hello) { return gateway_connect(gateway, hello->fd, hello) != NULL; }

void gateway_forget_hellos(struct gateway *gateway)
{
    while (gateway->hello_count)
        close(gateway->hellos[--gateway->hello_count].fd);
}

/* What the lead and a front tell each other over their line (gateway_line.h). Nobody waits for the other side: what finds no room is told
 * later, or not at all.
 */
#include "remoting/gateway/gateway_line.h"

#include "base/crash_point.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define TAKEN_AT_ONCE 4096u /* so that no front keeps the lead from its own work */

bool gateway_line_put(int line, const struct line_message *message, int fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } rights = {.room = {0}};
    struct iovec piece = {(void *)(uintptr_t)message, sizeof *message};
    struct msghdr packet = {.msg_iov = &piece, .msg_iovlen = 1};
    if (fd >= 0) {
        packet.msg_control = rights.room;
        packet.msg_controllen = sizeof rights.room;
        rights.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
        memcpy(CMSG_DATA(&rights.header), &fd, sizeof fd);
    }
    ssize_t sent;
    do {
        sent = sendmsg(line, &packet, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof *message;
}

bool gateway_line_open(int line)
{
    struct pollfd look = {.fd = line, .events = POLLOUT};
    return poll(&look, 1, 0) == 1 && look.revents & POLLOUT;
}

/* False: nothing more has come. *fd: what came along, which is the caller's; -1: nothing. */
static bool take(int line, struct line_message *message, int *fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } rights;
    struct iovec piece = {message, sizeof *message};
    struct msghdr packet = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = rights.room, .msg_controllen = sizeof rights.room};
    *fd = -1;
    ssize_t size;
    do {
        size = recvmsg(line, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (size < 0 && errno == EINTR);
    if (size <= 0)
        return false;
    const struct cmsghdr *const found = CMSG_FIRSTHDR(&packet);
    if (found && found->cmsg_level == SOL_SOCKET && found->cmsg_type == SCM_RIGHTS && found->cmsg_len == CMSG_LEN(sizeof *fd))
        memcpy(fd, CMSG_DATA(found), sizeof *fd);
    if (size != (ssize_t)sizeof *message)
        message->kind = 0;
    return true;
}

static void greet(struct gateway *gateway, const struct line_message *message, int fd)
{
    struct gateway_hello hello = {.fd = fd};
    memcpy(hello.local, message->hello.local, sizeof hello.local);
    memcpy(hello.peer, message->hello.peer, sizeof hello.peer);
    if (fd < 0) { /* the kernel has closed it, and so the client's connection ends */
        gateway_turn_away(gateway, GATEWAY_NO_DESCRIPTORS, hello.peer);
        return;
    }
    struct connection *const connection = gateway_connect(gateway, fd, &hello);
    if (connection)
        connection->of_front = true;
    CRASH_POINT("gateway_line_greeted");
}

/* As the lead, from a front. */
static void lead(struct gateway *gateway, uint32_t front, const struct line_message *message, int fd)
{
    switch (message->kind) {
    case LINE_HELLO:
        greet(gateway, message, fd);
        return; /* the descriptor is the connection's */
    case LINE_COMMIT:
        gateway_gather_told(gateway, &message->commit);
        CRASH_POINT("gateway_line_committed");
        break;
    case LINE_BEGIN:
        gateway->table_due[front] = true;
        gateway->table_ms = 0;
        break;
    default:
        break;
    }
    if (fd >= 0)
        close(fd);
}

void gateway_take_lines(struct gateway *gateway)
{
    struct line_message message;
    int fd;
    for (uint32_t i = 0; i < GATEWAYS_MAX; i++) {
        for (uint32_t n = 0; n < TAKEN_AT_ONCE && gateway->lines[i] >= 0 && take(gateway->lines[i], &message, &fd); n++) {
            if (!gateway->number) {
                lead(gateway, i, &message, fd);
                continue;
            }
            if (message.kind == LINE_TABLE && fd >= 0)
                gateway_take_table(gateway, message.version, fd);
            if (fd >= 0)
                close(fd);
        }
    }
}

bool gateway_give_line(struct gateway *gateway, uint32_t front, int line)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = CONNECTION_LINE};
    const struct line_message begin = {.kind = LINE_BEGIN};
    assert(front && front < GATEWAYS_MAX && (!gateway->number || gateway->number == front));
    if (epoll_ctl(gateway->poll, EPOLL_CTL_ADD, line, &event) != 0)
        return false;
    gateway->lines[front] = line;
    if (gateway->number)
        gateway->begun = gateway_line_put(line, &begin, -1);
    else
        gateway->table_due[front] = true;
    return true;
}

void gateway_look_at_line(struct gateway *gateway)
{
    if (gateway->line_full && gateway_line_open(gateway->lines[gateway->number])) {
        gateway->line_full = false;
        gateway_listen_now(gateway, !gateway->stopping);
    }
}

void gateway_begin_line(struct gateway *gateway)
{
    const struct line_message begin = {.kind = LINE_BEGIN};
    if (gateway->number && !gateway->begun)
        gateway->begun = gateway_line_put(gateway->lines[gateway->number], &begin, -1);
}

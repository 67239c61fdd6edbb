/* The loop: connections come and go, frames are found and served, and the loop sleeps until there is news.
 *
 * It sleeps in epoll, except while a send waits for its verdict: then it sleeps behind its session's bell, and looks at the sockets at
 * least once a millisecond. While pulls are held or replies awaited, reput ends its sleep (gateway_hold.c).
 */
#include "base/crash_point.h"
#include "remoting/gateway_pop.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 64
#define SENT_LOOK_NS UINT64_C(1000000)
#define LOOK_MS 100
#define IDLE_LOOK_MS 1000u
#define TRIM_BYTES (8u << 20)

struct gateway *gateway_open(struct attachment *tree, int listener)
{
    const struct settings *const settings = &tree->control->settings;
    struct gateway *const gateway = calloc(1, sizeof *gateway);
    if (!gateway)
        return NULL;
    gateway->tree = tree;
    gateway_accept_at(gateway, listener);
    gateway_limit(gateway, &(struct gateway_limits){.in_all = GATEWAY_CONNECTIONS, .idle_ms = GATEWAY_IDLE_MS, .parts_bytes = GATEWAY_PARTS_BYTES});
    gateway->poll = epoll_create1(EPOLL_CLOEXEC);
    gateway->cursors = calloc(tree->topics->queue_capacity, sizeof *gateway->cursors);
    gateway->reader = reader_open(tree->control, tree->topics, settings->store, settings->log_file_size, settings->queue_file_units);
    if (gateway->poll < 0 || !gateway->cursors || !gateway->reader || !gateway_holds_open(gateway)) {
        const int error = errno;
        gateway_close(gateway);
        errno = error;
        return NULL;
    }
    return gateway;
}

static void drop(struct gateway *gateway, struct connection *connection)
{
    gateway->connections[connection->index] = NULL;
    gateway->count--;
    gateway->holds_until_ms = 0; /* its own are looked for */
    connection_free(connection);
}

void gateway_close(struct gateway *gateway)
{
    for (uint32_t i = 0; i < gateway->used; i++)
        if (gateway->connections[i]) {
            connection_flush(gateway->connections[i]);
            drop(gateway, gateway->connections[i]);
        }
    if (gateway->poll >= 0)
        close(gateway->poll);
    if (gateway->reader) {
        reader_close(gateway->reader);
        reader_free(gateway->reader);
    }
    gateway_filters_free(&gateway->filters);
    gateway_pops_free(gateway);
    gateway_forget_hellos(gateway);
    acl_free(gateway->acl);
    free(gateway->cursors);
    free(gateway->held);
    free(gateway->holds);
    free(gateway->sent);
    free(gateway->ids);
    free(gateway);
}

void gateway_attach(struct gateway *gateway, void *memory, const struct session_shape *shape)
{
    struct attachment *const tree = gateway->tree;
    assert(!gateway->attached);
    gateway->sent = calloc(shape->window, sizeof *gateway->sent);
    gateway->ids = calloc(shape->window, GATEWAY_ID_ROOM);
    if (!gateway->sent || !gateway->ids)
        return;
    sender_attach(&gateway->sender, memory, shape, tree->control, tree->topics, tree->wake, -1);
    gateway->attached = true;
}

uint32_t gateway_connections(const struct gateway *gateway) { return gateway->count; }

const struct topic_entry *gateway_topic(const struct gateway *gateway, struct slice name, uint32_t *index)
{
    const struct topics *const topics = gateway->tree->topics;
    *index = name.data && name.size <= TOPIC_NAME_MAX ? topics_find(topics, name.data, name.size) : TOPIC_NONE;
    const struct topic_entry *const topic = *index == TOPIC_NONE ? NULL : &topics->topic[*index];
    return topic && !topic_deleted(topic) ? topic : NULL;
}

/* ---- connections ---- */

bool gateway_accept_at(struct gateway *gateway, int listener)
{
    if (gateway->listener_count == GATEWAY_LISTENERS)
        return false;
    gateway->listeners[gateway->listener_count++] = listener;
    return true;
}

/* If not all of them could be put into the poll, or taken out, the next call goes on with the rest. */
static void listen_now(struct gateway *gateway, bool on)
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
        memcpy(connection->peer, hello->peer, sizeof connection->peer);
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
    return connection;
}

/* False: no descriptors are left. */
static bool accept_from(struct gateway *gateway, int listener)
{
    for (;;) {
        const int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
        if (gateway_connect(gateway, fd, NULL))
            CRASH_POINT("gateway_accepted");
    }
}

/* Epoll does not say at which of them somebody waits. */
static void accept_all(struct gateway *gateway)
{
    for (uint32_t i = 0; i < gateway->listener_count; i++)
        if (!accept_from(gateway, gateway->listeners[i])) {
            listen_now(gateway, false); /* until somebody leaves, or the next look */
            gateway_turn_away(gateway, GATEWAY_NO_DESCRIPTORS, "");
            return;
        }
}

/* What epoll is to say about the connection from now on. If that is nothing, it is taken out: otherwise epoll would tell of a broken
 * connection without end, while its request waits for room. */
static void watch(struct gateway *gateway, struct connection *connection)
{
    const bool full = connection_unsent(connection) > CONNECTION_OUT_MAX;
    const bool waits = connection->stalled || connection->asked || connection->finished || full || gateway->stopping;
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

/* ---- requests ---- */

static enum gateway_served serve(struct gateway *gateway, struct connection *connection, const struct remoting_header *header,
                                 const struct remoting_frame *frame)
{
    const struct gateway_asker asker = gateway_asker(connection, header, frame->type);
    const uint8_t *const body = connection->in + connection->in_from + frame->body_at;
    if (header->flag & REMOTING_RESPONSE) {
        gateway_forwarded(gateway, connection, header, (struct slice){body, frame->body_size});
        return GATEWAY_SERVED;
    }
    if (!connection->parsed && !gateway_admits(gateway, &asker, connection->peer, header, (struct slice){body, frame->body_size}))
        return GATEWAY_SERVED;
    switch (header->code) {
    case GATEWAY_SEND:
    case GATEWAY_SEND_V2:
    case GATEWAY_SEND_BATCH:
    case GATEWAY_REPLY:
    case GATEWAY_REPLY_V2:
        return gateway->attached ? gateway_send(gateway, &asker, header, body, frame->body_size) : GATEWAY_STALLED;
    case GATEWAY_END:
        return gateway->attached ? gateway_end(gateway, &asker, header) : GATEWAY_STALLED;
    case GATEWAY_BACK:
        return gateway->attached ? gateway_back(gateway, &asker, header) : GATEWAY_STALLED;
    case GATEWAY_PULL:
    case GATEWAY_LITE_PULL:
        gateway_pull(gateway, &asker, header);
        return GATEWAY_SERVED;
    case GATEWAY_POP:
        return gateway_pop(gateway, &asker, header);
    case GATEWAY_POP_ACK:
        return gateway_pop_ack(gateway, &asker, header);
    case GATEWAY_POP_CHANGE:
        return gateway_pop_change(gateway, &asker, header);
    case GATEWAY_MAX_OFFSET:
    case GATEWAY_MIN_OFFSET:
        gateway_bounds(gateway, &asker, header);
        return GATEWAY_SERVED;
    default:
        return GATEWAY_ASKED;
    }
}

/* Keeps the header of a request that must wait: reading it has changed the frame. */
static bool keep_parsed(struct gateway *gateway, struct connection *connection)
{
    if (connection->parsed)
        return true;
    connection->parsed = malloc(sizeof *connection->parsed);
    if (connection->parsed)
        *connection->parsed = gateway->header;
    return connection->parsed;
}

void gateway_forget_parsed(struct connection *connection)
{
    free(connection->parsed);
    connection->parsed = NULL;
    connection->prepared = false;
}

void gateway_remove(struct connection **list, uint32_t *count, const struct connection *connection)
{
    for (uint32_t i = 0; i < *count; i++)
        if (list[i] == connection) {
            memmove(list + i, list + i + 1, (--*count - i) * sizeof *list);
            return;
        }
}

static void stall(struct gateway *gateway, struct connection *connection)
{
    if (connection->stalled)
        return;
    connection->stalled = true;
    gateway->stalled[gateway->stalled_count++] = connection;
}

static void resume(struct gateway *gateway, struct connection *connection)
{
    if (!connection->stalled)
        return;
    connection->stalled = false;
    gateway_remove(gateway->stalled, &gateway->stalled_count, connection);
}

/* Serves the whole frames that have come. Returns how many; *wanted: size of the next one, if it is known. */
static uint32_t serve_frames(struct gateway *gateway, struct connection *connection, uint32_t *wanted)
{
    uint32_t done = 0;
    *wanted = 0;
    while (!connection->ended && !connection->asked) {
        connection->full = connection_unsent(connection) > CONNECTION_OUT_MAX;
        if (connection->full)
            break;
        struct remoting_frame frame;
        uint8_t *const data = connection->in + connection->in_from;
        const enum remoting_border border = remoting_frame(data, connection->in_to - connection->in_from, &frame);
        if (border == REMOTING_PART) {
            *wanted = frame.size;
            break;
        }
        if (border == REMOTING_BAD_FRAME ||
            (!connection->parsed &&
             !remoting_header_read(data + REMOTING_FRAME_START, frame.header_size, frame.type, &gateway->header))) {
            connection->ended = true; /* as RocketMQ: what cannot be read cannot be answered */
            break;
        }
        const enum gateway_served served = serve(gateway, connection, connection->parsed ? connection->parsed : &gateway->header, &frame);
        if (served != GATEWAY_SERVED) {
            if (!keep_parsed(gateway, connection)) {
                connection->ended = true;
            } else if (served == GATEWAY_ASKED) {
                connection->asked = true;
                gateway->asked[gateway->asked_count++] = connection;
            } else {
                stall(gateway, connection);
            }
            break;
        }
        resume(gateway, connection);
        gateway_forget_parsed(connection);
        connection_pass(connection, frame.size);
        done++;
    }
    return done;
}

uint32_t gateway_serve(struct gateway *gateway, struct connection *connection, bool readable)
{
    uint32_t wanted;
    if (readable && !gateway_greets(gateway, connection))
        return 1;
    uint32_t done = serve_frames(gateway, connection, &wanted);
    if (readable && !connection->asked && !connection->stalled && !connection->ended && !gateway_has_memory(gateway, connection))
        connection->ended = true;
    if (readable && !connection->asked && !connection->stalled && !connection->ended) {
        switch (connection_read(connection, wanted)) {
        case CONNECTION_SOME:
            connection->heard_ms = clock_ms();
            done += 1 + serve_frames(gateway, connection, &wanted);
            break;
        case CONNECTION_END:
            gateway_finished(gateway, connection);
            break;
        case CONNECTION_LOST:
            connection->ended = true;
            break;
        case CONNECTION_NONE:
            break;
        }
    }
    gateway_mark(gateway, connection);
    return done;
}

/* Those whose request found no room in the submission ring. */
static uint32_t serve_stalled(struct gateway *gateway)
{
    uint32_t done = 0;
    const uint32_t count = gateway->stalled_count;
    struct connection *waiting[GATEWAY_CONNECTIONS];
    memcpy(waiting, gateway->stalled, count * sizeof *waiting);
    gateway->stalled_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        waiting[i]->stalled = false; /* it goes to the list again if there is no room still */
        done += gateway_serve(gateway, waiting[i], false);
    }
    return done;
}

/* ---- rounds ---- */

/* A connection that Python may know is told to it. */
static void note_gone(struct gateway *gateway, const struct connection *connection)
{
    if (connection->known && gateway->gone_count < GATEWAY_CONNECTIONS)
        gateway->gone[gateway->gone_count++] = (struct gateway_client){connection->index, connection->epoch};
}

/* Sends what was answered in this round, and lets go of connections that have ended. */
static void finish_round(struct gateway *gateway)
{
    for (uint32_t i = 0; i < gateway->dirty_count; i++) {
        struct connection *const connection = gateway->dirty[i];
        connection->queued = false;
        const uint64_t unsent = connection_unsent(connection);
        connection_flush(connection);
        CRASH_POINT("gateway_flushed");
        if (connection_unsent(connection) < unsent)
            connection->heard_ms = clock_ms();
        if (connection->ended || (connection->finished && !gateway_owes(gateway, connection))) {
            gateway_remove(gateway->asked, &gateway->asked_count, connection);
            gateway_remove(gateway->stalled, &gateway->stalled_count, connection);
            note_gone(gateway, connection);
            drop(gateway, connection);
            listen_now(gateway, !gateway->stopping);
        } else {
            if (connection->full && connection_unsent(connection) <= CONNECTION_OUT_MAX)
                stall(gateway, connection); /* it has requests left, and no event may come for them */
            if (connection->holds_full && connection_unsent(connection) <= CONNECTION_OUT_MAX) {
                connection->holds_full = false;
                gateway->holds_until_ms = 0; /* they are looked at */
            }
            watch(gateway, connection);
        }
    }
    gateway->dirty_count = 0;
}

static void end_idle(struct gateway *gateway)
{
    const uint64_t now = clock_ms();
    if (now - gateway->idle_ms < IDLE_LOOK_MS)
        return;
    gateway->idle_ms = now;
    listen_now(gateway, !gateway->stopping);
    uint64_t freed = 0;
    for (uint32_t i = 0; i < gateway->used; i++) {
        struct connection *const connection = gateway->connections[i];
        if (connection && (connection->ended || now - connection->heard_ms > gateway->limits.idle_ms)) {
            connection->ended = true;
            gateway_mark(gateway, connection);
        } else if (connection && connection->finished) {
            gateway_mark(gateway, connection); /* what it was owed may have been given up without a word */
        } else if (connection && now - connection->heard_ms > IDLE_LOOK_MS) {
            freed += connection_rest(connection);
        }
    }
    if (freed > TRIM_BYTES)
        malloc_trim(0); /* they lie scattered, and would stay resident */
}

static uint32_t serve_waiters(struct gateway *gateway) 
{
    return gateway_look_at_holds(gateway) + gateway_push_replies(gateway) + gateway_look_at_forwards(gateway) + gateway_look_at_pops(gateway);
}

/* Sleeps at most timeout_ms, unless there is news for those who wait for messages. As epoll_wait. */
static int await_events(struct gateway *gateway, struct epoll_event *events, int timeout_ms)
{
    if (!timeout_ms || !gateway_listens(gateway))
        return epoll_wait(gateway->poll, events, EVENTS, timeout_ms);
    const uint32_t ticket = gateway_announce(gateway);
    const uint32_t news = serve_waiters(gateway);
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
            accept_all(gateway);
            done++;
            continue;
        }
        if (events[i].data.u32 == CONNECTION_EVENT) {
            gateway_take_event(gateway);
            done++;
            continue;
        }
        struct connection *const connection = gateway->connections[events[i].data.u32];
        if (!connection)
            continue;
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
        done += serve_stalled(gateway);
    done += serve_waiters(gateway);
    end_idle(gateway);
    finish_round(gateway);
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
        listen_now(gateway, false);
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
    listen_now(gateway, true);
    for (;;) {
        const bool awake = busy || unanswered(gateway) || (gateway->stalled_count && gateway->attached);
        const int events = serve_events(gateway, awake ? 0 : LOOK_MS);
        const uint32_t news = serve_news(gateway);
        busy = events > 0 || news;
        attachment_beat(gateway->tree);
        if (gateway->asked_count || gateway->gone_count || gateway->hello_count)
            return RUN_NEED;
        if (events < 0)
            return RUN_SIGNAL;
        if (!busy && unanswered(gateway))
            await_verdict(gateway);
        if (gateway->attached && !busy && !sender_alive(&gateway->sender)) {
            attachment_state(gateway->tree, ACTOR_FAILED, ESTALE);
            return RUN_FAILED;
        }
        if (clock_ms() >= end)
            return RUN_TIME;
    }
}

/* Requests: frames are found in what has come, and each is served, left to Python, passed on to the lead, or waits. */
#include "remoting/gateway/gateway_line.h"
#include "remoting/gateway/gateway_pop.h"

#include "base/clock.h"

#include <stdlib.h>

/* Serves a request that the rules allow. */
static enum gateway_served serve_allowed(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header,
                                         struct slice body)
{
    switch (header->code) {
    case GATEWAY_SEND:
    case GATEWAY_SEND_V2:
    case GATEWAY_SEND_BATCH:
    case GATEWAY_REPLY:
    case GATEWAY_REPLY_V2:
        return gateway->attached ? gateway_send(gateway, asker, header, body.data, body.size) : GATEWAY_STALLED;
    case GATEWAY_END:
        return gateway->attached ? gateway_end(gateway, asker, header) : GATEWAY_STALLED;
    case GATEWAY_BACK:
        return gateway->attached ? gateway_back(gateway, asker, header) : GATEWAY_STALLED;
    case GATEWAY_PULL:
    case GATEWAY_LITE_PULL:
        return gateway_pull(gateway, asker, header);
    case GATEWAY_POP:
        return gateway_pop(gateway, asker, header);
    case GATEWAY_POP_ACK:
        return gateway_pop_ack(gateway, asker, header);
    case GATEWAY_POP_CHANGE:
        return gateway_pop_change(gateway, asker, header);
    case GATEWAY_MAX_OFFSET:
    case GATEWAY_MIN_OFFSET:
        gateway_bounds(gateway, asker, header);
        return GATEWAY_SERVED;
    default:
        return GATEWAY_ASKED;
    }
}

static bool is_admitted(struct gateway *gateway, struct connection *connection, const struct gateway_asker *asker,
                        const struct remoting_header *header, struct slice body)
{
    if (!connection->admitted)
        connection->admitted = gateway_admits(gateway, asker, connection->peer, header, body);
    return connection->admitted;
}

/* What ends up in the submission ring. */
static bool is_send(int32_t code)
{
    switch (code) {
    case GATEWAY_SEND:
    case GATEWAY_SEND_V2:
    case GATEWAY_SEND_BATCH:
    case GATEWAY_REPLY:
    case GATEWAY_REPLY_V2:
    case GATEWAY_END:
    case GATEWAY_BACK:
        return true;
    default:
        return false;
    }
}

/* Of sends and these a front serves those that need nothing that only the lead knows. */
static bool is_look(int32_t code)
{
    return code == GATEWAY_PULL || code == GATEWAY_LITE_PULL || code == GATEWAY_MAX_OFFSET || code == GATEWAY_MIN_OFFSET;
}

/* As a front: gateway_relay.c has the order. */
static enum gateway_served serve_or_pass(struct gateway *gateway, struct connection *connection, const struct gateway_asker *asker,
                                         const struct remoting_header *header, const struct remoting_frame *frame, struct slice body)
{
    const bool sends = is_send(header->code);
    if (header->flag & REMOTING_RESPONSE || (!sends && !is_look(header->code)))
        return gateway_pass_on(gateway, connection, frame, false);
    if (gateway_relay_behind(connection, sends))
        return GATEWAY_WAITS;
    if (!is_admitted(gateway, connection, asker, header, body))
        return GATEWAY_SERVED;
    const enum gateway_served served = serve_allowed(gateway, asker, header, body);
    if (served != GATEWAY_ASKED)
        return served;
    return sends && connection->sends ? GATEWAY_STALLED : gateway_pass_on(gateway, connection, frame, sends);
}

static enum gateway_served serve(struct gateway *gateway, struct connection *connection, const struct remoting_header *header,
                                 const struct remoting_frame *frame)
{
    const struct gateway_asker asker = gateway_asker(connection, header, frame->type);
    const struct slice body = {connection->in + connection->in_from + frame->body_at, frame->body_size};
    if (gateway->number)
        return serve_or_pass(gateway, connection, &asker, header, frame, body);
    if (header->flag & REMOTING_RESPONSE) {
        gateway_forwarded(gateway, connection, header, body);
        return GATEWAY_SERVED;
    }
    if (!is_admitted(gateway, connection, &asker, header, body))
        return GATEWAY_SERVED;
    return serve_allowed(gateway, &asker, header, body);
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
    connection->admitted = false;
}

void gateway_remove(struct connection **list, uint32_t *count, const struct connection *connection)
{
    for (uint32_t i = 0; i < *count; i++)
        if (list[i] == connection) {
            memmove(list + i, list + i + 1, (--*count - i) * sizeof *list);
            return;
        }
}

void gateway_stall(struct gateway *gateway, struct connection *connection)
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
    while (!connection->ended && !connection->asked && !connection->waits) {
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
             (!gateway_keep_raw(gateway, data, &frame) ||
              !remoting_header_read(data + REMOTING_FRAME_START, frame.header_size, frame.type, &gateway->header)))) {
            connection->ended = true; /* as RocketMQ: what cannot be read cannot be answered */
            break;
        }
        const enum gateway_served served = serve(gateway, connection, connection->parsed ? connection->parsed : &gateway->header, &frame);
        if (served != GATEWAY_SERVED) {
            if (gateway->number) /* it is read again, so that it can still be passed on as it came */
                gateway_restore_raw(gateway, data);
            else if (!keep_parsed(gateway, connection))
                connection->ended = true;
            if (connection->ended) {
                break;
            } else if (served == GATEWAY_WAITS) {
                connection->waits = true;
            } else if (served == GATEWAY_ASKED) {
                connection->asked = true;
                gateway->asked[gateway->asked_count++] = connection;
            } else {
                gateway_stall(gateway, connection);
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
    const bool waits = connection->asked || connection->stalled || connection->waits || connection->ended;
    if (readable && !waits && !gateway_has_memory(gateway, connection))
        connection->ended = true;
    if (readable && !waits && !connection->ended) {
        switch (connection_read(connection, wanted)) {
        case CONNECTION_SOME:
            connection->heard_ms = clock_ms();
            done += 1 + serve_frames(gateway, connection, &wanted);
            break;
        case CONNECTION_END:
            gateway_finished(gateway, connection);
            break;
        case CONNECTION_LOST:
            if (connection->relay) { /* what it has sent before is still to be passed on */
                connection->deaf = true;
                gateway_finished(gateway, connection);
            } else {
                connection->ended = true;
            }
            break;
        case CONNECTION_NONE:
            break;
        }
    }
    gateway_mark(gateway, connection);
    return done;
}

uint32_t gateway_serve_stalled(struct gateway *gateway)
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

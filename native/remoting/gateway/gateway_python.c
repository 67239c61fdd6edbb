/* What the loop leaves to Python, and what Python has to say to clients that asked nothing. */
#include "remoting/gateway/gateway_parts.h"

bool gateway_asked(struct gateway *gateway, struct gateway_request *request)
{
    if (!gateway->asked_count)
        return false;
    struct connection *const connection = gateway->asked[0];
    struct remoting_frame frame;
    remoting_frame(connection->in + connection->in_from, connection->in_to - connection->in_from, &frame);
    connection->known = true;
    *request = (struct gateway_request){
        .client = {connection->index, connection->epoch},
        .header = connection->parsed,
        .body = connection->in + connection->in_from + frame.body_at,
        .body_size = frame.body_size,
        .local = connection->local,
        .peer = connection->peer,
    };
    return true;
}

void gateway_pass_asked(struct gateway *gateway, const struct gateway_request *request)
{
    struct connection *const connection = gateway->connections[request->client.connection];
    struct remoting_frame frame;
    remoting_frame(connection->in + connection->in_from, connection->in_to - connection->in_from, &frame);
    gateway_remove(gateway->asked, &gateway->asked_count, connection);
    connection->asked = false;
    gateway_forget_parsed(connection);
    connection_pass(connection, frame.size);
    gateway_serve(gateway, connection, false);
}

void gateway_answer(struct gateway *gateway, const struct gateway_request *request, struct remoting_header *answer, const uint8_t *body,
                    uint32_t body_size)
{
    struct connection *const connection = gateway->connections[request->client.connection];
    struct remoting_frame frame;
    assert(connection && connection->epoch == request->client.epoch && connection->asked);
    remoting_frame(connection->in + connection->in_from, connection->in_to - connection->in_from, &frame);
    const struct gateway_asker asker = gateway_asker(connection, connection->parsed, frame.type);
    struct iovec pieces[2] = {{0}, {(void *)(uintptr_t)body, body_size}};
    gateway->answer = *answer;
    gateway_finish(gateway, &asker, pieces, 2);
    gateway_pass_asked(gateway, request);
}

void gateway_again(struct gateway *gateway, const struct gateway_request *request)
{
    struct connection *const connection = gateway->connections[request->client.connection];
    assert(connection && connection->epoch == request->client.epoch && connection->asked);
    gateway_remove(gateway->asked, &gateway->asked_count, connection);
    connection->asked = false;
    connection->prepared = true;
    gateway_serve(gateway, connection, false);
}

void gateway_later(struct gateway *gateway, const struct gateway_request *request)
{
    struct connection *const connection = gateway->connections[request->client.connection];
    assert(connection && connection->epoch == request->client.epoch && connection->asked);
    gateway_remove(gateway->asked, &gateway->asked_count, connection);
    connection->asked = false;
    gateway_stall(gateway, connection);
}

bool gateway_gone(struct gateway *gateway, struct gateway_client *client)
{
    if (!gateway->gone_count)
        return false;
    *client = gateway->gone[--gateway->gone_count];
    return true;
}

bool gateway_tell(struct gateway *gateway, struct gateway_client client, struct remoting_header *header, const uint8_t *body, uint32_t body_size)
{
    const struct gateway_asker whom = {.connection = client.connection, .epoch = client.epoch, .type = REMOTING_JSON};
    struct connection *const connection = gateway_listener(gateway, &whom);
    struct iovec piece = {(void *)(uintptr_t)body, body_size};
    if (!connection || connection_unsent(connection) > CONNECTION_OUT_MAX)
        return false;
    gateway->answer = *header;
    gateway->answer.opaque = (int32_t)(++gateway->told & INT32_MAX);
    gateway->answer.flag = REMOTING_ONE_WAY;
    gateway_write(gateway, connection, REMOTING_JSON, &piece, 1);
    return !connection->ended;
}

bool gateway_subscribe(struct gateway *gateway, struct slice group, struct slice topic, bool sql, struct slice text, int64_t version)
{
    const uint64_t before = gateway->filters.changes;
    const bool kept = gateway_filter_subscribe(&gateway->filters, group, topic, sql, text, version);
    if (gateway->filters.changes != before)
        gateway_subscriptions_changed(gateway);
    return kept;
}

void gateway_unsubscribe(struct gateway *gateway, struct slice group)
{
    const uint64_t before = gateway->filters.changes;
    gateway_filter_unsubscribe(&gateway->filters, group);
    if (gateway->filters.changes != before)
        gateway_subscriptions_changed(gateway);
}

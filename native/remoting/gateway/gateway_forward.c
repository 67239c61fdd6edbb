/* Requests that are passed on to another client, such as an operator's question about a consumer. The asker gets that client's answer as it
 * is, or an answer that none came, because the client has gone or was silent for too long.
 */
#include "remoting/gateway/gateway_parts.h"

#include "base/clock.h"

bool gateway_forward(struct gateway *gateway, const struct gateway_request *request, struct gateway_client client,
                     struct remoting_header *header, const uint8_t *body, uint32_t body_size, uint32_t limit_ms)
{
    const struct connection *const asking = gateway->connections[request->client.connection];
    const struct gateway_asker whom = {.connection = client.connection, .epoch = client.epoch};
    struct connection *const connection = gateway_listener(gateway, &whom);
    struct remoting_frame frame;
    if (!connection || connection_unsent(connection) > CONNECTION_OUT_MAX || gateway->forward_count == GATEWAY_FORWARDS)
        return false;
    remoting_frame(asking->in + asking->in_from, asking->in_to - asking->in_from, &frame);
    struct gateway_forward *const forward = &gateway->forwards[gateway->forward_count++];
    *forward = (struct gateway_forward){
        .asker = gateway_asker(asking, asking->parsed, frame.type),
        .to = whom,
        .opaque = (int32_t)(++gateway->told & INT32_MAX),
        .until_ms = clock_ms() + limit_ms,
    };
    struct iovec piece = {(void *)(uintptr_t)body, body_size};
    gateway->answer = *header;
    gateway->answer.opaque = forward->opaque;
    gateway->answer.flag = 0;
    gateway_write(gateway, connection, REMOTING_JSON, &piece, 1);
    gateway_pass_asked(gateway, request);
    return true;
}

static void forget(struct gateway *gateway, struct gateway_forward *forward) { *forward = gateway->forwards[--gateway->forward_count]; }

void gateway_forwarded(struct gateway *gateway, const struct connection *connection, const struct remoting_header *header,
                       struct slice body)
{
    for (uint32_t i = 0; i < gateway->forward_count; i++) {
        struct gateway_forward *const forward = &gateway->forwards[i];
        if (forward->to.connection != connection->index || forward->to.epoch != connection->epoch || forward->opaque != header->opaque)
            continue;
        struct iovec pieces[2] = {{0}, {(void *)(uintptr_t)body.data, body.size}};
        gateway->answer = *header;
        gateway_finish(gateway, &forward->asker, pieces, 2);
        forget(gateway, forward);
        return;
    }
}

uint32_t gateway_look_at_forwards(struct gateway *gateway)
{
    const uint64_t now = gateway->forward_count ? clock_ms() : 0;
    uint32_t done = 0;
    for (uint32_t i = gateway->forward_count; i-- > 0;) {
        struct gateway_forward *const forward = &gateway->forwards[i];
        const bool there = gateway_listener(gateway, &forward->to);
        if (there && now < forward->until_ms)
            continue;
        if (there)
            gateway_refuse(gateway, &forward->asker, GATEWAY_SILENT, "the client that was asked does not answer");
        else
            gateway_refuse(gateway, &forward->asker, GATEWAY_SYSTEM_ERROR, "the client that was asked has closed its connection");
        forget(gateway, forward);
        done++;
    }
    return done;
}

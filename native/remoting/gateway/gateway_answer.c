/* Answers: whom they go to, their header and fields, and writing them. */
#include "remoting/gateway/gateway_parts.h"

#include <inttypes.h>
#include <stdio.h>

struct gateway_asker gateway_asker(const struct connection *connection, const struct remoting_header *header, uint8_t type)
{
    return (struct gateway_asker){
        .connection = connection->index,
        .epoch = connection->epoch,
        .opaque = header->opaque,
        .type = type,
        .one_way = header->flag & REMOTING_ONE_WAY,
        .five = header->version >= GATEWAY_FIVE,
    };
}

struct connection *gateway_connection(const struct gateway *gateway, const struct gateway_asker *asker)
{
    struct connection *const connection = gateway->connections[asker->connection];
    return connection && connection->epoch == asker->epoch && !connection->ended ? connection : NULL;
}

struct connection *gateway_listener(const struct gateway *gateway, const struct gateway_asker *asker)
{
    struct connection *const connection = gateway_connection(gateway, asker);
    return connection && !connection->finished && !connection->deaf ? connection : NULL;
}

struct remoting_header *gateway_begin(struct gateway *gateway, int32_t code, const char *remark)
{
    struct remoting_header *const answer = &gateway->answer;
    answer->code = code;
    answer->has_fields = false;
    answer->field_count = 0;
    answer->remark = (struct slice){(const uint8_t *)remark, remark ? (uint32_t)strlen(remark) : 0};
    return answer;
}

void gateway_add_text(struct remoting_header *answer, const char *name, const char *text)
{
    remoting_field_add(answer, name, (struct slice){(const uint8_t *)text, (uint32_t)strlen(text)});
}

void gateway_add_number(struct remoting_header *answer, const char *name, int64_t value, struct gateway_number *number)
{
    snprintf(number->text, sizeof number->text, "%" PRId64, value);
    gateway_add_text(answer, name, number->text);
}

void gateway_mark(struct gateway *gateway, struct connection *connection)
{
    if (!connection->queued) {
        connection->queued = true;
        gateway->dirty[gateway->dirty_count++] = connection;
    }
}

void gateway_write(struct gateway *gateway, struct connection *connection, uint8_t type, struct iovec *pieces, uint32_t count)
{
    struct remoting_header *const header = &gateway->answer;
    header->language = REMOTING_JAVA;
    header->version = GATEWAY_VERSION;
    uint64_t body_size = 0;
    for (uint32_t i = 0; i < count; i++)
        body_size += pieces[i].iov_len;
    const uint64_t room = remoting_header_room(header);
    uint8_t *const to = connection_room(connection, room);
    if (!to)
        return;
    const uint32_t body = body_size > REMOTING_FRAME_MAX ? REMOTING_FRAME_MAX : (uint32_t)body_size;
    const uint32_t size = remoting_header_write(to, (uint32_t)room, type, header, body);
    connection->out_to -= room - size;
    if (!size) {
        connection->ended = true; /* what no frame can hold */
    } else if (body_size) {
        connection_write(connection, pieces, count);
    }
    gateway_mark(gateway, connection);
}

void gateway_finish(struct gateway *gateway, const struct gateway_asker *asker, struct iovec *pieces, uint32_t count)
{
    struct connection *const connection = gateway_connection(gateway, asker);
    if (!connection || asker->one_way)
        return;
    gateway->answer.opaque = asker->opaque;
    gateway->answer.flag = REMOTING_RESPONSE;
    gateway_write(gateway, connection, asker->type, pieces + (count > 0), count - (count > 0));
}

void gateway_refuse(struct gateway *gateway, const struct gateway_asker *asker, int32_t code, const char *remark)
{
    gateway_begin(gateway, code, remark);
    gateway_finish(gateway, asker, NULL, 0);
}

void gateway_add_region(struct remoting_header *answer)
{
    gateway_add_text(answer, "MSG_REGION", "DefaultRegion");
    gateway_add_text(answer, "TRACE_ON", "true");
}

void gateway_refuse_send(struct gateway *gateway, const struct gateway_asker *asker, int32_t code, const char *remark)
{
    gateway_add_region(gateway_begin(gateway, code, remark));
    gateway_finish(gateway, asker, NULL, 0);
}

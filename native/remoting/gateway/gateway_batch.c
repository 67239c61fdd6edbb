/* Batches: a request whose body holds several messages for one queue (remoting_batch.h). The request's own properties belong to each message; they
 * are read once, because there may be much in them that is not stored. All are stored or none: they go into the submission ring as one atomic
 * batch, whose id is that of its first message. Source: RocketMQ 4.9 MessageExtBatchEncoder.
 */
#include "base/crash_point.h"
#include "remoting/gateway/gateway_send.h"
#include "shared/lane.h"

static const struct slice NO_ID = {NULL, 0};
static const char TOO_LONG[] = "a message of the batch has properties longer than 32,767 bytes";
static const char TOO_LARGE[] = "the batch is larger than the broker accepts; send fewer messages in it, or raise message_max";
static const char NOT_IN_A_BATCH[] = "a message of the batch has a property that no message of a batch may have";

static bool asks_for_more(const struct gateway_wanted *wanted, const struct gateway_wishes *wishes)
{
    struct gateway_way way;
    return gateway_find_way(wanted, wishes, &way) || wishes->wants_more || way.delay_level;
}

/* *own: the request's properties as each message gets them. Why none may have them; NULL: they may. */
static const char *read_own(struct gateway *gateway, const struct gateway_wanted *wanted, struct slice *own)
{
    struct gateway_wishes wishes = {0};
    *own = (struct slice){gateway->batch_text, gateway_put_properties(wanted->properties, NULL, 0, &wishes)};
    if (own->size > RECORD_PROPERTIES_MAX)
        return TOO_LONG;
    gateway_put_properties(wanted->properties, gateway->batch_text, 0, &wishes);
    return asks_for_more(wanted, &wishes) ? NOT_IN_A_BATCH : NULL;
}

/* The id of the batch if the entry is its first, an entry's properties, then the request's; as gateway_put_properties. */
static uint32_t put_properties(struct slice own, struct slice id, const struct remoting_batch_entry *entry, uint8_t *to,
                               struct gateway_wishes *wishes)
{
    const uint32_t size = gateway_put_properties(entry->properties, to, gateway_put_id(id, to), wishes);
    const uint32_t between = size && own.size;
    if (to && between)
        to[size] = PROPERTY_END;
    if (to)
        memcpy(to + size + between, own.data, own.size);
    return size + between + own.size;
}

/* Why the batch cannot be taken; NULL: it can. *count: of its messages; *room: bytes that they take in the ring. */
static const char *refusal(const struct gateway *gateway, const struct gateway_wanted *wanted, struct slice own, struct slice body,
                           uint32_t *count, uint64_t *room)
{
    const struct sender *const sender = &gateway->sender;
    /* the handler's limit, which an honest client keeps */
    const uint64_t lane = lane_batch_messages(sender->control->settings.lane_capacity);
    const uint64_t most = lane < sender->shape.window ? lane : sender->shape.window;
    struct remoting_batch_entry entry;
    *count = 0;
    *room = sizeof(struct send_frame) + sizeof(struct record_host);
    while (body.size) {
        struct gateway_wishes wishes = {0};
        if (!remoting_batch_next(&body, &entry))
            return "the body is no batch of messages";
        const uint32_t properties_size = put_properties(own, *count ? NO_ID : wanted->id, &entry, NULL, &wishes);
        if (properties_size > RECORD_PROPERTIES_MAX)
            return TOO_LONG;
        *room += send_message_stride(properties_size, entry.body.size);
        if (asks_for_more(wanted, &wishes))
            return NOT_IN_A_BATCH;
        /* now, because the request's properties make each of them larger than it came */
        if (++*count > most)
            return "the batch has more messages than the broker takes at once; send fewer in it";
        if (*room > sender->shape.sq_capacity)
            return TOO_LARGE;
    }
    return *count ? NULL : "the batch has no message";
}

enum gateway_served gateway_send_batch(struct gateway *gateway, const struct gateway_asker *asker, const struct gateway_wanted *wanted,
                                       struct slice body)
{
    struct sender *const sender = &gateway->sender;
    struct remoting_batch_entry entry;
    uint32_t count;
    uint64_t room;
    struct slice own;
    const char *why = read_own(gateway, wanted, &own);
    if (!why)
        why = refusal(gateway, wanted, own, body, &count, &room);
    if (why) {
        gateway_refuse_send(gateway, asker, GATEWAY_ILLEGAL, why);
        return GATEWAY_SERVED;
    }
    switch (sender_open_atomic(sender, count, (uint32_t)room)) {
    case SENDER_OK:
        break;
    case SENDER_TOO_LARGE:
        gateway_refuse_send(gateway, asker, GATEWAY_ILLEGAL, TOO_LARGE);
        return GATEWAY_SERVED;
    default:
        return GATEWAY_STALLED;
    }
    const uint32_t flags = (wanted->durable ? (uint32_t)SEND_FLUSH : 0) | (wanted->id.data ? (uint32_t)SEND_DEDUP : 0);
    sender_atomic_frame(sender, wanted->index, flags, (uint64_t)wanted->born_ms);
    sender_born(sender, &gateway->connections[asker->connection]->born);
    for (struct slice id = wanted->id; remoting_batch_next(&body, &entry); id = NO_ID) {
        struct gateway_wishes wishes = {0};
        const uint32_t properties_size = put_properties(own, id, &entry, NULL, &wishes);
        const struct send_message message = {
            .body_size = entry.body.size,
            .properties_size = properties_size,
            .queue_id = wanted->queue_id,
            .flag = entry.flag,
            .sys_flag = record_body_flag((uint32_t)wanted->sys_flag),
        };
        uint8_t *const at = sender_add(sender, &message);
        assert(at);
        put_properties(own, id, &entry, at, &wishes);
        memcpy(at + properties_size, entry.body.data, entry.body.size);
    }
    gateway_note_sent(gateway, asker, wanted, count, (struct slice){0});
    CRASH_POINT("gateway_batch_put");
    sender_close(sender);
    CRASH_POINT("gateway_batch_published");
    return GATEWAY_SERVED;
}

/* Sends: SEND_MESSAGE (10) and its short form (310). A message goes from the socket's buffer into the submission ring with one copy. Its
 * properties are copied pair by pair: without WAIT, which is about the answer, and as the broker wants them separated.
 *
 * What OrbitMQ does not do yet for a remote client is refused, never stored as something else: several messages in one request, delayed messages, transactions.
 */
#include "format/reserved.h"
#include "remoting/gateway_parts.h"

#define MULTI_TAGS 0x2 /* in sysFlag; nobody reads it */
#define WAIT "WAIT"

/* What one request wants stored; names of fields in the long and in the short form. */
struct wanted {
    struct slice topic, properties;
    int64_t queue, sys_flag, born_ms, flag;
};

static bool read_wanted(const struct remoting_header *header, struct wanted *wanted)
{
    const bool brief = header->code == GATEWAY_SEND_V2;
    wanted->topic = remoting_field(header, brief ? "b" : "topic");
    wanted->properties = remoting_field(header, brief ? "i" : "properties");
    wanted->sys_flag = wanted->flag = wanted->born_ms = 0;
    remoting_field_number(header, brief ? "f" : "sysFlag", &wanted->sys_flag);
    remoting_field_number(header, brief ? "g" : "bornTimestamp", &wanted->born_ms);
    remoting_field_number(header, brief ? "h" : "flag", &wanted->flag);
    return remoting_field_number(header, brief ? "e" : "queueId", &wanted->queue);
}

static bool is_wait(struct slice name) { return name.size == sizeof WAIT - 1 && memcmp(name.data, WAIT, name.size) == 0; }

/* The properties as they go into the ring, written to `to`, or only counted if it is NULL. Returns the size; *reserved: of the first name
 * that no sender may set. */
static uint32_t copy_properties(struct slice properties, uint8_t *to, enum reserved *reserved)
{
    struct slice name, value;
    uint32_t at = 0, size = 0;
    *reserved = RESERVED_NOT;
    while (properties_next(properties.data, properties.size, &at, &name, &value)) {
        if (is_wait(name))
            continue;
        const enum reserved kind = reserved_property(name);
        if (*reserved == RESERVED_NOT && (kind == RESERVED_NOTE || kind == RESERVED_WISH))
            *reserved = kind;
        if (to) {
            if (size)
                to[size] = PROPERTY_END;
            uint8_t *const pair = to + size + (size > 0);
            memcpy(pair, name.data, name.size);
            pair[name.size] = PROPERTY_NAME_END;
            memcpy(pair + name.size + 1, value.data, value.size);
        }
        size += (size > 0) + name.size + 1 + value.size;
    }
    return size;
}

/* Why the message cannot be taken, with the code for it; NULL: it can. */
static const char *refusal(const struct wanted *wanted, const struct topic_entry *topic, enum reserved reserved, int32_t *code)
{
    *code = GATEWAY_NO_PERMISSION;
    const char *const why = reserved_topic_why(wanted->topic.data, wanted->topic.size);
    if (why && !reserved_topic_of_replies(wanted->topic.data, wanted->topic.size))
        return why;
    if (wanted->sys_flag & SYSFLAG_TRANSACTION)
        return "transactions of remote clients are not supported yet";
    *code = GATEWAY_ILLEGAL;
    if (reserved != RESERVED_NOT)
        return "it has a property that asks for what is not supported yet for remote clients, or that only brokers set";
    const int64_t type = wanted->sys_flag & SYSFLAG_COMPRESSION_TYPE;
    if (type && type != SYSFLAG_COMPRESSION_ZLIB)
        return "its body is compressed with something else than zlib, which is not supported yet";
    if (wanted->flag < INT32_MIN || wanted->flag > INT32_MAX)
        return "its flag is no number of 32 bits";
    *code = GATEWAY_SYSTEM_ERROR;
    /* relaxed: queues only grow */
    if (wanted->queue >= (int64_t)atomic_load_explicit(&topic->queues, memory_order_relaxed))
        return "the topic has no queue of this number";
    return NULL;
}

static void note_sent(struct gateway *gateway, const struct gateway_asker *asker, struct slice properties, uint32_t queue, bool durable)
{
    struct gateway_sent *const sent = &gateway->sent[gateway->sent_to++ & (gateway->sender.shape.window - 1)];
    const struct slice id = properties_get(properties.data, properties.size, "UNIQ_KEY", 8);
    sent->asker = *asker;
    sent->sequence = gateway->sender.submitted;
    sent->queue_id = queue;
    sent->durable = durable;
    sent->id_size = id.size <= GATEWAY_ID_MAX ? (uint8_t)id.size : 0;
    if (sent->id_size)
        memcpy(sent->id, id.data, sent->id_size);
}

enum gateway_served gateway_send(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header,
                                 const uint8_t *body, uint32_t body_size)
{
    struct wanted wanted;
    uint32_t index;
    enum reserved reserved;
    int32_t code;
    if (!read_wanted(header, &wanted)) {
        gateway_refuse(gateway, asker, GATEWAY_SYSTEM_ERROR, "the request has no queue id");
        return GATEWAY_SERVED;
    }
    const struct topic_entry *const topic = gateway_topic(gateway, wanted.topic, &index);
    if (!topic) {
        gateway_refuse(gateway, asker, GATEWAY_NO_TOPIC, "the topic does not exist; create it with orbitmq topic create");
        return GATEWAY_SERVED;
    }
    const uint32_t properties_size = copy_properties(wanted.properties, NULL, &reserved);
    const char *const why = refusal(&wanted, topic, reserved, &code);
    if (why) {
        gateway_refuse(gateway, asker, code, why);
        return GATEWAY_SERVED;
    }
    struct sender *const sender = &gateway->sender;
    const struct settings *const settings = &sender->control->settings;
    const bool durable = settings->flush_every_message || topic_durable(sender->topics, index);
    /* relaxed: queues only grow */
    const uint32_t queues = atomic_load_explicit(&topic->queues, memory_order_relaxed);
    const uint32_t queue = wanted.queue >= 0 ? (uint32_t)wanted.queue : (uint32_t)(sender->submitted % queues);
    const uint64_t stride = send_message_stride(properties_size, body_size);
    const struct send_message message = {
        .body_size = body_size,
        .properties_size = properties_size,
        .queue_id = queue,
        .flag = (uint32_t)(int32_t)wanted.flag,
        .sys_flag = wanted.sys_flag & SYSFLAG_COMPRESSED,
    };
    const uint64_t born_ms = wanted.born_ms > 0 ? (uint64_t)wanted.born_ms : 0;
    switch (sender_open(sender, index, durable ? SEND_FLUSH : 0, born_ms, (uint32_t)stride)) {
    case SENDER_OK:
        break;
    case SENDER_TOO_LARGE:
        gateway_refuse(gateway, asker, GATEWAY_ILLEGAL, "the message is larger than the broker accepts (message_max)");
        return GATEWAY_SERVED;
    default:
        return GATEWAY_STALLED;
    }
    uint8_t *const at = sender_add(sender, &message);
    assert(at);
    copy_properties(wanted.properties, at, &reserved);
    memcpy(at + properties_size, body, body_size);
    note_sent(gateway, asker, wanted.properties, queue, durable);
    sender_close(sender);
    return GATEWAY_SERVED;
}

/* RocketMQ's code for a verdict that is no receipt. Java's producer tries another broker, or this one again, after 14, 16 and 17. */
static void refuse_verdict(struct gateway *gateway, const struct gateway_asker *asker, uint32_t verdict)
{
    switch (verdict) {
    case VERDICT_UNKNOWN_TOPIC:
        gateway_refuse(gateway, asker, GATEWAY_NO_TOPIC, "the topic does not exist any more");
        return;
    case VERDICT_NO_PERMISSION:
        gateway_refuse(gateway, asker, GATEWAY_NO_PERMISSION, "the topic may not be written");
        return;
    case VERDICT_BODY_TOO_LARGE:
        gateway_refuse(gateway, asker, GATEWAY_ILLEGAL, "the message is larger than the broker accepts (message_max)");
        return;
    case VERDICT_PROPERTIES_TOO_LARGE:
        gateway_refuse(gateway, asker, GATEWAY_ILLEGAL, "the properties are longer than 32,767 bytes");
        return;
    case VERDICT_RESERVED:
        gateway_refuse(gateway, asker, GATEWAY_ILLEGAL, "a property has a name that no sender may set");
        return;
    case VERDICT_STORE_FULL:
        gateway_refuse(gateway, asker, GATEWAY_NOT_AVAILABLE, "the store has no room for another file");
        return;
    case VERDICT_STORE_FAILED:
    case VERDICT_SYNC_FAILED:
    case VERDICT_READ_ONLY:
        gateway_refuse(gateway, asker, GATEWAY_NOT_AVAILABLE, "the store cannot be written; orbitmq status says why");
        return;
    default:
        gateway_refuse(gateway, asker, GATEWAY_SYSTEM_ERROR, "the message was refused");
    }
}

/* The id of a stored message: the address that readers of it may dial, and its place. */
static void write_id(char id[33], const uint8_t *host, uint64_t offset)
{
    static const char digits[] = "0123456789ABCDEF";
    for (uint32_t i = 0; i < 16; i++) {
        const uint32_t byte = i < 8 ? host[i] : (uint32_t)(offset >> (8 * (15 - i))) & 0xFF;
        id[2 * i] = digits[byte >> 4];
        id[2 * i + 1] = digits[byte & 15];
    }
    id[32] = 0;
}

static void tell(struct gateway *gateway, const struct gateway_sent *sent, const struct completion *verdict)
{
    struct gateway_number queue, offset;
    char id[33];
    write_id(id, gateway->sender.control->settings.store_host, verdict->physical_offset);
    struct remoting_header *const answer = gateway_begin(gateway, GATEWAY_SUCCESS, NULL);
    gateway_add_text(answer, "msgId", id);
    gateway_add_number(answer, "queueId", sent->queue_id, &queue);
    gateway_add_number(answer, "queueOffset", (int64_t)verdict->queue_offset, &offset);
    if (sent->id_size)
        remoting_field_add(answer, "transactionId", (struct slice){sent->id, sent->id_size});
    gateway_add_text(answer, "MSG_REGION", "DefaultRegion");
    gateway_add_text(answer, "TRACE_ON", "true");
    gateway_finish(gateway, &sent->asker, NULL, 0);
}

/* True while a message that is to be on the disk is not there. *error: it will not get there. */
static bool unflushed(const struct gateway *gateway, uint64_t end, uint32_t *error)
{
    const struct position *const flushed = &gateway->sender.control->flushed;
    /* acquire: as in sender.c, look [F1] */
    if (atomic_load_explicit(&flushed->value, memory_order_acquire) >= end)
        return false;
    /* relaxed: an error only ends the wait sooner */
    *error = atomic_load_explicit(&flushed->error, memory_order_relaxed);
    return true;
}

uint32_t gateway_answer_sent(struct gateway *gateway)
{
    struct sender *const sender = &gateway->sender;
    uint32_t done = 0;
    const uint64_t completed = gateway->attached ? sender_completed(sender) : 0;
    for (; gateway->sent_from < gateway->sent_to; gateway->sent_from++, done++) {
        const struct gateway_sent *const sent = &gateway->sent[gateway->sent_from & (sender->shape.window - 1)];
        if (sent->sequence > completed)
            break;
        const struct completion verdict = sender_verdict(sender, sent->sequence);
        uint32_t error = 0;
        const bool stored = verdict_stored(verdict.code);
        if (stored && sent->durable && unflushed(gateway, verdict.physical_offset + verdict.size, &error) && !error)
            break;
        if (!stored)
            refuse_verdict(gateway, &sent->asker, verdict.code);
        else if (error)
            gateway_refuse(gateway, &sent->asker, GATEWAY_SYSTEM_ERROR, "the message is stored, but the disk failed before it was there");
        else
            tell(gateway, sent, &verdict);
        sender_settle(sender, sent->sequence);
    }
    return done;
}

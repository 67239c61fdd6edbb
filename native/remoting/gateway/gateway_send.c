/* Sends: SEND_MESSAGE (10), its short form (310), batches (320), and replies (324, 325). A message goes from the socket's buffer into the submission ring with one
 * copy. Its properties are copied pair by pair: without what they ask for, and as the broker wants them separated.
 *
 * If its topic is missing, or one in which the message is to be stored first, Python is asked once, which has the coordinator make it.
 *
 * The field dedupId of a request, which RocketMQ does not have, is the id under which its message or batch is stored once (dedup_id.h). A property of this name is
 * not: a client that sends on what it has received would say it unawares. The field durability, likewise, can have one value, "flushed": then the answer waits
 * for the disk, whatever the topic says.
 *
 * What OrbitMQ does not do for a remote client is refused, never stored as something else.
 */
#include "base/crash_point.h"
#include "format/dedup_id.h"
#include "format/reserved.h"
#include "format/retry.h"
#include "remoting/gateway/gateway_send.h"

#include <stdio.h>
#include <strings.h>

#define MULTI_TAGS 0x2 /* in sysFlag; nobody reads it */

/* A send's fields, by their names in the short form. */
static void read_fields(const struct remoting_header *header, struct slice fields[REMOTING_LETTERS])
{
    static const char *const names[REMOTING_LETTERS] = {
        ['a' - 'a'] = "producerGroup", ['b' - 'a'] = "topic", ['e' - 'a'] = "queueId", ['f' - 'a'] = "sysFlag",
        ['g' - 'a'] = "bornTimestamp", ['h' - 'a'] = "flag", ['i' - 'a'] = "properties", ['j' - 'a'] = "reconsumeTimes",
        ['l' - 'a'] = "maxReconsumeTimes", ['m' - 'a'] = "batch",
    };
    if (header->code != GATEWAY_SEND && header->code != GATEWAY_REPLY) {
        remoting_letters(header, fields);
        return;
    }
    for (uint32_t i = 0; i < REMOTING_LETTERS; i++)
        fields[i] = names[i] ? remoting_field(header, names[i]) : (struct slice){0};
}

static bool read_number(const struct slice fields[REMOTING_LETTERS], char letter, int64_t *number)
{
    const struct slice text = fields[letter - 'a'];
    return text.data && remoting_number(text, number);
}

static bool read_wanted(const struct remoting_header *header, struct gateway_wanted *wanted)
{
    struct slice fields[REMOTING_LETTERS];
    read_fields(header, fields);
    const struct slice batch = fields['m' - 'a'];
    *wanted = (struct gateway_wanted){
        .name = fields['b' - 'a'],
        .properties = fields['i' - 'a'],
        .group = fields['a' - 'a'],
        .id = remoting_field(header, "dedupId"),
        .batch = batch.data ? batch.size == 4 && memcmp(batch.data, "true", 4) == 0 : header->code == GATEWAY_SEND_BATCH,
        .reply = header->code == GATEWAY_REPLY || header->code == GATEWAY_REPLY_V2,
    };
    read_number(fields, 'f', &wanted->sys_flag);
    read_number(fields, 'g', &wanted->born_ms);
    read_number(fields, 'h', &wanted->flag);
    wanted->most = GATEWAY_MOST_TRIES;
    read_number(fields, 'j', &wanted->tries);
    read_number(fields, 'l', &wanted->most);
    if (wanted->born_ms < 0)
        wanted->born_ms = 0;
    return read_number(fields, 'e', &wanted->queue);
}

/* What the topic says counts, unless the sender does not want to wait. Every message of Java's client says that it does, so this does not make a message
 * durable that is not. */
static bool waits_for_disk(struct slice properties)
{
    const struct slice said = properties_get(properties.data, properties.size, "WAIT", 4);
    return !said.data || (said.size == 4 && strncasecmp((const char *)said.data, "true", 4) == 0);
}

uint32_t gateway_put_id(struct slice id, uint8_t *to)
{
    if (!id.data)
        return 0;
    if (to) {
        memcpy(to, DEDUP_PROPERTY, DEDUP_PROPERTY_SIZE);
        memcpy(to + DEDUP_PROPERTY_SIZE, id.data, id.size);
    }
    return (uint32_t)DEDUP_PROPERTY_SIZE + id.size;
}

/* Why the request may not ask for its durability; NULL: it does not, or may. */
static const char *read_durability(const struct remoting_header *header, struct gateway_wanted *wanted)
{
    const struct slice said = remoting_field(header, "durability");
    wanted->durable = said.size == 7 && memcmp(said.data, "flushed", 7) == 0;
    return !said.data || wanted->durable ? NULL : "its durability can be flushed; without this field the topic says what it is";
}

/* Why the request may not have its id; NULL: it has none, or may. */
static const char *refuse_id(const struct gateway_wanted *wanted, bool again)
{
    const struct slice id = wanted->id;
    if (!id.data)
        return NULL;
    if (again || wanted->reply)
        return "neither a reply nor what is given back has a dedupId";
    if (!id.size || id.size > DEDUP_ID_MAX || id.data[0] == DEDUP_NUMBERED || memchr(id.data, PROPERTY_NAME_END, id.size) ||
        memchr(id.data, PROPERTY_END, id.size))
        return "its dedupId must have 1 to 255 bytes, none of them 0x01 or 0x02, and must not begin with 0x03";
    return NULL;
}

const char *gateway_refusal(const struct gateway_wanted *wanted, int32_t *code)
{
    *code = GATEWAY_ILLEGAL;
    const int64_t type = wanted->sys_flag & SYSFLAG_COMPRESSION_TYPE;
    if (type > SYSFLAG_COMPRESSION_ZLIB)
        return "its body is compressed with something else than zlib, lz4 and zstd";
    if (wanted->flag < INT32_MIN || wanted->flag > INT32_MAX)
        return "its flag is no number of 32 bits";
    *code = GATEWAY_SYSTEM_ERROR;
    /* relaxed: queues only grow */
    if (wanted->queue >= (int64_t)atomic_load_explicit(&wanted->topic->queues, memory_order_relaxed))
        return "the topic has no queue of this number";
    return NULL;
}

void gateway_note_sent(struct gateway *gateway, const struct gateway_asker *asker, const struct gateway_wanted *wanted, uint32_t count,
                       struct slice id)
{
    struct connection *const connection = gateway_connection(gateway, asker);
    struct gateway_sent *const sent = &gateway->sent[gateway->sent_to++ & (gateway->sender.shape.window - 1)];
    sent->asker = *asker;
    sent->sequence = gateway->sender.submitted;
    sent->count = count;
    sent->ends = 0;
    sent->back = false;
    sent->queue_id = wanted->queue_id;
    sent->durable = wanted->durable;
    sent->id_size = id.size <= GATEWAY_ID_MAX ? (uint8_t)id.size : 0;
    if (sent->id_size)
        memcpy(sent->id, id.data, sent->id_size);
    if (connection)
        connection->sends++;
}

bool gateway_lacks(const struct gateway *gateway, const struct gateway_asker *asker, const char *topic)
{
    uint32_t index;
    const struct slice name = {(const uint8_t *)topic, topic ? (uint32_t)strlen(topic) : 0};
    return topic && !gateway->connections[asker->connection]->prepared && !gateway_topic(gateway, name, &index);
}

uint8_t *gateway_open_frame(struct gateway *gateway, const struct gateway_asker *asker, const struct gateway_wanted *wanted, bool has_id,
                            const struct send_message *message, enum gateway_served *served)
{
    struct sender *const sender = &gateway->sender;
    const struct record_host *const from = &gateway->connections[asker->connection]->born;
    const uint32_t flags = (wanted->durable ? (uint32_t)SEND_FLUSH : 0) | (has_id ? (uint32_t)SEND_DEDUP : 0);
    const uint64_t room = sizeof *from + send_message_stride(message->properties_size, message->body_size);
    switch (sender_open(sender, wanted->index, flags, (uint64_t)wanted->born_ms, (uint32_t)room)) {
    case SENDER_OK:
        break;
    case SENDER_TOO_LARGE:
        gateway_refuse_send(gateway, asker, GATEWAY_ILLEGAL, "the message is larger than the broker accepts (message_max)");
        *served = GATEWAY_SERVED;
        return NULL;
    default:
        *served = GATEWAY_STALLED;
        return NULL;
    }
    sender_born(sender, from);
    uint8_t *const at = sender_add(sender, message);
    assert(at);
    return at;
}

static enum gateway_served send_one(struct gateway *gateway, const struct gateway_asker *asker, const struct gateway_wanted *wanted,
                                    struct slice body)
{
    struct gateway_wishes wishes = {0};
    struct gateway_way way;
    struct sender *const sender = &gateway->sender;
    const uint32_t before = gateway_put_id(wanted->id, NULL), size = gateway_put_properties(wanted->properties, NULL, before, &wishes);
    const char *why = wishes.wants_more ? "it has a property that asks for what is not supported yet for remote clients"
                                        : gateway_find_way(wanted, &wishes, &way);
    if (!why && before && way.delay_level == SEND_HALF)
        why = "the message of a transaction has no dedupId";
    if (why) {
        gateway_refuse_send(gateway, asker, GATEWAY_ILLEGAL, why);
        return GATEWAY_SERVED;
    }
    if (gateway_lacks(gateway, asker, way.topic))
        return GATEWAY_ASKED;
    const bool asks = wishes.correlation.data && wishes.reply_to.data && !wanted->reply;
    if (asks && gateway->number)
        return GATEWAY_ASKED; /* the lead pushes the reply */
    if (asks)
        gateway_note_request(gateway, asker, &wishes);
    const struct send_message message = {
        .body_size = body.size,
        .properties_size = way.size + size,
        .queue_id = wanted->queue_id,
        .flag = (uint32_t)(int32_t)wanted->flag,
        .sys_flag = record_body_flag((uint32_t)wanted->sys_flag),
        .delay_level = way.delay_level,
    };
    enum gateway_served served;
    uint8_t *const at = gateway_open_frame(gateway, asker, wanted, before != 0, &message, &served);
    if (!at)
        return served;
    memcpy(at, way.before, way.size);
    gateway_put_id(wanted->id, at + way.size);
    gateway_put_properties(wanted->properties, at + way.size, before, &wishes);
    memcpy(at + way.size + size, body.data, body.size);
    gateway_note_sent(gateway, asker, wanted, 1, properties_get(wanted->properties.data, wanted->properties.size, "UNIQ_KEY", 8));
    CRASH_POINT("gateway_send_put");
    sender_close(sender);
    CRASH_POINT("gateway_send_published");
    return GATEWAY_SERVED;
}

/* In RocketMQ's words, and on a line of its own why. */
static void refuse_reserved(struct gateway *gateway, const struct gateway_asker *asker, const struct gateway_wanted *wanted, const char *why)
{
    char text[512];
    snprintf(text, sizeof text, "Sending message to topic[%.*s] is forbidden.\n%s", (int)wanted->name.size, (const char *)wanted->name.data, why);
    gateway_refuse_send(gateway, asker, GATEWAY_NO_PERMISSION, text);
}

enum gateway_served gateway_send(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header,
                                 const uint8_t *data, uint32_t size)
{
    struct gateway_wanted wanted;
    const struct slice body = {data, size};
    int32_t code;
    if (!read_wanted(header, &wanted)) {
        gateway_refuse_send(gateway, asker, GATEWAY_SYSTEM_ERROR, "the request has no queue id");
        return GATEWAY_SERVED;
    }
    wanted.topic = gateway_topic(gateway, wanted.name, &wanted.index);
    if (!wanted.topic && !gateway->connections[asker->connection]->prepared)
        return GATEWAY_ASKED;
    if (!wanted.topic) {
        gateway_refuse_send(gateway, asker, GATEWAY_NO_TOPIC, "the topic does not exist any more");
        return GATEWAY_SERVED;
    }
    const bool again = retry_after(wanted.name, RETRY_PREFIX).data && !wanted.batch && !wanted.reply;
    const char *odd = refuse_id(&wanted, again);
    if (!odd)
        odd = read_durability(header, &wanted);
    if (odd) {
        gateway_refuse_send(gateway, asker, GATEWAY_ILLEGAL, odd);
        return GATEWAY_SERVED;
    }
    if (again)
        return gateway_send_again(gateway, asker, &wanted, body);
    code = GATEWAY_NO_PERMISSION;
    const char *why = reserved_topic_why(wanted.name.data, wanted.name.size);
    if (!why || reserved_topic_of_replies(wanted.name.data, wanted.name.size))
        why = gateway_refusal(&wanted, &code);
    if (why && code == GATEWAY_NO_PERMISSION) {
        refuse_reserved(gateway, asker, &wanted, why);
        return GATEWAY_SERVED;
    }
    if (why) {
        gateway_refuse_send(gateway, asker, code, why);
        return GATEWAY_SERVED;
    }
    struct sender *const sender = &gateway->sender;
    wanted.durable = wanted.durable || sender->control->settings.flush_every_message ||
                     (topic_durable(sender->topics, wanted.index) && waits_for_disk(wanted.properties));
    /* relaxed: queues only grow */
    const uint32_t queues = atomic_load_explicit(&wanted.topic->queues, memory_order_relaxed);
    wanted.queue_id = wanted.queue >= 0 ? (uint32_t)wanted.queue : (uint32_t)(sender->submitted % queues);
    const char *const no_reply = wanted.reply ? gateway_form_reply(gateway, &wanted) : NULL;
    if (no_reply) {
        gateway_refuse_send(gateway, asker, GATEWAY_ILLEGAL, no_reply);
        return GATEWAY_SERVED;
    }
    return (wanted.batch ? gateway_send_batch : send_one)(gateway, asker, &wanted, body);
}

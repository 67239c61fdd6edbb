/* Replies to requests (docs/request-reply.md). A reply is a message in the topic of replies, whoever stores it: a local client, or a remote one
 * (324, 325), whose reply is stored in the form that local requesters look for. While a remote client may wait for a reply, the topic is
 * read from where it ended when the client asked, and each reply that names a client here is sent over that client's connection
 * (326). Nothing of this survives the gateway: whoever waited then asks again. */
#include "base/clock.h"
#include "base/crash_point.h"
#include "base/crc32.h"
#include "format/atomic.h"
#include "format/reserved.h"
#include "remoting/gateway/gateway_send.h"

#include <inttypes.h>
#include <stdio.h>

#define REPLY_PUSH 326
#define REPLY_WAIT_MIN_MS INT64_C(60000)   /* what Go calls TTL are seconds */
#define REPLY_WAIT_MAX_MS INT64_C(3600000) /* so long are replies kept */
#define REPLIES_AT_ONCE 64u                /* of a queue in one round */
#define TIME_NAME "PUSH_REPLY_TIME"

enum { ID, CORRELATION, IN_REPLY };
static const struct slice NAMES[IN_REPLY] = {
    [ID] = {(const uint8_t *)"REPLY_TO_CLIENT", 15},
    [CORRELATION] = {(const uint8_t *)"CORRELATION_ID", 14},
};

static const struct topic_entry *topic_of_replies(const struct gateway *gateway, uint32_t *queues)
{
    static const char name[] = RESERVED_REPLIES;
    uint32_t index;
    const struct topic_entry *const topic = gateway_topic(gateway, (struct slice){(const uint8_t *)name, sizeof name - 1}, &index);
    /* relaxed: queues only grow */
    const uint32_t there = topic ? atomic_load_explicit(&topic->queues, memory_order_relaxed) : 0;
    *queues = there < GATEWAY_REPLY_QUEUES ? there : GATEWAY_REPLY_QUEUES;
    return topic;
}

/* ---- what a remote client replies ---- */

static uint32_t put_pair(uint8_t *to, uint32_t size, struct slice name, struct slice value)
{
    memcpy(to + size, name.data, name.size);
    size += name.size;
    to[size++] = PROPERTY_NAME_END;
    memcpy(to + size, value.data, value.size);
    size += value.size;
    to[size++] = PROPERTY_END;
    return size;
}

const char *gateway_form_reply(struct gateway *gateway, struct gateway_wanted *wanted)
{
    static const struct slice tags = {(const uint8_t *)"TAGS", 4};
    struct slice told[IN_REPLY], name, value;
    uint32_t queues, at = 0;
    properties_find(wanted->properties.data, wanted->properties.size, NAMES, IN_REPLY, told);
    if (!reserved_topic_of_replies(wanted->name.data, wanted->name.size))
        return "a reply goes to the topic of replies, " RESERVED_REPLIES;
    if (wanted->batch)
        return "a reply is a message of its own, and not in a batch";
    if (!told[ID].data || !told[CORRELATION].data)
        return "a reply says by CORRELATION_ID and REPLY_TO_CLIENT to what it replies";
    if (wanted->properties.size > PROPERTIES_MAX || told[ID].size > GATEWAY_REPLY_TAG)
        return "the properties are longer than 32,767 bytes, or its REPLY_TO_CLIENT than 255";
    uint8_t *const to = gateway->replies.text;
    uint32_t size = put_pair(to, 0, tags, told[ID]);
    while (properties_next(wanted->properties.data, wanted->properties.size, &at, &name, &value))
        if (name.size != tags.size || memcmp(name.data, tags.data, tags.size) != 0)
            size = put_pair(to, size, name, value);
    topic_of_replies(gateway, &queues);
    wanted->properties = (struct slice){to, size};
    wanted->queue_id = crc32_update(0, told[ID].data, told[ID].size) % (queues ? queues : 1);
    return NULL;
}

/* ---- what remote clients wait for ---- */

static void name(struct connection *connection, struct slice id)
{
    connection->id_size = id.size <= CONNECTION_ID_MAX ? (uint8_t)id.size : 0;
    if (connection->id_size)
        memcpy(connection->id, id.data, id.size);
}

void gateway_name(struct gateway *gateway, struct gateway_client client, struct slice id)
{
    const struct gateway_asker whom = {.connection = client.connection, .epoch = client.epoch};
    struct connection *const connection = gateway_connection(gateway, &whom);
    if (!connection)
        return;
    connection->named = true;
    name(connection, id);
}

/* Replies that are there already were meant for others. */
static void pass_those_there(struct gateway *gateway)
{
    struct gateway_replies *const replies = &gateway->replies;
    uint32_t queues;
    const struct topic_entry *const topic = topic_of_replies(gateway, &queues);
    memset(replies->next, 0, sizeof replies->next);
    for (uint32_t i = 0; i < queues; i++) {
        const int64_t cursor = gateway_cursor(gateway, topic->first_slot + i);
        uint64_t min;
        if (cursor >= 0)
            reader_bounds(gateway->reader, (uint32_t)cursor, &min, &replies->next[i]);
    }
    replies->reput_seen = UINT64_MAX;
}

void gateway_note_request(struct gateway *gateway, const struct gateway_asker *asker, const struct gateway_wishes *wishes)
{
    struct connection *const connection = gateway->connections[asker->connection];
    int64_t wait_ms = 0;
    if (!connection->named) /* its heartbeat is still to come; otherwise it may be another client's request, which this one passes on */
        name(connection, wishes->reply_to);
    remoting_number(wishes->waits, &wait_ms);
    wait_ms = wait_ms < REPLY_WAIT_MIN_MS ? REPLY_WAIT_MIN_MS : wait_ms > REPLY_WAIT_MAX_MS ? REPLY_WAIT_MAX_MS : wait_ms;
    const uint64_t until = clock_ms() + (uint64_t)wait_ms;
    if (!gateway->replies.until_ms)
        pass_those_there(gateway);
    if (gateway->replies.until_ms < until)
        gateway->replies.until_ms = until;
}

/* ---- pushing ---- */

/* The stored properties without what the broker adds to each record, and with the time of the push. */
static struct slice remote_properties(struct gateway *gateway, const struct record_view *view, const struct gateway_number *now)
{
    static const struct slice time_name = {(const uint8_t *)TIME_NAME, sizeof TIME_NAME - 1};
    struct mark mark;
    const uint32_t from = mark_read(view->properties, &mark) ? mark.size : 0;
    uint32_t size = view->properties.size - from - (record_sealed(view) ? RECORD_CRC_SIZE : 0);
    uint8_t *const to = gateway->replies.text;
    memcpy(to, view->properties.data + from, size);
    if (size && to[size - 1] != PROPERTY_END)
        to[size++] = PROPERTY_END;
    size = put_pair(to, size, time_name, (struct slice){(const uint8_t *)now->text, (uint32_t)strlen(now->text)});
    return (struct slice){to, size};
}

/* To each connection of this client. */
static uint32_t push_to(struct gateway *gateway, struct slice id, struct remoting_header *header, struct slice body)
{
    uint32_t pushed = 0;
    for (uint32_t i = 0; i < gateway->used; i++) {
        const struct connection *const connection = gateway->connections[i];
        if (!connection || connection->id_size != id.size || memcmp(connection->id, id.data, id.size) != 0)
            continue;
        const struct gateway_client client = {connection->index, connection->epoch};
        pushed += gateway_tell(gateway, client, header, body.data, body.size);
        CRASH_POINT("gateway_reply_pushed");
    }
    return pushed;
}

static uint32_t push(struct gateway *gateway, const struct message_ref *ref, uint32_t queue)
{
    struct record_view view;
    struct slice told[IN_REPLY];
    if (record_parse(ref->record, ref->size, &view) != RECORD_GOOD)
        return 0;
    properties_find(view.properties.data, view.properties.size, NAMES, IN_REPLY, told);
    if (!told[ID].size || !told[CORRELATION].data)
        return 0;
    char born[1 + RECORD_HOST_TEXT] = "/", store[1 + RECORD_HOST_TEXT] = "/"; /* as Java writes addresses */
    record_host_write(view.born_host, born + 1);
    record_host_write(view.store_host, store + 1);
    struct gateway_number now, number[5];
    snprintf(now.text, sizeof now.text, "%" PRIu64, clock_real_ms());
    struct remoting_header header = {.code = REPLY_PUSH};
    gateway_add_text(&header, "producerGroup", "replies");
    remoting_field_add(&header, "topic", view.topic);
    gateway_add_text(&header, "defaultTopic", "TBW102");
    gateway_add_text(&header, "defaultTopicQueueNums", "0");
    gateway_add_number(&header, "queueId", queue, &number[0]);
    gateway_add_number(&header, "sysFlag", record_body_flag(view.sys_flag), &number[1]);
    gateway_add_number(&header, "bornTimestamp", (int64_t)view.born_ms, &number[2]);
    gateway_add_number(&header, "flag", (int32_t)view.flag, &number[3]);
    gateway_add_number(&header, "storeTimestamp", (int64_t)view.store_ms, &number[4]);
    gateway_add_text(&header, "reconsumeTimes", "0");
    gateway_add_text(&header, "bornHost", born);
    gateway_add_text(&header, "storeHost", store);
    remoting_field_add(&header, "properties", remote_properties(gateway, &view, &now));
    return push_to(gateway, told[ID], &header, view.body);
}

/* Returns how much was done. *left: there is more. */
static uint32_t push_queue(struct gateway *gateway, uint32_t slot, uint32_t queue, bool *left)
{
    struct reader *const reader = gateway->reader;
    uint64_t *const next = &gateway->replies.next[queue], min, max;
    const int64_t cursor = gateway_cursor(gateway, slot);
    if (cursor < 0)
        return 0;
    reader_bounds(reader, (uint32_t)cursor, &min, &max);
    if (*next < min)
        *next = min;
    if (*next >= max)
        return 0;
    const uint32_t found = reader_fetch_range(reader, (uint32_t)cursor, *next, REPLIES_AT_ONCE);
    for (uint32_t i = 0; i < found; i++)
        push(gateway, &reader->refs[i], queue);
    if (found)
        *next = reader->refs[found - 1].queue_offset + 1;
    else /* damaged, or removed meanwhile */
        ++*next;
    *left |= *next < max;
    reader_release(reader);
    return 1;
}

/* Before a look at them: reput rings us for what comes behind it. */
static void listen_to(struct gateway *gateway, uint32_t first_slot, uint32_t queues)
{
    struct gateway_replies *const replies = &gateway->replies;
    while (replies->listened && (replies->first_slot != first_slot || replies->listened > queues))
        gateway_listen(gateway, replies->first_slot + --replies->listened, false);
    for (replies->first_slot = first_slot; replies->listened < queues; replies->listened++)
        gateway_listen(gateway, first_slot + replies->listened, true);
}

uint32_t gateway_push_replies(struct gateway *gateway)
{
    struct gateway_replies *const replies = &gateway->replies;
    if (!replies->until_ms)
        return 0;
    uint32_t queues, done = 0;
    bool left = false;
    /* acquire: the queues' maxima before it, as for held pulls */
    const uint64_t reput = atomic_load_explicit(&gateway->attachment->control->reput.value, memory_order_acquire);
    const bool over = clock_ms() >= replies->until_ms;
    if (reput != replies->reput_seen) {
        const struct topic_entry *const topic = topic_of_replies(gateway, &queues);
        listen_to(gateway, queues ? topic->first_slot : 0, queues);
        for (uint32_t i = 0; i < queues; i++)
            done += push_queue(gateway, topic->first_slot + i, i, &left);
        replies->reput_seen = left ? UINT64_MAX : reput;
    }
    if (over) {
        listen_to(gateway, 0, 0);
        replies->until_ms = 0;
    }
    return done;
}

/* What clients say of messages that they have popped: ACK_MESSAGE (200051), CHANGE_MESSAGE_INVISIBLETIME (200053), and from Python, which
 * reads their bodies, BATCH_ACK_MESSAGE (200151). An acknowledgement is answered once the dispatcher has applied it. One whose receipt is of
 * an earlier delivery changes nothing, and is answered in the same way, as RocketMQ does.
 */
#include "base/crash_point.h"
#include "format/retry.h"
#include "remoting/gateway/gateway_pop.h"

#include <stdlib.h>

#define RECEIPT_FIELDS 5u /* offset of the first message, moment of the pop, invisible time, tries, mark of the topic; more follow */
enum receipt { POP_MOMENT = 1, POP_TRIES = 3, POP_MARK = 4 };

struct receipt_of {
    struct slice group;
    uint32_t slot;
    uint64_t offset;
    int64_t pop_ms, tries;
};

/* Fields with a space between them. */
static uint32_t split(struct slice text, struct slice *fields, uint32_t most)
{
    uint32_t count = 0;
    for (uint32_t at = 0, from = 0; at <= text.size && count < most; at++) {
        if (at < text.size && text.data[at] != ' ')
            continue;
        fields[count++] = (struct slice){text.data + from, at - from};
        from = at + 1;
    }
    return count;
}

/* The topic in which the message lies: that of the request, or the retries of its group. */
static const struct topic_entry *topic_of(const struct gateway *gateway, struct slice group, struct slice name, bool retry)
{
    uint8_t text[TOPIC_NAME_MAX];
    uint32_t index;
    if (!retry)
        return gateway_topic(gateway, name, &index);
    if (sizeof RETRY_PREFIX - 1 + group.size > sizeof text || !group.size)
        return NULL;
    memcpy(text, RETRY_PREFIX, sizeof RETRY_PREFIX - 1);
    memcpy(text + sizeof RETRY_PREFIX - 1, group.data, group.size);
    return gateway_topic(gateway, (struct slice){text, (uint32_t)(sizeof RETRY_PREFIX - 1) + group.size}, &index);
}

static bool refuse(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header, int32_t code,
                   const char *why)
{
    if (header->code != GATEWAY_POP_CHANGE) {
        gateway_refuse(gateway, asker, code, why);
        return false;
    }
    struct gateway_number none[3]; /* Java's client fails if it lacks one of them */
    struct remoting_header *const answer = gateway_begin(gateway, code, why);
    gateway_add_number(answer, "popTime", 0, &none[0]);
    gateway_add_number(answer, "invisibleTime", 0, &none[1]);
    gateway_add_number(answer, "reviveQid", 0, &none[2]);
    gateway_finish(gateway, asker, NULL, 0);
    return false;
}

/* Which message, by which receipt; false: it was refused. */
static bool read_receipt(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header,
                         struct receipt_of *receipt)
{
    struct slice fields[RECEIPT_FIELDS];
    int64_t queue, offset;
    const struct slice extra = remoting_field(header, "extraInfo");
    const uint32_t count = split(extra, fields, RECEIPT_FIELDS);
    if (!remoting_field_number(header, "queueId", &queue) || !remoting_field_number(header, "offset", &offset) || count < RECEIPT_FIELDS ||
        !remoting_number(fields[POP_MOMENT], &receipt->pop_ms) || !remoting_number(fields[POP_TRIES], &receipt->tries))
        return refuse(gateway, asker, header, GATEWAY_SYSTEM_ERROR, "the request has no queue, offset or receipt");
    receipt->group = remoting_field(header, "consumerGroup");
    const bool retry = fields[POP_MARK].size != 1 || fields[POP_MARK].data[0] != '0';
    const struct topic_entry *const topic = topic_of(gateway, receipt->group, remoting_field(header, "topic"), retry);
    if (!topic)
        return refuse(gateway, asker, header, GATEWAY_NO_TOPIC, "the topic does not exist");
    /* relaxed: queues only grow */
    if (queue < 0 || queue >= (int64_t)atomic_load_explicit(&topic->queues, memory_order_relaxed))
        return refuse(gateway, asker, header, GATEWAY_ILLEGAL, "the topic has no queue of this number");
    receipt->slot = topic->first_slot + (uint32_t)queue;
    receipt->offset = (uint64_t)offset;
    const int64_t cursor = gateway_cursor(gateway, receipt->slot);
    uint64_t min = 0, max = 0;
    if (cursor >= 0)
        reader_bounds(gateway->reader, (uint32_t)cursor, &min, &max);
    if (offset < 0 || receipt->offset < min || receipt->offset >= max)
        return refuse(gateway, asker, header, GATEWAY_NO_MESSAGE, "the queue has no message at this offset");
    return true;
}

/* The lease that the receipt is of, and its link; NULL: it has ended, or never was. */
static struct pop_lease *find(const struct gateway *gateway, const struct receipt_of *receipt, struct pop_link **link)
{
    const uint64_t now = clock_ms();
    for (uint32_t i = 0; i < gateway->pop_count; i++) {
        *link = gateway->pops[i];
        const struct slice group = (*link)->group;
        if ((*link)->lost || group.size != receipt->group.size || memcmp(group.data, receipt->group.data, group.size))
            continue;
        struct pop_lease *const lease = pop_leases_find(&(*link)->leases, receipt->slot, receipt->offset);
        if (lease && lease->pop_ms == receipt->pop_ms && lease->tries == receipt->tries && now < lease->until_ms)
            return lease;
    }
    return NULL;
}

/* False: it could not be noted. */
static bool settle(struct pop_link *link, struct pop_lease *lease, struct pop_promise *promise)
{
    if (!pop_link_answer(link, WORK_ACK, lease->slot, lease->opening, lease->offset, 1, lease->tries, 0, promise))
        return false;
    pop_leases_remove(&link->leases, lease);
    link->used_ms = clock_ms();
    if (promise)
        promise->left++;
    CRASH_POINT("gateway_pop_settle_noted");
    return true;
}

static struct pop_promise *promise_to(const struct gateway_asker *asker)
{
    struct pop_promise *const promise = malloc(sizeof *promise);
    if (promise)
        *promise = (struct pop_promise){.asker = *asker};
    return promise;
}

enum gateway_served gateway_pop_ack(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header)
{
    struct receipt_of receipt;
    struct pop_link *link;
    if (!read_receipt(gateway, asker, header, &receipt))
        return GATEWAY_SERVED;
    struct pop_lease *const lease = find(gateway, &receipt, &link);
    struct pop_promise *const promise = lease ? promise_to(asker) : NULL;
    if (!lease) {
        gateway_refuse(gateway, asker, GATEWAY_SUCCESS, NULL);
    } else if (!promise || !settle(link, lease, promise)) {
        free(promise);
        gateway_refuse(gateway, asker, GATEWAY_SYSTEM_ERROR, "the gateway has no memory for an acknowledgement");
    }
    return GATEWAY_SERVED;
}

enum gateway_served gateway_pop_change(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header)
{
    struct receipt_of receipt;
    struct pop_link *link;
    int64_t invisible;
    struct gateway_number numbers[3];
    if (!read_receipt(gateway, asker, header, &receipt))
        return GATEWAY_SERVED;
    if (!remoting_field_number(header, "invisibleTime", &invisible) || invisible < 0 || invisible > (int64_t)POP_INVISIBLE_MS_MAX) {
        refuse(gateway, asker, header, GATEWAY_ILLEGAL, "the invisible time lies outside 0 ms to 11 hours");
        return GATEWAY_SERVED;
    }
    struct pop_lease *const lease = find(gateway, &receipt, &link);
    if (!lease) {
        refuse(gateway, asker, header, GATEWAY_NO_MESSAGE, "the receipt is not of the last delivery, or its time is over");
        return GATEWAY_SERVED;
    }
    const uint64_t now = clock_ms();
    const int64_t moment = pop_moment(gateway);
    pop_leases_move(&link->leases, lease, now + (uint64_t)invisible + 3); /* so the wall clock has passed the receipt's moment, too */
    if (lease->held_ms < lease->until_ms + POP_MARGIN_MS) {
        pop_link_answer(link, WORK_EXTEND, lease->slot, lease->opening, lease->offset, 1, lease->tries, POP_HELD_MS, NULL);
        lease->held_ms = now + POP_HELD_MS;
    }
    link->used_ms = now;
    lease->repeats = false;
    if (!link->ordered) /* as with RocketMQ, the receipt of a pop in order stays */
        lease->pop_ms = moment > lease->pop_ms ? moment : lease->pop_ms + 1; /* within one millisecond the receipts differ, too */
    struct remoting_header *const answer = gateway_begin(gateway, GATEWAY_SUCCESS, NULL);
    gateway_add_number(answer, "popTime", lease->pop_ms, &numbers[0]);
    gateway_add_number(answer, "invisibleTime", link->ordered ? moment + invisible - lease->pop_ms : invisible, &numbers[1]);
    gateway_add_number(answer, "reviveQid", lease->tries, &numbers[2]);
    gateway_finish(gateway, asker, NULL, 0);
    return GATEWAY_SERVED;
}

bool gateway_acknowledge(struct gateway *gateway, const struct gateway_request *request, const struct gateway_pop_ack *acks, uint32_t count)
{
    struct connection *const connection = gateway->connections[request->client.connection];
    struct remoting_frame frame;
    remoting_frame(connection->in + connection->in_from, connection->in_to - connection->in_from, &frame);
    const struct gateway_asker asker = gateway_asker(connection, connection->parsed, frame.type);
    struct pop_promise *const promise = promise_to(&asker);
    if (!promise)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct pop_link *link;
        const struct topic_entry *const topic = topic_of(gateway, acks[i].group, acks[i].topic, acks[i].retry);
        /* relaxed: queues only grow */
        if (!topic || acks[i].queue_id >= atomic_load_explicit(&topic->queues, memory_order_relaxed))
            continue;
        const struct receipt_of receipt = {.group = acks[i].group, .slot = topic->first_slot + acks[i].queue_id, .offset = acks[i].offset,
                                           .pop_ms = acks[i].pop_ms, .tries = acks[i].tries};
        struct pop_lease *const lease = find(gateway, &receipt, &link);
        if (lease && !settle(link, lease, promise))
            promise->failed = true;
    }
    if (!promise->left) {
        gateway_refuse(gateway, &asker, promise->failed ? GATEWAY_SYSTEM_ERROR : GATEWAY_SUCCESS,
                       promise->failed ? "the gateway has no memory for an acknowledgement" : NULL);
        free(promise);
    }
    gateway_pass_asked(gateway, request);
    return true;
}

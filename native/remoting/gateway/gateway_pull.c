/* Pulls: PULL_MESSAGE (11), answered out of the mapped log without a copy in this process, and the bounds of a queue (30, 31). A pull that
 * finds nothing new, or nothing that its filter lets pass, is held for as long as its client asked (gateway_hold.c). */
#include "base/crash_point.h"
#include "remoting/gateway/gateway_parts.h"

#include <inttypes.h>
#include <stdio.h>

#define PULL_MOST 32u          /* messages in one answer, as RocketMQ gives from memory */
#define PULL_LOOKED 800u       /* messages that a filter is tried on at a time, as RocketMQ does */
#define PULL_BYTES 262144u     /* after which no further message is added */
#define HOLD_MAX_MS 30000      /* Java's clients give up after that */
enum { SYS_COMMIT = 1, SYS_SUSPEND = 2, SYS_SUBSCRIPTION = 4 }; /* sysFlag */

int64_t gateway_cursor(struct gateway *gateway, uint32_t slot)
{
    if (!gateway->cursors[slot]) {
        const int64_t cursor = reader_add(gateway->reader, slot, 0);
        if (cursor < 0)
            return -1;
        gateway->cursors[slot] = (uint32_t)cursor + 1;
    }
    return (int64_t)gateway->cursors[slot] - 1;
}

/* An answer to a pull; *pieces: the records behind the first piece. */
static void answer(struct gateway *gateway, const struct gateway_pull *pull, int32_t code, const char *status, uint64_t next,
                   uint64_t min, uint64_t max, struct iovec *pieces, uint32_t count)
{
    struct gateway_number numbers[4];
    struct remoting_header *const header = gateway_begin(gateway, code, status);
    gateway_add_number(header, "suggestWhichBrokerId", 0, &numbers[0]);
    gateway_add_number(header, "nextBeginOffset", (int64_t)next, &numbers[1]);
    gateway_add_number(header, "minOffset", (int64_t)min, &numbers[2]);
    gateway_add_number(header, "maxOffset", (int64_t)max, &numbers[3]);
    gateway_finish(gateway, &pull->asker, pieces, count);
}

/* Retention has removed what was asked for while we looked. The client goes on where the reader would: behind what is gone, and never behind
 * what is there. */
static void answer_removed(struct gateway *gateway, const struct gateway_pull *pull, uint32_t cursor)
{
    const struct reader_cursor *const at = &gateway->reader->cursors[cursor];
    uint64_t min, max;
    reader_bounds(gateway->reader, cursor, &min, &max);
    const uint64_t next = at->removed_end > pull->offset ? at->removed_end : at->position;
    answer(gateway, pull, GATEWAY_PULL_RETRY, "MESSAGE_WAS_REMOVING", next, min, max, NULL, 0);
}

/* The messages from pull->offset on, which is within the queue. A filter that passes none of the first ones is tried on more. False: it
 * passes none up to max, and the pull may be held; it goes on from there. */
static bool answer_messages(struct gateway *gateway, struct gateway_pull *pull, bool hold, uint32_t cursor, uint64_t min, uint64_t max)
{
    struct reader *const reader = gateway->reader;
    struct iovec pieces[PULL_MOST * GATEWAY_RECORD_PIECES + 1];
    struct gateway_sizes sizes[PULL_MOST];
    const uint32_t most = pull->most < PULL_MOST ? pull->most : PULL_MOST;
    uint64_t bytes = 0, next = pull->offset;
    uint32_t messages = 0, count = 1;
    uint32_t found = reader_fetch_range(reader, cursor, next, most);
    for (bool again = pull->filter; found; again = false) {
        for (uint32_t i = 0; i < found && messages < most && bytes <= PULL_BYTES; i++) {
            const struct message_ref *const ref = &reader->refs[i];
            next = ref->queue_offset + 1;
            if (!gateway_filter_passes(pull->filter, ref))
                continue;
            count += gateway_record(ref, pull->asker.five, &sizes[messages++], pieces + count);
            bytes += ref->size;
        }
        if (messages || !again || !reader_fetch_range(reader, cursor, next, PULL_LOOKED))
            break;
        found = reader->count;
    }
    const bool held = hold && found && !messages && next >= max; /* more may have come since max was read */
    if (held)
        pull->offset = next;
    else if (!found && (reader->fault.error || reader->fault.record != RECORD_GOOD))
        gateway_refuse(gateway, &pull->asker, GATEWAY_SYSTEM_ERROR, "a message of the queue cannot be read; orbitmq verify says which");
    else if (messages)
        answer(gateway, pull, GATEWAY_SUCCESS, "FOUND", next, min, max, pieces, count);
    else if (found)
        answer(gateway, pull, GATEWAY_PULL_RETRY, "NO_MATCHED_MESSAGE", next, min, max, NULL, 0);
    else
        answer_removed(gateway, pull, cursor);
    CRASH_POINT("gateway_pull_answered");
    reader_release(reader);
    return !held;
}

bool gateway_serve_pull(struct gateway *gateway, struct gateway_pull *pull, bool hold)
{
    const int64_t cursor = gateway_cursor(gateway, pull->slot);
    uint64_t min, max;
    if (cursor < 0) {
        gateway_refuse(gateway, &pull->asker, GATEWAY_SYSTEM_ERROR, "the gateway has no memory for another queue");
        return true;
    }
    reader_bounds(gateway->reader, (uint32_t)cursor, &min, &max);
    const uint64_t offset = pull->offset;
    if (offset < max && offset >= min)
        return answer_messages(gateway, pull, hold, (uint32_t)cursor, min, max);
    else if (offset == max && hold)
        return false;
    else if (max == 0)
        answer(gateway, pull, offset ? GATEWAY_PULL_MOVED : GATEWAY_PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", 0, min, max, NULL, 0);
    else if (offset == max)
        answer(gateway, pull, GATEWAY_PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", offset, min, max, NULL, 0);
    else if (offset < min)
        answer(gateway, pull, GATEWAY_PULL_MOVED, "OFFSET_TOO_SMALL", min, min, max, NULL, 0);
    else /* also the numbers below 0 */
        answer(gateway, pull, GATEWAY_PULL_MOVED, offset > INT64_MAX ? "OFFSET_TOO_SMALL" : "OFFSET_OVERFLOW_BADLY",
               offset > INT64_MAX ? min : max, min, max, NULL, 0);
    return true;
}

/* The queue that a request names by topic and queueId; false: it was answered, in RocketMQ's words, that there is none. */
static bool find_queue(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header, uint32_t *slot)
{
    int64_t queue = -1;
    uint32_t index;
    char text[320];
    const struct slice name = remoting_field(header, "topic");
    const struct topic_entry *const topic = gateway_topic(gateway, name, &index);
    const int size = name.size < TOPIC_NAME_MAX ? (int)name.size : (int)TOPIC_NAME_MAX;
    const char *const said = name.size ? (const char *)name.data : "";
    if (!topic) {
        snprintf(text, sizeof text, "topic[%.*s] not exist, apply first please!", size, said);
        gateway_refuse(gateway, asker, GATEWAY_NO_TOPIC, text);
        return false;
    }
    /* relaxed, both: single words that change independently */
    if (!(atomic_load_explicit(&topic->perm, memory_order_relaxed) & PERM_READ)) {
        snprintf(text, sizeof text, "the topic[%.*s] pulling message is forbidden", size, said);
        gateway_refuse(gateway, asker, GATEWAY_NO_PERMISSION, text);
        return false;
    }
    const uint32_t queues = atomic_load_explicit(&topic->queues, memory_order_relaxed);
    if (!remoting_field_number(header, "queueId", &queue) || queue < 0 || queue >= (int64_t)queues) {
        snprintf(text, sizeof text, "queueId[%" PRId64 "] is illegal, topic:[%.*s] topicConfig.readQueueNums:[%u] consumer:[/%s]", queue,
                 size, said, queues, gateway->connections[asker->connection]->peer);
        gateway_refuse(gateway, asker, GATEWAY_SYSTEM_ERROR, text);
        return false;
    }
    *slot = topic->first_slot + (uint32_t)queue;
    return true;
}

static bool is(struct slice text, const char *word) { return text.size == strlen(word) && memcmp(text.data, word, text.size) == 0; }

/* The client has changed its subscription, and the heartbeat that says so has not come yet. Messages that the earlier one does not let pass may be among those
 * that it wants. */
static bool is_newer(const struct remoting_header *header, const struct gateway_subscription *known)
{
    int64_t version;
    return known && known->version && remoting_field_number(header, "subVersion", &version) && version > known->version;
}

enum found { FILTER_FOUND, FILTER_REFUSED, FILTER_ELSEWHERE };

/* The filter of a pull that says it, or that relies on what heartbeats have said. If there is none, that was answered; if only the lead knows
 * it, nothing was. */
static enum found find_filter(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header, bool said,
                              struct gateway_filter **filter)
{
    const struct slice kind = remoting_field(header, "expressionType");
    const bool sql = is(kind, "SQL92");
    const char *why = "the consumer's subscription is of no kind that the broker knows";
    if (kind.size && !sql && !is(kind, "TAG")) {
        gateway_refuse(gateway, asker, GATEWAY_BAD_FILTER, why);
        return FILTER_REFUSED;
    }
    if (said) {
        if (gateway_filter_find(&gateway->filters, sql, remoting_field(header, "subscription"), filter, &why))
            return FILTER_FOUND;
        gateway_refuse(gateway, asker, GATEWAY_BAD_FILTER, why);
        return FILTER_REFUSED;
    }
    if (!gateway_knows_subscriptions(gateway))
        return FILTER_ELSEWHERE;
    const struct gateway_subscription *const known =
        gateway_filter_of(&gateway->filters, remoting_field(header, "consumerGroup"), remoting_field(header, "topic"));
    *filter = known ? known->filter : NULL;
    if (known && known->elsewhere)
        return FILTER_ELSEWHERE;
    if (is_newer(header, known)) {
        *filter = NULL; /* a client compares tags itself */
        if (!sql && !(!kind.size && known->filter && known->filter->sql))
            return FILTER_FOUND;
        gateway_refuse(gateway, asker, GATEWAY_OLD_SUBSCRIPTION, "the consumer's subscription not latest"); /* in RocketMQ's words */
        return FILTER_REFUSED;
    }
    if (known && known->bad) {
        gateway_refuse(gateway, asker, GATEWAY_BAD_FILTER, "the consumer's subscription is no filter that the broker can use");
        return FILTER_REFUSED;
    }
    if (sql && !(known && known->filter && known->filter->sql)) { /* tags the client compares itself, this it does not */
        gateway_refuse(gateway, asker, GATEWAY_NO_SUBSCRIPTION, "the consumer's subscription is not known before its next heartbeat");
        return FILTER_REFUSED;
    }
    return FILTER_FOUND;
}

/* A consumer that keeps its offsets at the broker says with the pull how far it has got. */
static void gather(struct gateway *gateway, const struct remoting_header *header, uint32_t slot)
{
    int64_t offset;
    uint32_t index;
    const struct topic_entry *const topic = gateway_topic(gateway, remoting_field(header, "topic"), &index);
    if (topic && remoting_field_number(header, "commitOffset", &offset) && offset >= 0)
        gateway_gather(gateway, remoting_field(header, "consumerGroup"), topic, slot - topic->first_slot, (uint64_t)offset);
}

/* In RocketMQ's words. */
static void refuse_paused(struct gateway *gateway, const struct gateway_asker *asker, struct slice group)
{
    char text[320];
    const int size = group.size < SEND_GROUP_MAX ? (int)group.size : (int)SEND_GROUP_MAX;
    snprintf(text, sizeof text, "subscription group no permission, %.*s", size, (const char *)group.data);
    gateway_refuse(gateway, asker, GATEWAY_NO_PERMISSION, text);
}

enum gateway_served gateway_pull(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header)
{
    const struct slice group = remoting_field(header, "consumerGroup");
    struct gateway_pull pull = {.asker = *asker, .group = gateway_group_hash(group)};
    int64_t offset, most, sys_flag = 0, suspend_ms = 0;
    if (gateway_is_paused(gateway, pull.group)) {
        refuse_paused(gateway, asker, group);
        return GATEWAY_SERVED;
    }
    if (!find_queue(gateway, asker, header, &pull.slot))
        return GATEWAY_SERVED;
    remoting_field_number(header, "sysFlag", &sys_flag);
    remoting_field_number(header, "suspendTimeoutMillis", &suspend_ms);
    if (!remoting_field_number(header, "queueOffset", &offset) || !remoting_field_number(header, "maxMsgNums", &most) || most < 0) {
        gateway_refuse(gateway, asker, GATEWAY_SYSTEM_ERROR, "the request has no queue offset or number of messages");
        return GATEWAY_SERVED;
    }
    const enum found found = find_filter(gateway, asker, header, sys_flag & SYS_SUBSCRIPTION, &pull.filter);
    if (found != FILTER_FOUND)
        return found == FILTER_ELSEWHERE ? GATEWAY_ASKED : GATEWAY_SERVED;
    if (sys_flag & SYS_COMMIT)
        gather(gateway, header, pull.slot);
    pull.offset = (uint64_t)offset;
    pull.most = most > 0 && most < PULL_MOST ? (uint32_t)most : PULL_MOST; /* Go asks for 0 */
    const bool hold = sys_flag & SYS_SUSPEND && suspend_ms > 0 && !gateway->stopping;
    pull.until_ms = hold ? clock_ms() + (uint64_t)(suspend_ms < HOLD_MAX_MS ? suspend_ms : HOLD_MAX_MS) : 0;
    if (!gateway_serve_pull(gateway, &pull, hold) && !gateway_hold(gateway, &pull))
        gateway_serve_pull(gateway, &pull, false);
    return GATEWAY_SERVED;
}

/* As RocketMQ: of a queue that there is not, both are 0. */
void gateway_bounds(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header)
{
    struct gateway_number number;
    int64_t queue;
    uint32_t index;
    uint64_t min = 0, max = 0;
    const struct topic_entry *const topic = gateway_topic(gateway, remoting_field(header, "topic"), &index);
    /* relaxed: queues only grow */
    const bool found = topic && remoting_field_number(header, "queueId", &queue) && queue >= 0 &&
                       queue < (int64_t)atomic_load_explicit(&topic->queues, memory_order_relaxed);
    const int64_t cursor = found ? gateway_cursor(gateway, topic->first_slot + (uint32_t)queue) : 0;
    if (cursor < 0) {
        gateway_refuse(gateway, asker, GATEWAY_SYSTEM_ERROR, "the gateway has no memory for another queue");
        return;
    }
    if (found)
        reader_bounds(gateway->reader, (uint32_t)cursor, &min, &max);
    struct remoting_header *const answer_header = gateway_begin(gateway, GATEWAY_SUCCESS, NULL);
    gateway_add_number(answer_header, "offset", (int64_t)(header->code == GATEWAY_MAX_OFFSET ? max : min), &number);
    gateway_finish(gateway, asker, NULL, 0);
}

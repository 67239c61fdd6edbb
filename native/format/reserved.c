/* Names of RocketMQ's. Every property that a sender sets is looked up here, so it is a switch over lengths: few names have the
 * same length. */
#include "format/reserved.h"

#define NAME(text, kind)                                 \
    if (memcmp(name.data, text, sizeof(text) - 1) == 0) \
        return kind;
#define ARGUMENT(text) NAME(text, RESERVED_ARGUMENT)
#define ID(text) NAME(text, RESERVED_ID)
#define NOTE(text) NAME(text, RESERVED_NOTE)
#define WISH(text) NAME(text, RESERVED_WISH)
#define REPLY(text) NAME(text, RESERVED_REPLY)

/* Each is in the case of its own length. */
enum reserved reserved_property(struct slice name)
{
    switch (name.size) {
    case 3:
        REPLY("TTL")
        break;
    case 4:
        ARGUMENT("KEYS") ARGUMENT("TAGS") NOTE("WAIT")
        break;
    case 5:
        WISH("DELAY")
        break;
    case 6:
        NOTE("ATOMIC") WISH("PGROUP") WISH("POP_CK")
        break;
    case 7:
        NOTE("CLUSTER")
        break;
    case 8:
        ID("UNIQ_KEY") NOTE("DEDUP_ID") NOTE("TRACE_ON") NOTE("__CRC32#") WISH("BUYER_ID") WISH("MQ2_FLAG") REPLY("MSG_TYPE")
        WISH("REAL_QID") WISH("TRAN_MSG")
        break;
    case 9:
        WISH("INNER_NUM")
        break;
    case 10:
        NOTE("MAX_OFFSET") NOTE("MIN_OFFSET") NOTE("MSG_REGION") WISH("INNER_BASE") WISH("REAL_TOPIC")
        break;
    case 11:
        WISH("ARRIVE_TIME") WISH("RETRY_TOPIC")
        break;
    case 12:
        WISH("1ST_POP_TIME") WISH("TIMER_OUT_MS")
        break;
    case 13:
        WISH("TRANSFER_FLAG")
        break;
    case 14:
        REPLY("CORRELATION_ID") WISH("RECONSUME_TIME") WISH("TIMER_DELAY_MS")
        break;
    case 15:
        WISH("CORRECTION_FLAG") WISH("PUSH_REPLY_TIME") REPLY("REPLY_TO_CLIENT") WISH("TIMER_DELAY_SEC")
        break;
    case 16:
        WISH("DLQ_ORIGIN_TOPIC") WISH("TIMER_DELIVER_MS") WISH("TIMER_DEQUEUE_MS") WISH("TIMER_ENQUEUE_MS")
        WISH("TIMER_ROLL_TIMES")
        break;
    case 17:
        WISH("ORIGIN_MESSAGE_ID") WISH("TIMER_DEL_UNIQKEY")
        break;
    case 18:
        NOTE("CONSUME_START_TIME")
        break;
    case 19:
        WISH("MAX_RECONSUME_TIMES")
        break;
    case 20:
        WISH("INNER_MULTI_DISPATCH")
        break;
    case 21:
        WISH("DLQ_ORIGIN_MESSAGE_ID")
        break;
    case 23:
        WISH("TRANSACTION_CHECK_TIMES")
        break;
    case 24:
        WISH("INNER_MULTI_QUEUE_OFFSET")
        break;
    case 26:
        WISH("TRAN_PREPARED_QUEUE_OFFSET")
        break;
    }
    return RESERVED_NOT;
}

const char *reserved_property_why(enum reserved kind)
{
    switch (kind) {
    case RESERVED_ARGUMENT:
        return "it is given as tags= or keys=";
    case RESERVED_NOTE:
        return "brokers and clients note something about the message under this name";
    case RESERVED_WISH:
        return "the name asks a broker for something; a delay or a transaction is asked for by arguments and methods of the producer";
    case RESERVED_REPLY:
        return "it is set by request() and reply()";
    default:
        return NULL;
    }
}

static bool begins(const uint8_t *name, uint32_t size, const char *with)
{
    const size_t length = strlen(with);
    return size >= length && memcmp(name, with, length) == 0;
}

static bool is(const uint8_t *name, uint32_t size, const char *text) { return size == strlen(text) && begins(name, size, text); }

bool reserved_topic_of_replies(const uint8_t *name, uint32_t size) { return is(name, size, RESERVED_REPLIES); }

bool reserved_topic_of_traces(const uint8_t *name, uint32_t size)
{
    return is(name, size, "RMQ_SYS_TRACE_TOPIC") || begins(name, size, "rmq_sys_TRACE_DATA_");
}

const char *reserved_topic_why(const uint8_t *name, uint32_t size)
{
    if (reserved_topic_of_traces(name, size))
        return NULL;
    if (is(name, size, "SCHEDULE_TOPIC_XXXX"))
        return "delayed messages wait there, as in RocketMQ; send them with delay_level= to the topic that they are for";
    if (is(name, size, "rmq_sys_wheel_timer"))
        return "messages with a time wait there, as in RocketMQ 5; send them with delay= or deliver_at= to the topic that they are for";
    if (is(name, size, "rmq_sys_group_commits"))
        return "offsets that groups commit with atomic batches are kept there; only the broker puts them there";
    if (begins(name, size, "%RETRY%"))
        return "as in RocketMQ, a group's messages are kept there that are to be tried again; only the broker puts them there";
    if (begins(name, size, "%DLQ%"))
        return "as in RocketMQ, a group's dead letters are kept there; only the broker puts them there";
    if (reserved_topic_of_replies(name, size))
        return "as in RocketMQ, replies are kept there; the first request() makes it, and reply() writes to it";
    if (begins(name, size, "RMQ_SYS_TRANS_"))
        return "transactions are kept there, as in RocketMQ; begin one with transaction() for the topic that it is for";
    if (is(name, size, "TRANS_CHECK_MAX_TIME_TOPIC"))
        return "half messages whose transactions nobody ended are kept there, as in RocketMQ; only the broker puts them there";
    if (begins(name, size, "%LMQ%"))
        return "RocketMQ keeps queues of other topics there, which OrbitMQ does not have";
    if (begins(name, size, "RMQ_SYS_") || begins(name, size, "rmq_sys_") || is(name, size, "TBW102") ||
        is(name, size, "SELF_TEST_TOPIC") || is(name, size, "OFFSET_MOVED_EVENT"))
        return "it is a system topic of RocketMQ's";
    return NULL;
}

/* TAGS or KEYS, with the byte that ends a name: nearly every properties string begins so, and most have nothing else. */
static inline bool argument_at(const uint8_t *at, uint32_t left)
{
    return left > 5 && at[4] == PROPERTY_NAME_END && (memcmp(at, "TAGS", 4) == 0 || memcmp(at, "KEYS", 4) == 0);
}

/* Steps as properties_next does, but looks for the end of a name only if it is not known already: a handler does this for every
 * message. */
bool reserved_find(const uint8_t *properties, uint32_t size, struct slice *name)
{
    const uint8_t *const end = properties + size;
    for (const uint8_t *at = properties, *next; at < end; at = next + 1) {
        const bool argument = argument_at(at, (uint32_t)(end - at));
        const uint8_t *from = argument ? at + 5 : at;
        if (!(next = memchr(from, PROPERTY_END, (size_t)(end - from))))
            next = end;
        if (argument)
            continue;
        const uint8_t *split = memchr(at, PROPERTY_NAME_END, (size_t)(next - at));
        if (!split || split == at || split + 1 == next)
            continue; /* no property, for want of a name or a value */
        *name = (struct slice){at, (uint32_t)(split - at)};
        const enum reserved kind = reserved_property(*name);
        if (kind == RESERVED_NOTE || kind == RESERVED_WISH)
            return true;
    }
    return false;
}

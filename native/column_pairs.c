#include "column_pairs.h"

#define CRC_NAME "__CRC32#"

/* What RocketMQ's clients and brokers write beside the sender's own properties, which they refuse under these names. The store
 * holds others too, such as MIN_OFFSET, only when somebody of another make has written them. */
#define NAMES(X)                                                                                                                \
    X("KEYS") X("TAGS") X("WAIT") X("DELAY") X("RETRY_TOPIC") X("REAL_TOPIC") X("REAL_QID") X("TRAN_MSG") X("PGROUP")           \
    X("MIN_OFFSET") X("MAX_OFFSET") X("BUYER_ID") X("ORIGIN_MESSAGE_ID") X("TRANSFER_FLAG") X("CORRECTION_FLAG") X("MQ2_FLAG")  \
    X("RECONSUME_TIME") X("MAX_RECONSUME_TIMES") X("MSG_REGION") X("TRACE_ON") X("UNIQ_KEY") X("CONSUME_START_TIME")            \
    X("TRAN_PREPARED_QUEUE_OFFSET") X("TRANSACTION_CHECK_TIMES") X("CHECK_IMMUNITY_TIME_IN_SECONDS") X("INSTANCE_ID")           \
    X("CORRELATION_ID") X("REPLY_TO_CLIENT") X("TTL") X("ARRIVE_TIME") X("PUSH_REPLY_TIME") X("MSG_TYPE") X("CLUSTER")          \
    X("INNER_MULTI_DISPATCH") X("INNER_MULTI_QUEUE_OFFSET")
#define NAME(text) {sizeof(text) - 1, text},

static const struct {
    uint32_t size;
    char text[32];
} reserved[] = {NAMES(NAME)};

static bool is_reserved(struct slice name)
{
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (reserved[i].size == name.size && memcmp(reserved[i].text, name.data, name.size) == 0)
            return true;
    return false;
}

/* Takes one of the row's pairs out again: [pair] of [begin, end). */
static void drop(struct column_text *text, uint32_t pair, uint32_t end)
{
    const int32_t at = text->offsets[pair], next = text->offsets[pair + 1], size = next - at;
    memmove(text->data + at, text->data + next, (size_t)(text->offsets[end] - next));
    for (uint32_t i = pair + 1; i < end; i++)
        text->offsets[i] = text->offsets[i + 1] - size;
}

/* Takes the pair of this name out, if the row has one already. Returns the end of the row's pairs then. */
static uint32_t drop_name(struct column_pairs *to, uint32_t begin, uint32_t end, struct slice name)
{
    for (uint32_t pair = begin; pair < end; pair++) {
        const int32_t at = to->name.offsets[pair];
        if ((uint32_t)(to->name.offsets[pair + 1] - at) == name.size && memcmp(to->name.data + at, name.data, name.size) == 0) {
            drop(&to->name, pair, end);
            drop(&to->value, pair, end);
            return end - 1;
        }
    }
    return end;
}

void column_pairs_append(struct column_pairs *to, uint32_t row, struct slice properties, const uint8_t *readable_end)
{
    const uint32_t begin = (uint32_t)to->starts[row];
    uint32_t end = begin, position = 0;
    uint64_t met = 0; /* a bit for each name, more or less: names that stand twice are rare, and looking for them is not cheap */
    struct slice name, value;
    while (properties_next(properties.data, properties.size, &position, &name, &value)) {
        if (name.size == sizeof CRC_NAME - 1 && memcmp(name.data, CRC_NAME, name.size) == 0)
            continue;
        if (to->own && is_reserved(name))
            continue;
        const uint64_t bit = UINT64_C(1) << ((name.size * 31u + name.data[0] * 7u + name.data[name.size - 1]) & 63);
        if (met & bit)
            end = drop_name(to, begin, end, name);
        met |= bit;
        column_append(&to->name, end, name, readable_end);
        column_append(&to->value, end, value, readable_end);
        end++;
    }
    to->starts[row + 1] = (int32_t)end;
    if (to->validity) {
        if (end > begin)
            column_valid(to->validity, row);
        else
            to->nulls++;
    }
}

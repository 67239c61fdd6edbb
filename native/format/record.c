/* Writes, finishes, reads and checks CommitLog records; record.h draws them. */
#include "format/record.h"
#include "base/bytes.h"
#include "base/crc32.h"
#include "base/crc32_copy.h"

/* Bodies from this size on are read only once: two multiplications carry the body's CRC over into the record's. Below it,
 * reading the body again costs less than they do. */
#define COMBINE_FROM 1024u

#define ZLIB_FIRST 0x78u /* what a zlib stream begins with */

static const uint8_t crc_name[8] = {'_', '_', 'C', 'R', 'C', '3', '2', '#'};

uint32_t record_trim(const uint8_t *properties, uint32_t size)
{
    return size && properties[size - 1] == PROPERTY_END ? size - 1 : size;
}

/* The user's properties as stored: with the separator between them and the CRC property. */
static uint32_t own_properties(const struct record_parts *parts)
{
    return parts->properties_size ? parts->properties_size + 1 : 0;
}

uint32_t record_image_size(const struct record_parts *parts)
{
    return record_body_at(parts) + RECORD_FIXED - RECORD_BODY_AT + parts->body_size + parts->topic_size + own_properties(parts) + RECORD_CRC_SIZE;
}

/* Writes the CRC property with value's ten digits, the least significant first. Two digits, then eight in one word: halves of
 * four, two and one digits are split side by side; each division is a multiplication that is exact in its range. */
static void write_crc(uint8_t *at, uint32_t value)
{
    uint32_t upper = value / 100000000, lower = value % 100000000;
    uint64_t digits = (uint64_t)(lower / 10000) << 32 | lower % 10000;
    uint64_t part = (digits * 5243 >> 19) & 0x0000007F0000007F; /* / 100 */
    digits = (digits - part * 100) | part << 16;
    part = (digits * 103 >> 10) & 0x000F000F000F000F; /* / 10 */
    digits = (digits - part * 10) | part << 8;
    digits += 0x3030303030303030;
    memcpy(at, crc_name, 8);
    at[8] = PROPERTY_NAME_END;
    memcpy(at + 9, &digits, 8);
    at[17] = (uint8_t)('0' + upper % 10);
    at[18] = (uint8_t)('0' + upper / 10);
    at[19] = PROPERTY_END;
}

/* By whether the born host is IPv6: where the last hole is, and crc32_word_factor of the bytes between each hole's end and its end. */
static const struct holes {
    uint32_t store_ms_at;
    uint32_t factors[3];
} holes_of[2] = {
    {RECORD_STORE_MS_AT, {0x9570D495, 0x01B5FD1D, 0x00000001}},                                    /* 36, 28, 0 */
    {RECORD_STORE_MS_AT + RECORD_HOST_V6 - RECORD_HOST_V4, {0x3DB1ECDC, 0xAF449247, 0x00000001}}, /* 48, 40, 0 */
};

void record_finish(uint8_t *record, uint32_t size, const struct record_seal *seal, uint64_t queue_offset,
                   uint64_t physical_offset, uint64_t store_ms)
{
    const struct holes *const places = &holes_of[(record[RECORD_SYSFLAG_AT + 3] & SYSFLAG_BORN_IPV6) != 0];
    uint64_t holes[3]; /* as they lie in the record */
    store_be64(&holes[0], queue_offset);
    store_be64(&holes[1], physical_offset);
    store_be64(&holes[2], store_ms);
    memcpy(record + RECORD_QUEUE_OFFSET_AT, &holes[0], 16);
    memcpy(record + places->store_ms_at, &holes[2], 8);
    uint32_t moved = crc32_multiply(seal->hole_operator, crc32_raw_words(holes, places->factors, 3));
    write_crc(record + size - RECORD_CRC_SIZE, (seal->crc ^ moved) & RECORD_CRC_MASK);
}

enum record_fault record_parse(const uint8_t *at, uint64_t available, struct record_view *view)
{
    if (available < RECORD_BLANK_SIZE)
        return RECORD_BAD_SIZE;
    uint32_t total = load_be32(at), magic = load_be32(at + 4);
    view->total_size = total;
    if (magic == RECORD_BLANK)
        return RECORD_IS_BLANK;
    if (magic == 0 && total == 0)
        return RECORD_END;
    if (magic != RECORD_MAGIC)
        return RECORD_BAD_MAGIC;
    if (total < RECORD_FIXED || total > INT32_MAX || total > available)
        return RECORD_BAD_SIZE;

    /* From here on every step is bounded by total: what is left after it must not fall below zero. */
    view->body_crc = load_be32(at + 8);
    view->queue_id = load_be32(at + 12);
    view->flag = load_be32(at + RECORD_FLAG_AT);
    view->queue_offset = load_be64(at + RECORD_QUEUE_OFFSET_AT);
    view->physical_offset = load_be64(at + RECORD_PHYSICAL_AT);
    view->sys_flag = load_be32(at + RECORD_SYSFLAG_AT);
    view->born_ms = load_be64(at + RECORD_BORN_MS_AT);
    uint32_t born_size = view->sys_flag & SYSFLAG_BORN_IPV6 ? RECORD_HOST_V6 : RECORD_HOST_V4;
    uint32_t store_size = view->sys_flag & SYSFLAG_STORE_IPV6 ? RECORD_HOST_V6 : RECORD_HOST_V4;
    uint32_t fixed = RECORD_FIXED - 2 * RECORD_HOST_V4 + born_size + store_size;
    if (total < fixed)
        return RECORD_BAD_SIZE;
    uint32_t left = total - fixed; /* for body, topic and properties */

    const uint8_t *next = at + 48;
    view->born_host = (struct slice){next, born_size};
    next += born_size;
    view->store_ms = load_be64(next);
    next += 8;
    view->store_host = (struct slice){next, store_size};
    next += store_size;
    view->reconsume_times = load_be32(next);
    view->prepared_offset = load_be64(next + 4);

    uint32_t body_size = load_be32(next + 12);
    next += 16;
    if (body_size > left)
        return RECORD_BAD_SIZE;
    left -= body_size;
    view->body = (struct slice){next, body_size};
    next += body_size;

    uint32_t topic_size = *next++;
    if (topic_size > TOPIC_SIZE_MAX || topic_size > left)
        return RECORD_BAD_SIZE;
    left -= topic_size;
    view->topic = (struct slice){next, topic_size};
    next += topic_size;

    uint32_t properties_size = load_be16(next);
    if (properties_size > PROPERTIES_MAX || properties_size != left)
        return RECORD_BAD_SIZE;
    view->properties = (struct slice){next + 2, properties_size};
    return RECORD_GOOD;
}

static uint32_t crc_of_body(const struct record_view *view) { return crc32_update(0, view->body.data, view->body.size); }

/* The CRC of all bytes before the CRC property, if that of the body is known. */
static uint32_t crc_of_record(const uint8_t *at, const struct record_view *view, uint32_t body_crc)
{
    const uint32_t checked = view->total_size - RECORD_CRC_SIZE;
    if (view->body.size < COMBINE_FROM)
        return crc32_update(0, at, checked);
    const uint8_t *tail = view->body.data + view->body.size;
    const uint32_t head = crc32_update(0, at, (size_t)(view->body.data - at));
    const uint32_t both = crc32_combine(head, body_crc, crc32_operator(view->body.size));
    return crc32_update(both, tail, checked - (size_t)(tail - at));
}

bool record_sealed(const struct record_view *view)
{
    return view->properties.size >= RECORD_CRC_SIZE &&
           memcmp(view->properties.data + view->properties.size - RECORD_CRC_SIZE, crc_name, sizeof crc_name) == 0;
}

static bool has_zero(const uint8_t *at, uint32_t size)
{
    return size && memchr(at, 0, size) != NULL;
}

/* True if the CRC property, if the record has one, agrees. A frame (name and separators) that is nearly right is a damaged
 * property, not a missing one: otherwise a flipped bit in the name would switch the check off. If a power cut has lost a
 * sector, there are zeros, which no valid properties string contains; they do not count as a record without the property
 * either. */
static bool crc_good(const uint8_t *at, const struct record_view *view, uint32_t body_crc)
{
    if (view->properties.size < RECORD_CRC_SIZE)
        return !has_zero(view->properties.data, view->properties.size);
    uint8_t expected[RECORD_CRC_SIZE];
    const uint8_t *stored = at + view->total_size - RECORD_CRC_SIZE;
    uint32_t differing = (stored[8] != PROPERTY_NAME_END) + (stored[19] != PROPERTY_END);
    for (unsigned i = 0; i < sizeof crc_name; i++)
        differing += stored[i] != crc_name[i];
    if (differing > 3)
        return !has_zero(stored, RECORD_CRC_SIZE);
    write_crc(expected, crc_of_record(at, view, body_crc) & RECORD_CRC_MASK);
    return memcmp(stored, expected, RECORD_CRC_SIZE) == 0;
}

static enum record_fault judge_body(const uint8_t *at, const struct record_view *view, uint32_t body_crc)
{
    if ((body_crc & RECORD_CRC_MASK) != view->body_crc)
        return RECORD_BAD_BODY_CRC;
    const bool plain = !(view->sys_flag & ~(uint32_t)SYSFLAG_HOSTS) && (view->body.size == 0 || *view->body.data != ZLIB_FIRST);
    return plain || crc_good(at, view, body_crc) ? RECORD_GOOD : RECORD_BAD_CRC;
}

enum record_fault record_check_body(const uint8_t *at, const struct record_view *view)
{
    return judge_body(at, view, crc_of_body(view));
}

enum record_fault record_copy_body(const uint8_t *at, const struct record_view *view, uint8_t *to)
{
    return judge_body(at, view, crc32_copy(0, to, view->body.data, view->body.size));
}

enum record_fault record_check(const uint8_t *at, uint64_t available, uint64_t physical_offset, struct record_view *view)
{
    enum record_fault fault = record_parse(at, available, view);
    if (fault != RECORD_GOOD)
        return fault;
    if (view->physical_offset != physical_offset)
        return RECORD_BAD_PLACE;
    const uint32_t body_crc = crc_of_body(view);
    if ((body_crc & RECORD_CRC_MASK) != view->body_crc)
        return RECORD_BAD_BODY_CRC;
    return crc_good(at, view, body_crc) ? RECORD_GOOD : RECORD_BAD_CRC;
}

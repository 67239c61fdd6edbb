/* Makes images of records that have much in common. record_template.h says how their CRCs come about. */
#include "format/record_template.h"
#include "base/bytes.h"
#include "base/crc32.h"
#include "base/crc32_copy.h"

#include <assert.h>

#define BODY_CRC_AT 8u /* the queue id follows at once, in the same word */
#define HEADER_LAST (RECORD_BODY_AT_MAX - RECORD_BODY_AT) /* bytes that the largest header has more than the smallest */

void record_template_tail(struct record_template *template, const struct record_parts *parts)
{
    assert(parts->topic_size <= TOPIC_SIZE_MAX);
    assert(parts->properties_size <= RECORD_PROPERTIES_MAX);
    const uint32_t own = parts->properties_size ? parts->properties_size + 1 : 0;
    uint8_t *at = template->tail;
    *at++ = (uint8_t)parts->topic_size;
    memcpy(at, parts->topic, parts->topic_size);
    at += parts->topic_size;
    store_be16(at, (uint16_t)(own + RECORD_CRC_SIZE));
    at += 2;
    if (own) {
        memcpy(at, parts->properties, parts->properties_size);
        at += parts->properties_size;
        *at++ = PROPERTY_END;
    }
    template->tail_size = (uint32_t)(at - template->tail);
    template->tail_crc = crc32_update(0, template->tail, template->tail_size);
    template->tail_operator = crc32_operator(template->tail_size);
}

struct slice record_template_properties(const struct record_template *template)
{
    const uint32_t before = 1 + template->tail[0] + 2;
    const uint32_t own = template->tail_size - before;
    return (struct slice){template->tail + before, own ? own - 1 : 0};
}

/* The CRC of header and tail, and what depends on how many bytes follow the holes. */
static void join(struct record_template *template)
{
    /* Operators are powers of x, so their product is that of the sum. */
    const uint32_t behind_header = crc32_multiply(crc32_operator(template->body_size), template->tail_operator);
    template->crc = crc32_combine(crc32_update(0, template->header, template->header_size), template->tail_crc, behind_header);
    template->hole_operator = crc32_multiply(behind_header, crc32_operator(template->header_size - template->holes_end));
    const uint32_t behind_word = crc32_multiply(behind_header, crc32_operator(template->header_size - (BODY_CRC_AT + 8)));
    template->factors[0] = crc32_multiply(behind_word, crc32_word_factor(0));
    template->factors[1] = crc32_register_factor(template->tail_size);
}

void record_template_header(struct record_template *template, const struct record_parts *parts)
{
    const struct record_host *const born = &parts->born_host, *const store = &parts->store_host;
    assert(parts->body_size <= INT32_MAX - RECORD_FIXED - HEADER_LAST - TOPIC_SIZE_MAX - PROPERTIES_MAX);
    assert(!(parts->sys_flag & SYSFLAG_HOSTS) && record_host_fits(born->size) && record_host_fits(store->size));
    template->body_size = parts->body_size;
    template->header_size = record_body_at(parts);
    template->holes_end = RECORD_BORN_MS_AT + 8 + born->size + 8;
    template->size = template->header_size + parts->body_size + template->tail_size + RECORD_CRC_SIZE;

    uint8_t *header = template->header;
    memset(header, 0, RECORD_BODY_AT_MAX); /* the holes, the writer's and ours */
    store_be32(header, template->size);
    store_be32(header + 4, RECORD_MAGIC);
    store_be32(header + RECORD_FLAG_AT, parts->flag);
    store_be32(header + RECORD_SYSFLAG_AT, parts->sys_flag | (born->size == RECORD_HOST_V6 ? (uint32_t)SYSFLAG_BORN_IPV6 : 0) |
                                               (store->size == RECORD_HOST_V6 ? (uint32_t)SYSFLAG_STORE_IPV6 : 0));
    store_be64(header + RECORD_BORN_MS_AT, parts->born_ms);
    memcpy(header + RECORD_BORN_MS_AT + 8, born->data, born->size);
    memcpy(header + template->holes_end, store->data, store->size);
    uint8_t *const rest = header + template->holes_end + store->size;
    store_be32(rest, parts->reconsume_times);
    store_be64(rest + 4, parts->prepared_offset);
    store_be32(rest + 12, parts->body_size);

    join(template);
}

void record_template_mark(const struct record_template *from, const uint8_t *mark, uint32_t size, struct record_template *to)
{
    const uint32_t before = 1 + from->tail[0] + 2;
    const uint32_t properties = from->tail_size - before + size;
    assert(from->tail_size + size <= sizeof to->tail - 16);
    memcpy(to->tail, from->tail, before);
    store_be16(to->tail + before - 2, (uint16_t)(properties + RECORD_CRC_SIZE));
    memcpy(to->tail + before, mark, size);
    memcpy(to->tail + before + size, from->tail + before, from->tail_size - before);
    to->tail_size = from->tail_size + size;
    to->tail_crc = crc32_update(0, to->tail, to->tail_size);
    to->tail_operator = crc32_operator(to->tail_size);
    memcpy(to->header, from->header, RECORD_BODY_AT_MAX);
    to->header_size = from->header_size;
    to->holes_end = from->holes_end;
    to->body_size = from->body_size;
    to->size = from->size + size;
    store_be32(to->header, to->size);
    join(to);
}

/* The header, whatever its size, without a branch: its first bytes and its last ones, which overlap. */
static void put_header(const struct record_template *template, uint8_t *at)
{
    const uint32_t last = template->header_size - HEADER_LAST;
    memcpy(at, template->header, RECORD_BODY_AT);
    memcpy(at + last, template->header + last, HEADER_LAST);
}

/* The tail, in steps of 16 bytes; the last one writes into the room of the CRC property. */
static void put_tail(const struct record_template *template, uint8_t *at)
{
    static_assert(RECORD_CRC_SIZE >= 15, "a step past the tail's end stays in the image");
    for (uint32_t i = 0; i < template->tail_size; i += 16)
        memcpy(at + i, template->tail + i, 16);
}

void record_template_fill(const struct record_template *template, uint32_t queue_id, const uint8_t *body, uint8_t *image,
                          struct record_seal *seal)
{
    const uint32_t header_size = template->header_size;
    const uint32_t body_crc = crc32_copy(0, image + header_size, body, template->body_size);
    /* as they lie in the record */
    const uint64_t words[2] = {__builtin_bswap64((uint64_t)(body_crc & RECORD_CRC_MASK) << 32 | queue_id), (uint64_t)body_crc << 32};
    put_header(template, image);
    memcpy(image + BODY_CRC_AT, &words[0], 8);
    put_tail(template, image + header_size + template->body_size);
    seal->crc = template->crc ^ crc32_raw_words(words, template->factors, 2);
    seal->hole_operator = template->hole_operator;
}

void record_encode(const struct record_parts *parts, uint8_t *image, struct record_seal *seal)
{
    struct record_template template = {0};
    record_template_tail(&template, parts);
    record_template_header(&template, parts);
    record_template_fill(&template, parts->queue_id, parts->body, image, seal);
}

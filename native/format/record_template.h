/* What records have in common that differ only in queue and body: the header in front of the body, all that follows it, and the
 * CRC of both. Most messages of a sender differ in nothing else, so a handler makes a template once for a run of them.
 *
 *   0  header, as far as the body   body   tail: topic and properties, up to the CRC property
 *
 * CRCs are linear, and what belongs to the body is a hole like those that the writer fills: the template has the CRC of a record
 * whose body, body CRC and queue are zero, and the factors that carry these over the bytes behind them. So a body is read once.
 */
#ifndef ORBITMQ_RECORD_TEMPLATE_H
#define ORBITMQ_RECORD_TEMPLATE_H

#include "format/record.h"

struct record_template {
    uint32_t size;          /* of the record, CRC property included; header, tail and body */
    uint32_t header_size;   /* RECORD_BODY_AT, and 12 more for each host of IPv6 */
    uint32_t holes_end;     /* in the header: of the writer's last hole, the store time */
    uint32_t body_size;
    uint32_t tail_size;
    uint32_t tail_crc;
    uint32_t tail_operator; /* crc32_operator(tail_size) */
    uint32_t crc;           /* of the record up to the CRC property, less what the words below add to it */
    uint32_t factors[2];    /* of the word with body CRC and queue id, and of the body's CRC as a register; see crc32_raw_words */
    uint32_t hole_operator; /* as in struct record_seal */
    uint8_t header[RECORD_BODY_AT_MAX];
    uint8_t tail[1 + TOPIC_SIZE_MAX + 2 + PROPERTIES_MAX + 16]; /* 16 more, so that it can be copied in whole words */
};

/* Sets topic and properties of what follows, from topic, topic_size, properties and properties_size of the parts. The header is to
 * be set afterwards. Where a hostile client still writes the properties, the template's copy of them is what counts. */
void record_template_tail(struct record_template *template, const struct record_parts *parts);

/* The properties in the template, without separator and CRC property. */
struct slice record_template_properties(const struct record_template *template);

/* Sets the rest, from all parts but the above, queue_id and body. */
void record_template_header(struct record_template *template, const struct record_parts *parts);

/* Makes `to` the template of the same record with a property more, which comes first: `mark` with its last separator, `size` bytes. The
 * properties must not pass RECORD_PROPERTIES_MAX with it. */
void record_template_mark(const struct record_template *from, const uint8_t *mark, uint32_t size, struct record_template *to);

/* Writes an image to `image` (template->size bytes). The body is copied before its CRC is computed. */
void record_template_fill(const struct record_template *template, uint32_t queue_id, const uint8_t *body, uint8_t *image,
                          struct record_seal *seal);

/* All of the above at once, for tools and tests. */
void record_encode(const struct record_parts *parts, uint8_t *image, struct record_seal *seal);

#endif

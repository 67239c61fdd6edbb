/* The property DEDUP_ID: by which the broker knows a message that it has stored before. Only the library and the gateway set it, and it is always
 * the first property, so that a look at the beginning of the string tells whether there is one.
 */
#ifndef ORBITMQ_DEDUP_ID_H
#define ORBITMQ_DEDUP_ID_H

#include "format/properties.h"

#define DEDUP_PROPERTY "DEDUP_ID\1"
#define DEDUP_PROPERTY_SIZE (sizeof DEDUP_PROPERTY - 1)
#define DEDUP_ID_MAX 255u /* bytes */

/* Ids that a named producer of the library numbers begin with this byte, which no program's id does, and a letter: 'A' + the binary logarithm of its window.
 * The number follows the last colon. So many of them as the window holds are remembered, since it never sends an older one again. */
#define DEDUP_NUMBERED 0x03
#define DEDUP_WINDOW_LETTER 'A'

/* What all numbered ids of one producer have in common, and how many to remember; data NULL: the id is a program's. */
static inline struct slice dedup_family(struct slice id, uint32_t *keep)
{
    if (id.size < 3 || id.data[0] != DEDUP_NUMBERED || id.data[1] < DEDUP_WINDOW_LETTER || id.data[1] > DEDUP_WINDOW_LETTER + 31)
        return (struct slice){NULL, 0};
    uint32_t size = id.size;
    while (size > 2 && id.data[size - 1] != ':')
        size--;
    *keep = UINT32_C(1) << (id.data[1] - DEDUP_WINDOW_LETTER);
    return (struct slice){id.data, size};
}

/* The id with which a properties string begins; data NULL: it begins with none, or with one of a length that is not allowed. */
static inline struct slice dedup_id(struct slice properties)
{
    const struct slice none = {NULL, 0};
    if (properties.size <= DEDUP_PROPERTY_SIZE || memcmp(properties.data, DEDUP_PROPERTY, DEDUP_PROPERTY_SIZE))
        return none;
    const uint8_t *id = properties.data + DEDUP_PROPERTY_SIZE;
    const uint32_t left = properties.size - (uint32_t)DEDUP_PROPERTY_SIZE;
    const uint8_t *end = memchr(id, PROPERTY_END, left);
    const uint32_t size = end ? (uint32_t)(end - id) : left;
    return size && size <= DEDUP_ID_MAX ? (struct slice){id, size} : none;
}

/* What follows the id: the other properties. All of them, if there is no id. */
static inline struct slice dedup_rest(struct slice properties)
{
    const struct slice id = dedup_id(properties);
    if (!id.data)
        return properties;
    const uint32_t taken = (uint32_t)(id.data - properties.data) + id.size;
    const uint32_t skip = taken < properties.size ? taken + 1 : taken;
    return (struct slice){properties.data + skip, properties.size - skip};
}

#endif

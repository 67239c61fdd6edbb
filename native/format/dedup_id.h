/* The property DEDUP_ID: by which the broker knows a message that it has stored before. Only the library sets it, and it is always
 * the first property, so that a look at the beginning of the string tells whether there is one.
 */
#ifndef ORBITMQ_DEDUP_ID_H
#define ORBITMQ_DEDUP_ID_H

#include "format/properties.h"

#define DEDUP_PROPERTY "DEDUP_ID\1"
#define DEDUP_PROPERTY_SIZE (sizeof DEDUP_PROPERTY - 1)
#define DEDUP_ID_MAX 255u /* bytes */

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

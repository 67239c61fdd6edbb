/* The properties string of a message: name 0x01 value 0x02 name 0x01 value, and the Java string hash by which tags and keys are
 * found. Nothing here allocates or copies unless asked to. Source: RocketMQ 4.9.1 and later MessageDecoder; see
 * docs/formats/commitlog.md.
 */
#ifndef ORBITMQ_PROPERTIES_H
#define ORBITMQ_PROPERTIES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PROPERTY_NAME_END 0x01
#define PROPERTY_END 0x02
#define PROPERTIES_MAX 32767u

/* A piece of bytes in memory that somebody else owns. */
struct slice {
    const uint8_t *data; /* NULL if there is none */
    uint32_t size;
};

/* What the index builder and consumers need of a properties string, found in one pass. A segment without a name, without a
 * value or without 0x01 is skipped; if a name occurs twice, the last one wins. */
struct known_properties {
    struct slice tags;       /* TAGS */
    struct slice keys;       /* KEYS: words separated by one space */
    struct slice unique_key; /* UNIQ_KEY */
};
void properties_known(const uint8_t *properties, uint32_t size, struct known_properties *known);

/* The value of one name, which is not empty and holds no separator, or data == NULL. */
struct slice properties_get(const uint8_t *properties, uint32_t size, const char *name, uint32_t name_size);

/* The values of `count` names, as properties_get gives them, in one pass. */
void properties_find(const uint8_t *properties, uint32_t size, const struct slice *names, uint32_t count, struct slice *values);

/* Steps through the string: *position starts at 0; returns false at the end. Skips what properties_known skips. */
bool properties_next(const uint8_t *properties, uint32_t size, uint32_t *position, struct slice *name, struct slice *value);

/* The next word of a KEYS value; *rest is what follows it. False at the end. */
static inline bool properties_next_word(struct slice *rest, struct slice *word)
{
    while (rest->size && *rest->data == ' ') {
        rest->data++;
        rest->size--;
    }
    if (!rest->size)
        return false;
    const uint8_t *end = memchr(rest->data, ' ', rest->size);
    *word = (struct slice){rest->data, end ? (uint32_t)(end - rest->data) : rest->size};
    rest->data += word->size;
    rest->size -= word->size;
    return true;
}

/* Java's String.hashCode of UTF-8 bytes: h = 31 h + unit over UTF-16 units, starting from `from`, so that a prefix's hash can
 * be continued. Bytes that are not UTF-8 count as U+FFFD, one for each maximal bad part, as Java decodes them. */
int32_t java_hash(int32_t from, const uint8_t *text, uint32_t size);

/* The ConsumeQueue's tags code: java_hash sign-extended, 0 without a tag. */
static inline int64_t tags_code(struct slice tags)
{
    return tags.data && tags.size ? (int64_t)java_hash(0, tags.data, tags.size) : 0;
}

#endif

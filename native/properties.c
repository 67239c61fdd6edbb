/* Properties strings, and the Java hash. Both read bytes that anybody may have sent: nothing is trusted but the sizes. */
#include "properties.h"
#include "bytes.h" /* the word tricks below want little-endian words */

#include <string.h>

/* Index of the first byte below 3 (a separator, or a 0) from `from` on, or size. Eight bytes at a time: subtracting 3 borrows
 * from exactly those, and the lowest mark is never a borrow's. */
static uint32_t next_mark(const uint8_t *at, uint32_t from, uint32_t size)
{
    for (; size - from >= 8; from += 8) {
        uint64_t word;
        memcpy(&word, at + from, 8);
        uint64_t marks = (word - 0x0303030303030303u) & ~word & 0x8080808080808080u;
        if (marks)
            return from + (uint32_t)__builtin_ctzll(marks) / 8;
    }
    while (from < size && at[from] > PROPERTY_END)
        from++;
    return from;
}

bool properties_next(const uint8_t *properties, uint32_t size, uint32_t *position, struct slice *name, struct slice *value)
{
    while (*position < size) {
        const uint8_t *segment = properties + *position;
        uint32_t left = size - *position;
        uint32_t split = UINT32_MAX; /* of the segment's first PROPERTY_NAME_END */
        uint32_t end = next_mark(segment, 0, left);
        for (; end < left && segment[end] != PROPERTY_END; end = next_mark(segment, end + 1, left))
            if (segment[end] == PROPERTY_NAME_END && split == UINT32_MAX)
                split = end;
        *position += end < left ? end + 1 : end;
        if (split != UINT32_MAX && split > 0 && split + 1 < end) {
            *name = (struct slice){segment, split};
            *value = (struct slice){segment + split + 1, end - split - 1};
            return true;
        }
    }
    return false;
}

static bool is_name(struct slice name, const char *wanted, uint32_t size)
{
    return name.size == size && memcmp(name.data, wanted, size) == 0;
}

void properties_known(const uint8_t *properties, uint32_t size, struct known_properties *known)
{
    struct slice name, value;
    uint32_t position = 0;
    memset(known, 0, sizeof *known);
    while (properties_next(properties, size, &position, &name, &value)) {
        if (is_name(name, "TAGS", 4))
            known->tags = value;
        else if (is_name(name, "KEYS", 4))
            known->keys = value;
        else if (is_name(name, "UNIQ_KEY", 8))
            known->unique_key = value;
    }
}

struct slice properties_get(const uint8_t *properties, uint32_t size, const char *name, uint32_t name_size)
{
    struct slice found = {0}, candidate, value;
    uint32_t position = 0;
    while (properties_next(properties, size, &position, &candidate, &value))
        if (is_name(candidate, name, name_size))
            found = value;
    return found;
}

/* Reads one character that does not begin with an ASCII byte; returns the number of bytes it takes, at least 1.
 *
 * A bad part becomes one U+FFFD. Its length is what Java's decoder takes: the longest beginning of a character that the
 * bytes still could have been. Java alone counts an encoded surrogate (ED A0..BF xx) as one bad part of three bytes. */
static uint32_t read_wide(const uint8_t *text, uint32_t left, uint32_t *character)
{
    uint8_t lead = text[0], least = 0x80, most = 0xBF; /* of the second byte */
    uint32_t wanted, value;
    *character = 0xFFFD;
    if (lead >= 0xC2 && lead <= 0xDF) {
        wanted = 2;
        value = lead & 0x1F;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        wanted = 3;
        value = lead & 0x0F;
        if (lead == 0xE0)
            least = 0xA0;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        wanted = 4;
        value = lead & 0x07;
        if (lead == 0xF0)
            least = 0x90;
        if (lead == 0xF4)
            most = 0x8F;
    } else {
        return 1;
    }
    for (uint32_t i = 1; i < wanted; i++) {
        if (i == left || text[i] < least || text[i] > most)
            return i;
        value = value << 6 | (text[i] & 0x3F);
        least = 0x80;
        most = 0xBF;
    }
    if (value < 0xD800 || value > 0xDFFF)
        *character = value;
    return wanted;
}

int32_t java_hash(int32_t from, const uint8_t *text, uint32_t size)
{
    uint32_t hash = (uint32_t)from; /* unsigned: the wrap-around is wanted */
    for (uint32_t i = 0; i < size;) {
        if (size - i >= 4) { /* four ASCII bytes at once: one multiplication deep instead of four */
            uint32_t word;
            memcpy(&word, text + i, 4);
            if (!(word & 0x80808080u)) {
                hash = hash * (31u * 31 * 31 * 31) + text[i] * (31u * 31 * 31) + text[i + 1] * (31u * 31) + text[i + 2] * 31u +
                       text[i + 3];
                i += 4;
                continue;
            }
        }
        uint32_t character = text[i];
        i += character < 0x80 ? 1 : read_wide(text + i, size - i, &character);
        if (character > 0xFFFF) {
            hash = hash * 31 + (0xD800 + ((character - 0x10000) >> 10));
            character = 0xDC00 + (character & 0x3FF);
        }
        hash = hash * 31 + character;
    }
    return (int32_t)hash;
}

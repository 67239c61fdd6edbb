/* Properties strings, and the Java hash. Both read bytes that anybody may have sent: only the sizes are trusted. */
#include "format/properties.h"
#include "base/bytes.h" /* the word tricks below want little-endian words */

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>

/* One bit a byte, set where it is a PROPERTY_END. */
#define STEP 16u
static inline uint64_t ends_in_step(const uint8_t *at)
{
    const __m128i wide = _mm_loadu_si128((const __m128i *)(const void *)at);
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(wide, _mm_set1_epi8(PROPERTY_END)));
}
#else
/* The same in a word: the top bit of each byte, set if it was a PROPERTY_END, then gathered into one byte by a
 * multiplication. */
#define STEP 8u
static inline uint64_t ends_in_step(const uint8_t *at)
{
    const uint64_t low = 0x7F7F7F7F7F7F7F7F;
    uint64_t word;
    memcpy(&word, at, 8);
    word ^= PROPERTY_END * UINT64_C(0x0101010101010101);
    const uint64_t marks = ~(((word & low) + low) | word | low);
    return (marks >> 7) * 0x0102040810204080 >> 56;
}
#endif

/* One bit for each of the first 64 bytes. The last step reaches back over bytes that have been seen already. */
static inline uint64_t ends_in(const uint8_t *at, uint32_t size)
{
    const uint32_t count = size < 64 ? size : 64;
    uint64_t ends = 0;
    uint32_t i = 0;
    for (; count - i >= STEP; i += STEP)
        ends |= ends_in_step(at + i) << i;
    if (i < count && count >= STEP)
        return ends | ends_in_step(at + count - STEP) << (count - STEP);
    for (; i < count; i++)
        ends |= (uint64_t)(at[i] == PROPERTY_END) << i;
    return ends;
}

/* Walks over segments: what is between two PROPERTY_END, or at the ends of the string. */
struct walk {
    const uint8_t *data;
    uint32_t size;
    uint32_t begin; /* of the next segment */
    uint32_t seen;  /* bytes whose ends were looked for ... */
    uint32_t base;  /* ... the last 64 of them from here */
    uint64_t ends;  /* those of them not yet passed */
};

static inline bool next_segment(struct walk *walk, struct slice *segment)
{
    while (!walk->ends && walk->seen < walk->size) {
        walk->base = walk->seen;
        walk->ends = ends_in(walk->data + walk->base, walk->size - walk->base);
        walk->seen = walk->size - walk->base < 64 ? walk->size : walk->base + 64;
    }
    if (walk->begin >= walk->size)
        return false;
    uint32_t end = walk->size;
    if (walk->ends) {
        end = walk->base + (uint32_t)__builtin_ctzll(walk->ends);
        walk->ends &= walk->ends - 1;
    }
    *segment = (struct slice){walk->data + walk->begin, end - walk->begin};
    walk->begin = end + 1;
    return true;
}

/* The value, if the segment is a pair of this name. A name ends at the segment's first PROPERTY_NAME_END, and `name` contains
 * none, so its own bytes and the one after them decide; the rest of the segment need not be looked at. */
static inline bool has_name(struct slice segment, const char *name, uint32_t name_size, struct slice *value)
{
    if (segment.size < name_size + 2 || segment.data[name_size] != PROPERTY_NAME_END ||
        memcmp(segment.data, name, name_size) != 0)
        return false;
    *value = (struct slice){segment.data + name_size + 1, segment.size - name_size - 1};
    return true;
}

bool properties_next(const uint8_t *properties, uint32_t size, uint32_t *position, struct slice *name, struct slice *value)
{
    struct walk walk = {.data = properties, .size = size, .begin = *position, .seen = *position};
    struct slice segment;
    while (next_segment(&walk, &segment)) {
        *position = walk.begin;
        const uint8_t *split = segment.size ? memchr(segment.data, PROPERTY_NAME_END, segment.size) : NULL;
        const uint32_t name_size = split ? (uint32_t)(split - segment.data) : 0;
        if (name_size > 0 && name_size + 1 < segment.size) {
            *name = (struct slice){segment.data, name_size};
            *value = (struct slice){split + 1, segment.size - name_size - 1};
            return true;
        }
    }
    return false;
}

void properties_known(const uint8_t *properties, uint32_t size, struct known_properties *known)
{
    struct walk walk = {.data = properties, .size = size};
    struct slice segment;
    memset(known, 0, sizeof *known);
    while (next_segment(&walk, &segment))
        if (!has_name(segment, "TAGS", 4, &known->tags) && !has_name(segment, "KEYS", 4, &known->keys))
            has_name(segment, "UNIQ_KEY", 8, &known->unique_key);
}

struct slice properties_get(const uint8_t *properties, uint32_t size, const char *name, uint32_t name_size)
{
    struct walk walk = {.data = properties, .size = size};
    struct slice found = {0}, segment;
    while (next_segment(&walk, &segment))
        has_name(segment, name, name_size, &found);
    return found;
}

void properties_find(const uint8_t *properties, uint32_t size, const struct slice *names, uint32_t count, struct slice *values)
{
    struct walk walk = {.data = properties, .size = size};
    struct slice segment;
    memset(values, 0, count * sizeof *values);
    while (next_segment(&walk, &segment))
        for (uint32_t i = 0; i < count; i++)
            if (has_name(segment, (const char *)names[i].data, names[i].size, &values[i]))
                break;
}

/* Reads one character that does not begin with an ASCII byte; returns the number of bytes it takes, at least 1.
 *
 * A bad part becomes one U+FFFD. Its length is what Java's decoder takes: the longest beginning of a character that the bytes
 * still could have been. Java alone counts an encoded surrogate (ED A0..BF xx) as one bad part of three bytes. */
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
    uint32_t hash = (uint32_t)from; /* unsigned: the overflow is wanted */
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

/* Properties strings of any bytes, in memory of exactly their size, compared with a reader that goes byte by byte. */
#include "drive.h"
#include "format/properties.h"

#include <string.h>

#define ROUNDS 200000u
#define SIZE_MAX_DRIVEN 300u

static bool same(struct slice a, struct slice b) { return a.data == b.data && a.size == b.size; }

static bool is(struct slice name, const char *wanted)
{
    return name.size == strlen(wanted) && memcmp(name.data, wanted, name.size) == 0;
}

/* The next pair from *at on, the plain way. */
static bool plain_next(const uint8_t *text, uint32_t size, uint32_t *at, struct slice *name, struct slice *value)
{
    while (*at < size) {
        const uint32_t begin = *at;
        uint32_t end = begin, split = size;
        for (; end < size && text[end] != PROPERTY_END; end++)
            if (text[end] == PROPERTY_NAME_END && split == size)
                split = end;
        *at = end + 1;
        if (split < size && split > begin && split + 1 < end) {
            *name = (struct slice){text + begin, split - begin};
            *value = (struct slice){text + split + 1, end - split - 1};
            return true;
        }
    }
    return false;
}

static void compare(const uint8_t *text, uint32_t size)
{
    struct known_properties known, expected = {0};
    struct slice name, value, plain_name, plain_value;
    uint32_t at = 0, plain_at = 0;
    while (plain_next(text, size, &plain_at, &plain_name, &plain_value)) {
        CHECK(properties_next(text, size, &at, &name, &value));
        CHECK(same(name, plain_name) && same(value, plain_value));
        if (is(name, "TAGS"))
            expected.tags = value;
        if (is(name, "KEYS"))
            expected.keys = value;
        if (is(name, "UNIQ_KEY"))
            expected.unique_key = value;
    }
    CHECK(!properties_next(text, size, &at, &name, &value));
    properties_known(text, size, &known);
    CHECK(same(known.tags, expected.tags) && same(known.keys, expected.keys) && same(known.unique_key, expected.unique_key));
    CHECK(same(properties_get(text, size, "KEYS", 4), expected.keys));
}

/* Words that make pairs likely, their beginnings, and any byte. */
static uint32_t write_any(uint8_t *text, uint32_t room, uint64_t *seed)
{
    static const char *const words[] = {"TAGS\1", "KEYS\1",      "UNIQ_KEY\1", "TAGS", "\2", "\2",
                                        "\1",     "__CRC32#\1", "a",           "some value"};
    uint32_t size = 0;
    while (size < room) {
        const uint64_t kind = drive_random(seed) % 16;
        if (kind >= sizeof words / sizeof *words) {
            text[size++] = (uint8_t)(drive_random(seed) % (kind == 15 ? 256 : 4));
            continue;
        }
        const uint32_t length = (uint32_t)strlen(words[kind]), left = room - size;
        memcpy(text + size, words[kind], length < left ? length : left);
        size += length < left ? length : left;
    }
    return size;
}

int main(void)
{
    uint64_t seed = 88172645463325252u;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t room = (uint32_t)(drive_random(&seed) % (round % 4 ? 40 : SIZE_MAX_DRIVEN));
        uint8_t *text = malloc(room ? room : 1);
        CHECK(text != NULL);
        compare(text, write_any(text, room, &seed));
        free(text);
    }
    return 0;
}

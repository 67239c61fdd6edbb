#include "client/column_pairs.h"
#include "format/reserved.h"

#define CRC_NAME "__CRC32#"

/* Removes one of the row's pairs: [pair] of [begin, end). */
static void drop(struct column_text *text, uint32_t pair, uint32_t end)
{
    const int32_t at = text->offsets[pair], next = text->offsets[pair + 1], size = next - at;
    memmove(text->data + at, text->data + next, (size_t)(text->offsets[end] - next));
    for (uint32_t i = pair + 1; i < end; i++)
        text->offsets[i] = text->offsets[i + 1] - size;
}

/* Removes the pair of this name, if the row has one already. Returns the new end of the row's pairs. */
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
    uint64_t met = 0; /* roughly a bit for each name: names that occur twice are rare, and looking for them is not cheap */
    struct slice name, value;
    while (properties_next(properties.data, properties.size, &position, &name, &value)) {
        if (name.size == sizeof CRC_NAME - 1 && memcmp(name.data, CRC_NAME, name.size) == 0)
            continue;
        if (to->own && reserved_property(name) != RESERVED_NOT)
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

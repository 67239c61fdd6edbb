/* A column of binary or text in Arrow's layout: the values back to back, and n + 1 int32 offsets into them. */
#ifndef ORBITMQ_COLUMN_TEXT_H
#define ORBITMQ_COLUMN_TEXT_H

#include "format/properties.h"
#include <stddef.h>

#define COLUMN_BYTES_MAX UINT64_C(0x7FFFFFFF) /* the largest value of a 32-bit offset */
#define COLUMN_SLACK 16u                      /* bytes after the end of the data that appending may overwrite */

/* Buffers; those of columns that are not selected stay NULL. */
struct column_text {
    int32_t *offsets;  /* one more than rows, the first of them 0 */
    uint8_t *data;
    uint8_t *validity; /* one bit a row, zero before; NULL for what is never null */
    uint32_t nulls;
};

static inline uint64_t column_bytes(const struct column_text *text, uint32_t rows)
{
    return text->offsets ? (uint32_t)text->offsets[rows] : 0;
}

static inline void column_valid(uint8_t *validity, uint32_t row) { validity[row / 8] |= (uint8_t)(1u << (row & 7)); }

/* Appends a value. readable_end: memory may be read up to here. */
static inline void column_append(struct column_text *to, uint32_t row, struct slice value, const uint8_t *readable_end)
{
    const uint32_t at = (uint32_t)to->offsets[row];
    /* a tag, key or property is short: if neither side ends too soon, one move of a fixed size replaces a call */
    if (value.size <= COLUMN_SLACK && readable_end - value.data >= (ptrdiff_t)COLUMN_SLACK)
        memcpy(to->data + at, value.data, COLUMN_SLACK);
    else
        memcpy(to->data + at, value.data, value.size);
    to->offsets[row + 1] = (int32_t)(at + value.size);
}

/* The same for a value that may be missing: data NULL. */
static inline void column_append_or_null(struct column_text *to, uint32_t row, struct slice value, const uint8_t *readable_end)
{
    if (value.data) {
        column_valid(to->validity, row);
        column_append(to, row, value, readable_end);
    } else {
        to->nulls++;
        to->offsets[row + 1] = to->offsets[row];
    }
}

#endif

/* A column of lists of (name, value): the properties of each row's message, or those of them that are its sender's own. */
#ifndef ORBITMQ_COLUMN_PAIRS_H
#define ORBITMQ_COLUMN_PAIRS_H

#include "client/column_text.h"

/* A property takes four bytes at least: a byte of name, one of value, and their separators. */
#define COLUMN_PAIR_MIN 4u

struct column_pairs {
    int32_t *starts;   /* of each row its first pair; one more than rows, the first of them 0 */
    uint8_t *validity; /* one bit a row, zero before: a row without a pair is null; NULL: it is an empty list */
    uint32_t nulls;
    bool own;          /* the sender's own properties only */
    struct column_text name, value; /* of the pairs */
};

/* Pairs of the first rows. */
static inline uint32_t column_pair_count(const struct column_pairs *pairs, uint32_t rows)
{
    return pairs->starts ? (uint32_t)pairs->starts[rows] : 0;
}

/* Appends a row; there is room for all of the properties. A name that stands twice keeps its last value; the record's CRC is no property
 * of the message. */
void column_pairs_append(struct column_pairs *to, uint32_t row, struct slice properties, const uint8_t *readable_end);

#endif

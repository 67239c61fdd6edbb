/* A column of lists of (name, value): the properties of each row's message, or only those that its sender set. */
#ifndef ORBITMQ_COLUMN_PAIRS_H
#define ORBITMQ_COLUMN_PAIRS_H

#include "client/column_text.h"

/* A property takes four bytes at least: a byte of name, one of value, and their separators. */
#define COLUMN_PAIR_MIN 4u

struct column_pairs {
    int32_t *starts;   /* the first pair of each row; one more than rows, the first of them 0 */
    uint8_t *validity; /* one bit a row, zero before: a row without a pair is null; NULL: it is an empty list */
    uint32_t nulls;
    bool own;          /* only the sender's own properties */
    struct column_text name, value; /* of the pairs */
};

/* Pairs of the first rows. */
static inline uint32_t column_pair_count(const struct column_pairs *pairs, uint32_t rows)
{
    return pairs->starts ? (uint32_t)pairs->starts[rows] : 0;
}

/* Appends a row; there must be room for all of its properties. If a name occurs twice, the last value counts. The record's CRC
 * is not a property of the message. */
void column_pairs_append(struct column_pairs *to, uint32_t row, struct slice properties, const uint8_t *readable_end);

#endif

/* Arrow columns out of a batch of message references: sizes first, then one copy into buffers that the caller allocated. No
 * object a message, and no knowledge of Arrow beyond the shape of its buffers: values back to back with n + 1 int32 offsets for
 * binary and text, one value a row for numbers, one bit a row for validity, least significant first.
 */
#ifndef ORBITMQ_COLUMNS_H
#define ORBITMQ_COLUMNS_H

#include "reader.h"

enum column {
    COLUMN_BODY = 1 << 0,     /* binary, as stored */
    COLUMN_TAGS = 1 << 1,     /* text or null */
    COLUMN_KEYS = 1 << 2,     /* text or null: words separated by one space */
    COLUMN_TOPIC = 1 << 3,    /* int32 index into the reader's names */
    COLUMN_QUEUE = 1 << 4,    /* int32 */
    COLUMN_OFFSET = 1 << 5,   /* int64 queue offset */
    COLUMN_PHYSICAL = 1 << 6, /* int64 physical offset */
    COLUMN_BORN = 1 << 7,     /* int64 milliseconds since the epoch */
    COLUMN_STORED = 1 << 8,   /* likewise */
    COLUMN_FLAG = 1 << 9,     /* int32 */
};

#define COLUMN_BYTES_MAX UINT64_C(0x7FFFFFFF) /* what 32-bit offsets reach */

/* A destination; the members of columns that are not selected stay NULL. */
struct column_text {
    int32_t *offsets;  /* rows + 1 */
    uint8_t *data;
    uint8_t *validity; /* (rows + 7) / 8 bytes; NULL for bodies, which are never null */
};
struct columns {
    struct column_text body, tags, keys;
    int32_t *topic, *queue, *flag;
    int64_t *offset, *physical, *born_ms, *stored_ms;
};

struct column_note { /* found while measuring, so that properties are searched once */
    struct slice tags, keys;
};

struct columns_size {
    uint32_t rows;
    uint32_t compressed; /* rows whose body is stored compressed */
    uint32_t tags_null, keys_null;
    uint64_t body, tags, keys; /* bytes */
};

/* Measures the first rows of refs, fewer than count when a column would pass COLUMN_BYTES_MAX. notes: room for count when tags or keys
 * are selected, else NULL. */
void columns_measure(const struct message_ref *refs, uint32_t count, uint32_t selection, struct column_note *notes,
                     struct columns_size *size);

/* Fills the buffers with the rows measured. cursors: the reader's. */
void columns_copy(const struct message_ref *refs, const struct columns_size *size, const struct column_note *notes,
                  const struct reader_cursor *cursors, const struct columns *columns);

#endif

/* Arrow columns out of message references, row after row into buffers that the caller allocated. No object is made per message,
 * and nothing is known of Arrow but the shape of its buffers: values back to back with n + 1 int32 offsets for binary and text,
 * one value a row for numbers, one bit a row for validity, least significant first.
 *
 * Rows come in blocks small enough to stay in the cache from the check of their records to their copy. A record batch of 65,536 rows
 * that was first checked, then measured, then copied fetched each record from memory three times.
 */
#ifndef ORBITMQ_COLUMNS_H
#define ORBITMQ_COLUMNS_H

#include "client/column_host.h"
#include "client/column_pairs.h"
#include "client/column_views.h"
#include "client/reader.h"

enum column {
    COLUMN_BODY = 1 << 0,     /* binary, decompressed */
    COLUMN_TAGS = 1 << 1,     /* text or null */
    COLUMN_KEYS = 1 << 2,     /* text or null: words separated by one space */
    COLUMN_TOPIC = 1 << 3,    /* int32 index into the reader's names */
    COLUMN_QUEUE = 1 << 4,    /* int32 */
    COLUMN_OFFSET = 1 << 5,   /* int64 queue offset */
    COLUMN_PHYSICAL = 1 << 6, /* int64 physical offset */
    COLUMN_BORN = 1 << 7,     /* int64 milliseconds since the epoch */
    COLUMN_STORED = 1 << 8,   /* likewise */
    COLUMN_FLAG = 1 << 9,     /* int32 */
    COLUMN_RECONSUME = 1 << 10,  /* int32 */
    COLUMN_ID = 1 << 11,         /* text: hex digits */
    COLUMN_BORN_HOST = 1 << 12,  /* text */
    COLUMN_STORE_HOST = 1 << 13, /* text */
    COLUMN_HEADERS = 1 << 14,    /* the sender's own properties; null without any */
    COLUMN_PROPERTIES = 1 << 15, /* all properties */
    COLUMN_VIEWS = 1 << 16,      /* bodies where they are stored, instead of COLUMN_BODY */
};

#define COLUMNS_BLOCK 512u                 /* rows to append at once ... */
#define COLUMNS_BLOCK_BYTES (256u << 10)   /* ... with about so many bytes of bodies and properties */

/* Buffers; those of columns that are not selected stay NULL. */
struct columns {
    uint32_t rows; /* appended so far */
    struct column_text body, tags, keys;
    struct column_views views; /* of bodies */
    int32_t *topic, *queue, *flag, *reconsume;
    int64_t *offset, *physical, *born_ms, *stored_ms;
    struct column_text id;
    struct column_host born_host, store_host;
    struct column_pairs headers, properties;
};

/* What the first references of a block need. */
struct columns_need {
    uint32_t rows;
    bool compressed; /* the body of the next reference is stored compressed: append it alone */
    uint64_t body;   /* bytes of bodies */
    uint64_t text;   /* most bytes of tags, and of any other text but bodies: all of the records without their bodies */
};

/* Bytes of bodies so far, as either column. */
static inline uint64_t columns_body_bytes(const struct columns *columns)
{
    return columns->views.views ? columns->views.bytes : column_bytes(&columns->body, columns->rows);
}

/* How many of the first references fit within `limit` bytes of bodies in all, and likewise of properties if these are selected,
 * and within the range of the offsets. The first row of all always fits. */
struct columns_need columns_fit(const struct columns *columns, const struct message_ref *refs, uint32_t count,
                                uint64_t limit);

/* Appends rows for which there is room: what they need, and COLUMN_SLACK after each text. Returns how many; fewer than `count` if the
 * body of the next one is damaged, with the reader's fault set. */
uint32_t columns_append(struct columns *columns, struct reader *reader, const struct message_ref *refs, uint32_t count);

/* Appends one row with this body instead of the stored one. */
void columns_append_one(struct columns *columns, const struct reader *reader, const struct message_ref *ref, struct slice body);

#endif

/* A column of bodies where they are stored, in Arrow's layout for views: 16 bytes a row, which hold a body of up to 12 bytes, or its
 * first 4 and its place in one of several buffers. The buffers are stretches of the mapped log. Nothing is copied but what is
 * stored compressed, and so had to be made.
 *
 * A stretch goes on over what lies between two bodies, if that is little: a buffer for each body would cost more than a copy.
 */
#ifndef ORBITMQ_COLUMN_VIEWS_H
#define ORBITMQ_COLUMN_VIEWS_H

#include "client/reader.h"

#define COLUMN_VIEW_INLINE 12u       /* bytes of a body that fit into its view */
#define STRETCH_GAP (64u << 10)      /* bytes between two bodies of one stretch at most */
#define STRETCH_BYTES (1u << 30)     /* of a stretch at most: offsets into it have 31 bits */
#define STRETCHES_ENOUGH 1024u       /* a record batch with so many ends */

struct column_view {
    uint32_t size;
    union {
        uint8_t whole[COLUMN_VIEW_INLINE]; /* the rest is zero */
        struct {
            uint8_t first[4];
            uint32_t buffer; /* 0: the plain ones; else the stretch of this number, counted from 1 */
            uint32_t offset;
        };
    };
};
static_assert(sizeof(struct column_view) == 16, "as Arrow lays it out");

struct stretch {
    struct log_file *file;
    const uint8_t *begin, *end;
};

struct column_views {
    struct column_view *views; /* NULL: the column is not selected */
    uint64_t bytes;            /* of all bodies */
    struct stretch *stretches; /* room for one more with each row that is appended */
    uint32_t count;
    uint8_t *plain;            /* bodies that were decompressed, back to back */
    uint32_t plain_bytes;
};

void column_view_append(struct column_views *to, uint32_t row, const struct message_ref *ref);

/* A body that is not in the log like this; there is room in `plain`. */
void column_view_append_plain(struct column_views *to, uint32_t row, struct slice body);

#endif

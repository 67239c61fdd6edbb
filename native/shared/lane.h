/* A lane: the ring from one send handler to the CommitLog writer. Its segment is
 *
 *   | header | struct lane line | ring |
 *
 * A record of type LANE_APPEND carries a finished image (record.h); one of type LANE_REJECT carries a verdict only, so
 * that every verdict of a session travels one way and in order. The writer notes each result in the record itself before
 * its commit (writer.c), which is why a lane has two positions behind its tail: applied (in the commit record, control.h)
 * and freed (the ring's head).
 */
#ifndef ORBITMQ_LANE_H
#define ORBITMQ_LANE_H

#include "format/record.h"
#include "shared/ring.h"
#include "shared/segment.h"

#define LANES_MAX 16u

enum { LANE_APPEND = 1, LANE_REJECT = 2 };

struct lane_record { /* payload of the ring record; the image follows, 8-byte aligned */
    uint32_t session_slot;
    uint32_t session_epoch;
    uint64_t sequence;       /* of the message in its session, from 1 */
    uint32_t queue_slot;
    uint32_t queue_id;
    uint32_t image_size;     /* 0 for LANE_REJECT */
    uint32_t flags;          /* SEND_* of the frame */
    struct record_seal seal;
    uint32_t code;           /* verdict; the handler's for LANE_REJECT, else noted by the writer */
    uint32_t detail;
    uint64_t physical_offset; /* noted by the writer, believed only before `applied` */
    uint64_t queue_offset;    /* likewise */
};
static_assert(sizeof(struct lane_record) == 64, "the image begins on the payload's second line");

struct lane {
    struct segment_header header;
    _Alignas(SEGMENT_LINE) uint64_t capacity; /* of the ring; never changes */
    /* the handler's: 1 while it waits for room; the writer then rings its bell when it frees some [M1] */
    _Alignas(SEGMENT_LINE) _Atomic uint32_t stalled;
    struct ring ring;
};

static inline uint64_t lane_size(uint64_t capacity) { return offsetof(struct lane, ring) + ring_size(capacity); }
uint64_t lane_size_of(uint64_t capacity);
void lane_init(struct lane *lane, uint64_t capacity, uint64_t generation);

#endif

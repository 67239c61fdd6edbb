/* A lane: the ring from one send handler to the CommitLog writer. Its segment is
 *
 *   | header | struct lane line | ring |
 *
 * A record of type LANE_APPEND carries a finished image (record.h); one of type LANE_REJECT carries a verdict only, so
 * that every verdict of a session travels one way and in order. A lane has two positions behind its tail: applied (in the
 * commit record, control.h) and freed (the ring's head). What lies between them is in the log, and its verdicts are in their
 * sessions' slots, but perhaps nobody was told yet (writer.c).
 *
 * The last lanes are the broker's own: an actor puts records into the log, such as delayed messages that are due (put_lane.h). No
 * session waits for what comes through them: the writer notes each result in the record itself before its commit, in `code` and
 * `placed`. The actor reads the notes once the records are freed, and puts nothing more into the lane before.
 */
#ifndef ORBITMQ_LANE_H
#define ORBITMQ_LANE_H

#include "format/record.h"
#include "shared/ring.h"
#include "shared/segment.h"

#define HANDLERS_MAX 16u

/* Lanes behind those of the handlers, by which actors of the broker put records into the log themselves (put_lane.h). */
enum own_lane { OWN_LANE_SCHEDULER = 0, OWN_LANE_DISPATCHER = 1, OWN_LANES };
#define LANES_MAX (HANDLERS_MAX + OWN_LANES)

enum { LANE_APPEND = 1, LANE_REJECT = 2, LANE_SETTLE = 3 };

struct lane_record { /* payload of the ring record; the image follows, 8-byte aligned */
    uint32_t session_slot;   /* in a lane of the broker's own: put_name.kind */
    uint32_t session_epoch;
    uint64_t sequence;       /* of the message in its session, from 1; in a lane of the broker's own: put_name.number */
    uint32_t queue_slot;
    uint32_t queue_id;
    uint32_t image_size;     /* 0 for LANE_REJECT */
    uint32_t flags;          /* SEND_* of the frame; LANE_MORE */
    struct record_seal seal;
    uint32_t code;           /* the handler's verdict: VERDICT_APPENDED if it refuses nothing; in a lane of the broker's own the writer's */
    uint32_t detail;
    uint64_t placed;         /* the writer's own note of the physical offset, in a group with small writes; LANE_UNPLACED: none */
};
static_assert(sizeof(struct lane_record) + RING_HEADER == 64, "with the ring's header a line; the image begins on the next");
#define LANE_UNPLACED UINT64_MAX

/* Behind a lane record of type LANE_SETTLE: how a half message is settled. Then two images, which the writer appends one right behind the
 * other, or neither: that of the message, which a rollback has not, and that of the operation message. image_size and seal of the lane record
 * are the message's, and so is its queue; its `code` is the writer's note of the verdict, for a successor. */
struct lane_settle {
    uint64_t half;      /* queue offset */
    uint32_t half_slot; /* of its queue */
    uint32_t how;       /* enum half_state */
    uint32_t op_slot;
    uint32_t op_size;
    struct record_seal op_seal;
};
static_assert(sizeof(struct lane_settle) % 8 == 0, "the images are aligned");
static inline uint32_t lane_settle_op_at(uint32_t image_size) { return (uint32_t)sizeof(struct lane_settle) + ((image_size + 7) & ~7u); }

/* A flag: the next record of the lane is of the same atomic batch. The writer appends such records to one log file, in one write group,
 * or none of them; so whoever sets it publishes them together. */
#define LANE_MORE (UINT32_C(1) << 31)
/* A flag: the record has offsets of a group, which the writer judges. It is the last of its atomic batch. */
#define LANE_COMMITS (UINT32_C(1) << 30)
/* A flag: the record is a whole atomic batch, of one message with an id. What was stored under the id must then be one message too. */
#define LANE_WHOLE (UINT32_C(1) << 29)
#define LANE_FLAGS (LANE_MORE | LANE_COMMITS | LANE_WHOLE) /* not the sender's */

/* Most bytes of a lane that the records of an atomic batch may take, with the ring's headers: they fit, wherever the padding is. */
static inline uint64_t lane_batch_max(uint64_t capacity) { return capacity / 2; }
/* Most messages: not even the refusals of more would fit. */
static inline uint64_t lane_batch_messages(uint64_t capacity) { return lane_batch_max(capacity) / (RING_HEADER + sizeof(struct lane_record)); }

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

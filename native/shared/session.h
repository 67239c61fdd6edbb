/* A session segment: the only memory that a client writes. A sealed memfd of fixed size, made by the coordinator.
 *
 *   | header | shape | bell | completed | interest line | stalled | lock | window completion slots | SQ ring |
 *   | queue_capacity interest slots (u32) |
 *
 * The broker believes nothing in it. It reads the shape from the session table instead (control.h), copies and bounds SQ
 * records, and everything else that a client may write here only decides when that same client is woken.
 *
 * The submission ring carries frames (struct send_frame): one topic, one or more messages. Both sides number messages 1, 2, 3
 * ... in the order in which they are in the ring; completion slot (n - 1) & (window - 1) holds the verdict of message n once
 * `completed` >= n. Slots belong to the writer, which fills them in that order.
 */
#ifndef ORBITMQ_SESSION_H
#define ORBITMQ_SESSION_H

#include "format/record_host.h"
#include "shared/bell.h"
#include "shared/lock.h"
#include "shared/ring.h"
#include "shared/work_ring.h"

#define SESSION_WINDOW_MAX 65536u
#define SESSION_QUEUES_MAX 16384u
#define SQ_CAPACITY_MAX (64u << 20)

/* The verdict of one message. Codes are in verdict.h; VERDICT_APPENDED carries the place. */
struct completion {
    uint64_t physical_offset;
    uint64_t queue_offset;
    uint32_t size;     /* of the record in the log; physical_offset + size is the end that durability waits for */
    uint32_t queue_id;
    uint32_t code;
    uint32_t detail;   /* a limit or the offending size, by code */
};
static_assert(sizeof(struct completion) == 32, "two completions a line");

struct session_shape {
    uint32_t slot;           /* index in the session table */
    uint32_t epoch;          /* which use of that slot; never 0 */
    uint32_t window;         /* completion slots, a power of two; 0 for a session that only consumes */
    uint32_t queue_capacity; /* interest slots; 0 for a session that only produces */
    uint64_t sq_capacity;    /* power of two; 0 for a session that only consumes */
    uint32_t message_max;    /* the largest record this session was made for, bytes */
    uint32_t pid;            /* the client's */
    uint32_t work_capacity;  /* records in each ring of a worker, a power of two; 0 for a session that takes no work */
    uint32_t zero;
};

struct session {
    struct segment_header header;
    _Alignas(SEGMENT_LINE) struct session_shape shape;
    /* the client sleeps here, for verdicts and for arrivals alike */
    struct bell bell;
    /* the writer's: verdicts of messages 1 .. completed stand in their slots. release after the slots [S1] */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t completed;
    /* the client's: its list of interests is interest[0 .. interest_count), valid for interest_version [S2]; the notifier's:
     * the version it has acted on */
    _Alignas(SEGMENT_LINE) _Atomic uint32_t interest_version;
    _Atomic uint32_t interest_count;
    /* the client's: CLOCK_MONOTONIC of its last call, or of its last look while it waits; the coordinator uses it to recognise
     * a member that hangs (actors/groups/group_clock.py) */
    _Atomic uint64_t called_ns;
    _Alignas(SEGMENT_LINE) _Atomic uint32_t interest_seen;
    /* the client's: threads that sleep on the bell for room in the ring; no other sleep is cut short for room */
    _Alignas(SEGMENT_LINE) _Atomic uint32_t stalled;
    /* the client's, if it takes work: how many messages it wants to have in its hands; the dispatcher bounds it */
    _Atomic uint32_t wanted;
    /* the client's threads share the submission ring under this lock */
    struct lock lock;
    _Alignas(SEGMENT_LINE) uint8_t parts[];
};

/* The places of the parts; computed from a trusted shape. */
struct session_parts {
    struct completion *slots;
    struct ring *sq;
    _Atomic uint32_t *interest;
    struct work_ring *hand_outs, *answers;
};
uint64_t session_size(const struct session_shape *shape);
void session_init(void *memory, const struct session_shape *shape, uint64_t generation);
void session_parts(struct session *session, const struct session_shape *shape, struct session_parts *parts);

/* Messages with a verdict in their slots. */
static inline uint64_t session_completed(const struct session *session)
{
    /* acquire: the slots up to here. Pairs with the writer's release [S1]. */
    return atomic_load_explicit(&session->completed, memory_order_acquire);
}

/* Frames in the submission ring; native byte order. A record of type SQ_SEND is one frame. A record of type SQ_ATOMIC is an
 * atomic batch, of which all messages are stored or none: struct send_atomic, then frames. */
enum { SQ_SEND = 1, SQ_ATOMIC = 2 };
enum {
    SEND_FLUSH = 1,   /* the sender will wait for the disk: tell the flush service at once */
    SEND_DEDUP = 2,   /* the properties of each message begin with an id (dedup_id.h): what was stored under it is not stored again */
    SEND_BORN = 4,    /* a struct record_host follows the frame's head: where its messages come from. Nothing is decided by it */
};
struct send_frame {
    uint32_t topic;      /* index in the topic table */
    uint32_t topic_hash; /* of its name, so that a stale index is noticed */
    uint32_t count;      /* messages that follow */
    uint32_t flags;      /* SEND_* */
    uint64_t born_ms;
};
struct send_atomic {
    uint32_t count;      /* messages of all frames */
    uint32_t frames;
};
struct send_message { /* then properties, then body, then up to 7 bytes to the next multiple of 8 */
    uint32_t body_size;
    uint32_t properties_size;
    uint32_t queue_id;
    uint32_t flag;
    uint32_t sys_flag;  /* only what record_body_flag lets through */
    uint32_t delay_level; /* 0: to its topic at once; from 1 on: later (delay.h); SEND_AT and what follows: see there */
};
/* At a time: the first 8 bytes of what properties_size counts are the time, ms since 1970, in native byte order. Of SEND_CANCEL they are
 * the queue offset, in rmq_sys_wheel_timer, of a message for the same topic that is not to come. */
#define SEND_AT UINT32_MAX
#define SEND_CANCEL (UINT32_MAX - 1)
#define SEND_AT_SIZE 8u
/* A half message: what properties_size counts begins with the size of the producer group's name (8 bytes), then the name. */
#define SEND_HALF (UINT32_MAX - 2)
#define SEND_GROUP_MAX 255u
/* Settles a half message: the same begins with a send_settle. The frame's topic, queue and body do not matter. */
#define SEND_SETTLE (UINT32_MAX - 3)
struct send_settle {
    uint64_t offset;          /* of the half, in queue 0 of RMQ_SYS_TRANS_HALF_TOPIC */
    uint64_t physical_offset; /* of its record */
    uint64_t how;             /* SETTLE_ */
    uint8_t id[32];           /* the first bytes of its UNIQ_KEY, then zeros; all zeros: whatever it is */
};
/* Offsets of a group that are committed with the atomic batch whose last message it is: what properties_size counts is a send_commits. The
 * frame's topic is rmq_sys_group_commits, and the body as in format/group_commit.h. */
#define SEND_OFFSETS (UINT32_MAX - 4)
struct send_commits { uint32_t slot, epoch; }; /* of the member's session */
/* A message that a group gives back: it comes to the group again, or is its dead letter, as RocketMQ decides. What properties_size counts
 * begins with a send_back. The frame's topic is the group's, for retries; queue and body do not matter. */
#define SEND_BACK (UINT32_MAX - 5)
struct send_back {
    uint64_t physical_offset; /* of its record */
    int32_t level;            /* of delay; 0: the next one; less: it is a dead letter at once */
    int32_t most;             /* reconsume times; a message that has so many is a dead letter */
};
/* The same, if its consumer says what it was: properties_size begins with a send_again, and counts the message's properties behind it. */
#define SEND_AGAIN (UINT32_MAX - 6)
struct send_again {
    int32_t level; /* of delay; 0 and less: none */
    int32_t most;  /* as above */
    int32_t tries; /* its reconsume times */
    uint32_t unused;
};
enum { SETTLE_COMMIT = 1, SETTLE_ROLLBACK = 2, SETTLE_GIVE_UP = 3 }; /* the last: copied to TRANS_CHECK_MAX_TIME_TOPIC */
static_assert(sizeof(struct send_frame) == 24 && sizeof(struct send_atomic) == 8 && sizeof(struct send_message) == 24,
              "frames keep 8-byte alignment");

static inline uint64_t send_message_stride(uint64_t properties_size, uint64_t body_size)
{
    return (sizeof(struct send_message) + properties_size + body_size + 7) & ~UINT64_C(7);
}

#endif

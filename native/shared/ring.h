/* SPSC byte ring: one producer process, one consumer process, records in order.
 *
 *   shared:  | tail line | head line | data, capacity bytes (a power of two, >= 4096) |
 *
 *   record:  offset 0  u32 length   bytes of the whole record, header included, before rounding up to 8
 *            offset 4  u32 type     0 is padding to the end of the ring; the rest is the user's
 *            offset 8  payload
 *
 * Positions count bytes ever passed and only grow; a record lies at position & (capacity - 1), is 8-byte aligned and never
 * wraps: what would, is preceded by padding to the end. A record is at most half the ring, so a claim always succeeds once
 * the consumer has caught up.
 *
 * Life of a record, and what a crash in each state leaves:
 *   free      -> claimed    by ring_claim; producer dies: nobody saw it, a successor starts again at the shared tail
 *   claimed   -> committed  by ring_commit, private to the producer; as above
 *   committed -> published  by ring_publish, one release store for many records; from here on it is the consumer's
 *   published -> released   by ring_release, one release store for many; consumer dies before: its successor sees the
 *                           record again, and the record's user must make seeing it twice harmless
 *
 * The shared part holds nothing but the two positions. What each side remembers of the other stays in its private handle,
 * so that a peer that writes garbage into the ring cannot move our own position (a session's client may be hostile).
 */
#ifndef ORBITMQ_RING_H
#define ORBITMQ_RING_H

#include "shared/segment.h"

#define RING_ALIGN 8u
#define RING_HEADER 8u
#define RING_PADDING 0u
#define RING_MIN_CAPACITY 4096u

struct ring_tail {
    _Alignas(SEGMENT_LINE) _Atomic uint64_t position; /* bytes ever published; the producer writes it; only grows */
};
struct ring_head {
    _Alignas(SEGMENT_LINE) _Atomic uint64_t position; /* bytes ever released; the consumer writes it; only grows */
};
struct ring {
    struct ring_tail tail;
    struct ring_head head;
    _Alignas(SEGMENT_LINE) uint8_t data[];
};
static_assert(offsetof(struct ring, data) == 2 * SEGMENT_LINE, "tail and head own one line each");

struct ring_record {
    uint32_t length;
    uint32_t type;
};

struct ring_producer {
    struct ring *ring;
    uint64_t capacity;
    uint64_t position;  /* bytes committed by this producer, published or not */
    uint64_t head_seen; /* last look at the consumer's head: its line is read only when this says full */
};
struct ring_consumer {
    struct ring *ring;
    uint64_t capacity;
    uint64_t position;  /* bytes this consumer has passed, released or not */
    uint64_t tail_seen; /* last look at the producer's tail */
};

/* Bytes of shared memory that a ring of this capacity takes. */
static inline uint64_t ring_size(uint64_t capacity) { return sizeof(struct ring) + capacity; }

/* Bytes a record with this payload takes in the ring. */
static inline uint64_t ring_stride(uint64_t payload_size)
{
    return (payload_size + RING_HEADER + RING_ALIGN - 1) & ~(uint64_t)(RING_ALIGN - 1);
}

bool ring_capacity_good(uint64_t capacity);

void ring_producer_attach(struct ring_producer *producer, struct ring *ring, uint64_t capacity);
void ring_consumer_attach(struct ring_consumer *consumer, struct ring *ring, uint64_t capacity, uint64_t position);

/* Room for a record with payload_size bytes, or NULL if the ring is full now. A second claim before the commit replaces the
 * first. payload_size must satisfy ring_stride(payload_size) <= capacity / 2. */
void *ring_claim(struct ring_producer *producer, uint32_t payload_size);

/* Ends the claimed record, of the claimed or a smaller payload size, with its type (not 0). The consumer sees it after
 * ring_publish. */
void ring_commit(struct ring_producer *producer, uint32_t payload_size, uint32_t type);
void ring_publish(struct ring_producer *producer);

enum ring_look { RING_RECORD = 0, RING_EMPTY = 1, RING_BROKEN = 2 };

/* Finds the record at the consumer's position, skipping padding, and copies its header out before it looks at it. The
 * payload stays in the ring and may still change under a hostile producer. RING_BROKEN: the tail or the record's length
 * contradicts the ring; nothing after it can be trusted. */
enum ring_look ring_peek(struct ring_consumer *consumer, struct ring_record *header, uint8_t **payload);

/* Passes the record that ring_peek showed; its memory stays reserved until ring_release. */
void ring_pass(struct ring_consumer *consumer, const struct ring_record *header);

/* Gives everything before position back to the producer. */
void ring_release(struct ring_consumer *consumer, uint64_t position);

/* Both shared positions, for a process that attaches after a death, for a look before a sleep, and for showing. */
static inline uint64_t ring_tail_position(const struct ring *ring)
{
    /* acquire: a reader of records below what this returns finds them whole. Pairs with ring_publish [edge R1]. */
    return atomic_load_explicit(&ring->tail.position, memory_order_acquire);
}
static inline uint64_t ring_head_position(const struct ring *ring)
{
    /* acquire: what the consumer did before it released. Pairs with ring_release [edge R2]. */
    return atomic_load_explicit(&ring->head.position, memory_order_acquire);
}

#endif

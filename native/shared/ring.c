/* SPSC byte ring. See ring.h for the bytes and for the life of a record. */
#include "shared/ring.h"
#include "base/crash_point.h"

#include <string.h>

/* A record's length is 32 bits and a record may be half the ring. */
#define RING_MAX_CAPACITY (UINT64_C(1) << 31)

static inline uint64_t index_of(uint64_t position, uint64_t capacity) { return position & (capacity - 1); }

/* A header is one aligned 8-byte word on both sides, so the consumer's single load cannot see one half changed by a hostile
 * producer between two looks. Little-endian: length is the low half. */
static inline void header_store(uint8_t *at, uint32_t length, uint32_t type)
{
    uint64_t word = (uint64_t)type << 32 | length;
    /* relaxed: the release in ring_publish orders it [edge R1]. */
    atomic_store_explicit((_Atomic uint64_t *)(void *)at, word, memory_order_relaxed);
}

static inline struct ring_record header_load(uint8_t *at)
{
    /* relaxed: the acquire of the tail in ring_peek orders it [edge R1]. */
    uint64_t word = atomic_load_explicit((_Atomic uint64_t *)(void *)at, memory_order_relaxed);
    return (struct ring_record){.length = (uint32_t)word, .type = (uint32_t)(word >> 32)};
}

bool ring_capacity_good(uint64_t capacity)
{
    return capacity >= RING_MIN_CAPACITY && capacity <= RING_MAX_CAPACITY && (capacity & (capacity - 1)) == 0;
}

void ring_producer_attach(struct ring_producer *producer, struct ring *ring, uint64_t capacity)
{
    assert(ring_capacity_good(capacity));
    producer->ring = ring;
    producer->capacity = capacity;
    /* relaxed: only producers write the tail, and the last one is dead or ourselves. */
    producer->position = atomic_load_explicit(&ring->tail.position, memory_order_relaxed);
    /* acquire: as in ring_claim [edge R2]. */
    producer->head_seen = atomic_load_explicit(&ring->head.position, memory_order_acquire);
    assert(producer->position % RING_ALIGN == 0);
}

void ring_consumer_attach(struct ring_consumer *consumer, struct ring *ring, uint64_t capacity, uint64_t position)
{
    assert(ring_capacity_good(capacity));
    assert(position % RING_ALIGN == 0);
    consumer->ring = ring;
    consumer->capacity = capacity;
    consumer->position = position;
    consumer->tail_seen = position; /* the first peek looks at the tail, and checks it */
}

void *ring_claim(struct ring_producer *producer, uint32_t payload_size)
{
    uint64_t stride = ring_stride(payload_size);
    assert(stride <= producer->capacity / 2);
    uint64_t index = index_of(producer->position, producer->capacity);
    uint64_t to_end = producer->capacity - index;
    uint64_t padding = to_end < stride ? to_end : 0;

    uint64_t end = producer->position + padding + stride;
    if (end - producer->head_seen > producer->capacity) {
        /* acquire: the consumer has done with the bytes before we overwrite them. Pairs with ring_release [edge R2]. */
        producer->head_seen = atomic_load_explicit(&producer->ring->head.position, memory_order_acquire);
        assert(producer->position - producer->head_seen <= producer->capacity);
        if (end - producer->head_seen > producer->capacity)
            return NULL;
    }
    if (padding > 0) {
        /* Committed at once: even if the claim is given up, padding alone makes a ring that can be read. */
        header_store(producer->ring->data + index, (uint32_t)padding, RING_PADDING);
        CRASH_POINT("ring_padded");
        producer->position += padding;
        index = 0;
    }
    return producer->ring->data + index + RING_HEADER;
}

void ring_commit(struct ring_producer *producer, uint32_t payload_size, uint32_t type)
{
    uint64_t stride = ring_stride(payload_size);
    uint64_t index = index_of(producer->position, producer->capacity);
    assert(type != RING_PADDING);
    assert(stride <= producer->capacity - index);
    assert(producer->position + stride - producer->head_seen <= producer->capacity);
    header_store(producer->ring->data + index, payload_size + RING_HEADER, type);
    producer->position += stride;
}

void ring_publish(struct ring_producer *producer)
{
    /* release: headers and payloads before the position. Pairs with the acquire in ring_peek [edge R1]. */
    atomic_store_explicit(&producer->ring->tail.position, producer->position, memory_order_release);
}

enum ring_look ring_peek(struct ring_consumer *consumer, struct ring_record *header, uint8_t **payload)
{
    if (consumer->position == consumer->tail_seen) {
        /* acquire: the records below the tail are whole. Pairs with the release in ring_publish [edge R1]. */
        uint64_t tail = atomic_load_explicit(&consumer->ring->tail.position, memory_order_acquire);
        if (tail % RING_ALIGN != 0 || tail - consumer->position > consumer->capacity)
            return RING_BROKEN; /* also a tail that went back: the difference wraps */
        consumer->tail_seen = tail;
    }
    /* Padding ends at the end of the ring and what is visible is at most one ring, so this passes it twice at most. */
    while (consumer->position != consumer->tail_seen) {
        uint64_t visible = consumer->tail_seen - consumer->position;
        uint64_t index = index_of(consumer->position, consumer->capacity);
        uint64_t to_end = consumer->capacity - index;
        struct ring_record record = header_load(consumer->ring->data + index);
        if (record.length < RING_HEADER)
            return RING_BROKEN;
        uint64_t stride = ring_stride(record.length - RING_HEADER);
        if (stride > visible || stride > to_end)
            return RING_BROKEN;
        if (record.type != RING_PADDING) {
            if (stride > consumer->capacity / 2)
                return RING_BROKEN;
            *header = record;
            *payload = consumer->ring->data + index + RING_HEADER;
            return RING_RECORD;
        }
        if (record.length != to_end)
            return RING_BROKEN;
        consumer->position += to_end;
    }
    return RING_EMPTY;
}

void ring_pass(struct ring_consumer *consumer, const struct ring_record *header)
{
    assert(header->length >= RING_HEADER);
    consumer->position += ring_stride(header->length - RING_HEADER);
    /* tail_seen - position wraps if the caller passed what was never shown. */
    assert(consumer->tail_seen - consumer->position <= consumer->capacity);
}

void ring_release(struct ring_consumer *consumer, uint64_t position)
{
    assert(position % RING_ALIGN == 0);
    assert(consumer->position - position <= consumer->capacity);
    /* release: our reads of the payloads before the producer may overwrite them. Pairs with the acquire in ring_claim
     * [edge R2]. The word itself is not read back: in a session its client could have changed it. */
    atomic_store_explicit(&consumer->ring->head.position, position, memory_order_release);
}

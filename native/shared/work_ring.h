/* The two rings of a worker's session: hand-outs (broker to client) and answers (client to broker). Records have one size, so a
 * position is a number of records, and whatever a hostile client writes can only name records within its own ring.
 *
 *   | tail line | head line | capacity records of 32 bytes |
 *
 * A record is published by the tail [V1], and its room is given back by the head [V2]. Each side keeps its own position for itself
 * and never reads it back.
 */
#ifndef ORBITMQ_WORK_RING_H
#define ORBITMQ_WORK_RING_H

#include "shared/segment.h"
#include <string.h>

#define WORK_RING_MIN 64u
#define WORK_RING_MAX 4096u /* a quarter of it is the largest range that an answer names */

enum work_kind {
    WORK_HAND_OUT = 1, /* broker: messages [first, first + count) of a queue are in hand; time_ms: deadline, CLOCK_MONOTONIC */
    WORK_REFUSED = 2,  /* broker: an answer about these did not count, because they were not in this session's hands, or are there again, by a later delivery */
    WORK_ACK = 3,      /* client: done */
    WORK_NACK = 4,     /* client: free again after time_ms; WORK_BACK_OFF: as often as it was tried says */
    WORK_EXTEND = 5,   /* client: in hand for time_ms from now on */
    WORK_GIVE_BACK = 6, /* client: not begun; free at once, and not counted as handed out */
    WORK_TEXT = 7      /* client: a piece of why the answer that follows is a nack; see work_text_put */
};
#define WORK_BACK_OFF UINT64_MAX

/* As much of a queue's opening as a record has room for. It is another one after a reset: an answer to what was handed out before does not count. */
static inline uint32_t work_opening(uint64_t opening) { return (uint32_t)(opening >> 1); }

struct work_record {
    uint64_t first;
    uint32_t queue;   /* queue slot */
    uint32_t count;
    uint16_t kind;
    uint16_t tries;   /* of a hand-out: the how many-th one it is, from 1; answers and refusals have it, too */
    uint32_t opening; /* of the queue, when it was handed out (work_opening); answers and refusals have it, too */
    uint64_t time_ms;
};
static_assert(sizeof(struct work_record) == 32, "two records a line");

/* A nack may follow on records that hold a text: why the work failed, 0x01, and a digest of it. They are one answer. Each has up to
 * WORK_TEXT_PIECE bytes in the fields beside kind, tries and opening; tries says how many. */
#define WORK_TEXT_PIECE 24u
#define WORK_TEXT_PIECES 23u
#define WORK_TEXT_MAX (WORK_TEXT_PIECES * WORK_TEXT_PIECE)
static_assert(offsetof(struct work_record, kind) == 16 && offsetof(struct work_record, time_ms) == 24, "where a piece lies");

static inline struct work_record work_text_put(const uint8_t *text, uint32_t size)
{
    uint8_t piece[WORK_TEXT_PIECE] = {0};
    struct work_record record = {.kind = WORK_TEXT, .tries = (uint16_t)size};
    memcpy(piece, text, size);
    memcpy(&record, piece, 16);
    memcpy(&record.time_ms, piece + 16, 8);
    return record;
}
static inline uint32_t work_text_get(const struct work_record *record, uint8_t *text)
{
    memcpy(text, record, 16);
    memcpy(text + 16, &record->time_ms, 8);
    return record->tries < WORK_TEXT_PIECE ? record->tries : WORK_TEXT_PIECE;
}

struct work_ring {
    _Alignas(SEGMENT_LINE) _Atomic uint64_t tail;
    _Alignas(SEGMENT_LINE) _Atomic uint64_t head;
    _Alignas(SEGMENT_LINE) struct work_record record[];
};

static inline bool work_ring_good(uint32_t capacity)
{
    return capacity >= WORK_RING_MIN && capacity <= WORK_RING_MAX && (capacity & (capacity - 1)) == 0;
}
static inline uint64_t work_ring_size(uint32_t capacity)
{
    return sizeof(struct work_ring) + (uint64_t)capacity * sizeof(struct work_record);
}

/* acquire: the records below it are whole. Pairs with work_ring_publish [V1]. */
static inline uint64_t work_ring_tail(const struct work_ring *ring)
{
    return atomic_load_explicit(&ring->tail, memory_order_acquire);
}

/* acquire: the reader has done with the records below it. Pairs with work_ring_release [V2]. */
static inline uint64_t work_ring_head(const struct work_ring *ring)
{
    return atomic_load_explicit(&ring->head, memory_order_acquire);
}

/* release: records before the tail. Pairs with work_ring_tail [V1]. */
static inline void work_ring_publish(struct work_ring *ring, uint64_t tail)
{
    atomic_store_explicit(&ring->tail, tail, memory_order_release);
}

/* release: our reads of the records before their room is free. Pairs with work_ring_head [V2]. */
static inline void work_ring_release(struct work_ring *ring, uint64_t head)
{
    atomic_store_explicit(&ring->head, head, memory_order_release);
}

#endif

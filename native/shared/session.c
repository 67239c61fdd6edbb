#include "shared/session.h"
#include <string.h>

static uint64_t line_up(uint64_t size) { return (size + SEGMENT_LINE - 1) & ~(uint64_t)(SEGMENT_LINE - 1); }

/* Offsets of the parts from the session's start. A part of size 0 still has an offset, never used. */
struct part_offsets {
    uint64_t slots, sq, interest, hand_outs, answers, end;
};

static struct part_offsets part_offsets(const struct session_shape *shape)
{
    struct part_offsets at;
    at.slots = offsetof(struct session, parts);
    at.sq = line_up(at.slots + (uint64_t)shape->window * sizeof(struct completion));
    at.interest = line_up(at.sq + (shape->sq_capacity ? ring_size(shape->sq_capacity) : 0));
    at.hand_outs = line_up(at.interest + (uint64_t)shape->queue_capacity * sizeof(uint32_t));
    const uint64_t work = shape->work_capacity ? line_up(work_ring_size(shape->work_capacity)) : 0;
    at.answers = at.hand_outs + work;
    at.end = at.answers + work;
    return at;
}

uint64_t session_size(const struct session_shape *shape)
{
    const uint64_t page = 4096;
    return (part_offsets(shape).end + page - 1) & ~(page - 1);
}

void session_init(void *memory, const struct session_shape *shape, uint64_t generation)
{
    assert(shape->epoch != 0);
    assert(shape->window <= SESSION_WINDOW_MAX && (shape->window & (shape->window - 1)) == 0);
    assert(shape->queue_capacity <= SESSION_QUEUES_MAX);
    assert(shape->sq_capacity == 0 || (ring_capacity_good(shape->sq_capacity) && shape->sq_capacity <= SQ_CAPACITY_MAX));
    assert((shape->sq_capacity == 0) == (shape->window == 0));
    assert(shape->work_capacity == 0 || work_ring_good(shape->work_capacity));
    struct session *session = memory;
    segment_init(memory, SEGMENT_SESSION, session_size(shape), generation);
    session->shape = *shape;
}

void session_parts(struct session *session, const struct session_shape *shape, struct session_parts *parts)
{
    const struct part_offsets at = part_offsets(shape);
    uint8_t *base = (uint8_t *)session;
    parts->slots = shape->window ? (struct completion *)(base + at.slots) : NULL;
    parts->sq = shape->sq_capacity ? (struct ring *)(base + at.sq) : NULL;
    parts->interest = shape->queue_capacity ? (_Atomic uint32_t *)(base + at.interest) : NULL;
    parts->hand_outs = shape->work_capacity ? (struct work_ring *)(base + at.hand_outs) : NULL;
    parts->answers = shape->work_capacity ? (struct work_ring *)(base + at.answers) : NULL;
}

/* Which half messages are settled: one of two states for each queue offset of RMQ_SYS_TRANS_HALF_TOPIC, of the last HALVES_SPAN. Part of the
 * control block, so it outlives the writer, which alone changes it; every process may look. A state is put here when the write group that
 * settles the half is committed, never before (writer_settle.c).
 *
 *   0 ........ floor ........ known ........
 *     settled        by state        open: not settled, or no half yet
 *
 * A place is used again for an offset that is HALVES_SPAN larger. It is cleared when `known` passes the new offset, before any state is put
 * there. The handler refuses halves while more than HALVES_OPEN_MAX lie between floor and newest, so no place is used for two that count.
 */
#ifndef ORBITMQ_HALVES_H
#define ORBITMQ_HALVES_H

#include "shared/segment.h"

#define HALVES_SPAN (UINT64_C(1) << 23) /* two bits each: 2 MiB */
#define HALVES_OPEN_MAX (HALVES_SPAN / 2)
#define HALVES_WORD 32u /* states in a word */

enum half_state {
    HALF_OPEN = 0,
    HALF_COMMITTED = 1,
    HALF_ROLLED_BACK = 2,
    HALF_SETTLED = 3, /* how is not known any more */
};

struct halves {
    _Alignas(SEGMENT_LINE) _Atomic uint64_t ready; /* 1: what earlier trees settled is here */
    _Atomic uint64_t floor;
    _Atomic uint64_t known; /* [Z1] release: the places of all offsets below it are theirs */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t words[HALVES_SPAN / HALVES_WORD];
};

/* Any process. */
enum half_state halves_state(const struct halves *halves, uint64_t offset);

/* The first offset in [from, end) whose half is not settled, or where no half is known yet; `end` if there is none. What it skips was settled,
 * and stays so; what it returns may be settled by now. */
uint64_t halves_next_open(const struct halves *halves, uint64_t from, uint64_t end);

/* How many halves in [from, end) are not settled, or not known yet; about, while the writer works. */
uint64_t halves_count_open(const struct halves *halves, uint64_t from, uint64_t end);

/* The writer's. */

/* At the start of a tree: all before `floor` are settled; there are halves up to `next`. */
void halves_begin(struct halves *halves, uint64_t floor, uint64_t next);
/* There are halves up to `next` now. */
void halves_extend(struct halves *halves, uint64_t next);
/* offset: below `known`. The first state stays. */
void halves_settle(struct halves *halves, uint64_t offset, enum half_state state);
/* least: the log has no half before it any more. */
void halves_raise_floor(struct halves *halves, uint64_t least);

#endif

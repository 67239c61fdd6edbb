/* Which messages clients of one group have popped, until when, and under which receipt. A receipt is the moment of the pop and the how
 * many-th delivery it is, so that of an earlier delivery fits no later one.
 */
#ifndef ORBITMQ_POP_LEASES_H
#define ORBITMQ_POP_LEASES_H

#include <stdbool.h>
#include <stdint.h>

#define POP_LEASES_MAX 16384u
#define POP_LEASE_NONE UINT32_MAX

struct pop_lease {
    uint64_t offset;   /* in the queue of this slot */
    uint64_t until_ms; /* CLOCK_MONOTONIC; 0: the entry is free */
    uint64_t held_ms;  /* until then the dispatcher leaves it with us, CLOCK_MONOTONIC */
    int64_t pop_ms;    /* as the client was told, CLOCK_REALTIME */
    uint64_t attempt;  /* a hash of the pop's name by which it may be asked again, or 0 */
    uint32_t slot, tries;
    uint32_t opening;  /* of the hand-out (shared/work_ring.h) */
    bool repeats;      /* that pop is asked again: the message goes back as one that was not delivered */
    uint32_t next;     /* of the same bucket, or free */
};

struct pop_leases {
    struct pop_lease *lease; /* `used` of `room` were ever used */
    uint32_t *bucket;        /* `room` of them */
    uint32_t count, used, room, free;
    uint64_t until_ms;       /* none ends before; UINT64_MAX: there is none */
};

void pop_leases_init(struct pop_leases *leases);
void pop_leases_free(struct pop_leases *leases);

/* A lease that the caller fills in, in place of one of the same message if there is one. NULL: no memory, or POP_LEASES_MAX. */
struct pop_lease *pop_leases_add(struct pop_leases *leases, uint32_t slot, uint64_t offset, uint64_t until_ms);
/* NULL: nobody has it. */
struct pop_lease *pop_leases_find(const struct pop_leases *leases, uint32_t slot, uint64_t offset);
void pop_leases_move(struct pop_leases *leases, struct pop_lease *lease, uint64_t until_ms);
void pop_leases_remove(struct pop_leases *leases, struct pop_lease *lease);

/* Every lease, one a call. *position begins at 0. NULL: no more. */
struct pop_lease *pop_leases_next(struct pop_leases *leases, uint32_t *position);

/* Takes the leases that have ended, one a call: *lease is a copy. *position begins at 0. False: no more. */
bool pop_leases_lapsed(struct pop_leases *leases, uint64_t now_ms, uint32_t *position, struct pop_lease *lease);

#endif

/* A lock over one word that names its holder, so that the death of a holder is not the death of the lock.
 *
 *   bit 0..31   holder's thread id, bit 31 of it set while somebody sleeps for the lock (the futex word)
 *   bit 32..63  low half of the holder thread's start time in clock ticks, which tells a reused id from the holder
 *   0           free
 *
 * A waiter spins briefly, then sleeps on the word. LOCK_STOLEN says that the holder had died: the caller then owns the lock, and must
 * complete or void what the dead holder left half done before it releases. Holder and waiters live in one pid namespace; sessions from
 * another are refused.
 *
 * There is no lock that only spins, and no pthread mutex: `scripts/bench 'lock_*'` measures both beside this one, and
 * docs/performance.md gives the numbers.
 */
#ifndef ORBITMQ_LOCK_H
#define ORBITMQ_LOCK_H

#include "shared/segment.h"

struct lock {
    _Alignas(SEGMENT_LINE) _Atomic uint64_t word;
};

enum lock_result { LOCK_TAKEN = 0, LOCK_STOLEN = 1, LOCK_TIMEOUT = 2, LOCK_SIGNAL = 3 };

/* What the calling thread writes into a lock word. Cached per thread; the cache is dropped after fork. */
uint64_t lock_self(void);

/* True when the thread that a word names no longer lives. */
bool lock_holder_dead(uint64_t word);

/* limit_ns 0 waits without limit, but still returns LOCK_SIGNAL when a signal interrupts a sleep. */
enum lock_result lock_acquire(struct lock *lock, uint64_t limit_ns);
void lock_release(struct lock *lock);

/* The word as it stands, for tests and for showing. */
uint64_t lock_word(const struct lock *lock);

#endif

/* The consumer's half of the pull hold: says once which queues it waits for, then sleeps until one has news.
 *
 * The notifier and reput ring the session's bell (notifier.c and reput.c draw the order). Whatever became of them, a sleep lasts at most
 * BELL_LIMIT_NS, and every WAITER_RECHECK_NS each queue is looked at and the wait ends with WAITER_RECHECK, so that its
 * owner looks at what has no bell (a topic with more queues). A lost ring costs lateness only.
 */
#ifndef ORBITMQ_WAITER_H
#define ORBITMQ_WAITER_H

#include "commit_words.h"
#include "pace.h"
#include "reader.h"

#define WAITER_RECHECK_NS UINT64_C(5000000000)
#define WAITER_LIFE_NS UINT64_C(100000000) /* between two looks whether the tree lives, of a consumer that never has to wait */
#define WAITER_NO_GROUP UINT32_MAX

enum waiter_result {
    WAITER_NEWS = 0,      /* the reader has something to look at; waiter_check: go on */
    WAITER_TIMEOUT = 1,
    WAITER_SIGNAL = 2,    /* let Python run its handlers, then wait again */
    WAITER_REBALANCE = 3, /* the group's epoch is not the one this member knows */
    WAITER_GONE = 4,      /* the tree is dead or stopping; waiter_check: dead or stopped */
    WAITER_RECHECK = 5,   /* 5 s without news */
    WAITER_INTERRUPTED = 6, /* waiter_interrupt */
};

struct waiter {
    struct session *session;       /* mapped read-write, ours alone */
    const struct control *control;
    struct wake *wake;             /* mapped read-write */
    struct session_shape shape;
    struct session_parts parts;
    int supervisor;                /* pidfd of the tree's supervisor, -1: not watched */
    uint32_t group;                /* whose epoch ends a wait, or WAITER_NO_GROUP */
    uint64_t epoch;
    struct commit_words *words;    /* mapped read-write, ours alone; NULL before the first join, and where it could not be mapped */
    struct pace pace;
    uint64_t rechecked_ns;         /* CLOCK_MONOTONIC of the last look at every queue */
    uint64_t called_ns;            /* what stands in the session's word of the last call */
    uint64_t lived_ns;             /* CLOCK_MONOTONIC_COARSE of the last look at the supervisor */
    _Atomic uint32_t interrupted;
};

void waiter_attach(struct waiter *waiter, struct session *session, const struct session_shape *shape,
                   const struct control *control, struct wake *wake, int supervisor);

/* The group and the epoch of the assignment that this member works with. */
void waiter_join(struct waiter *waiter, uint32_t group, uint64_t epoch);

/* Names the queues that the session waits for, and tells the notifier. False: more than the session has room for. */
bool waiter_interests(struct waiter *waiter, const uint32_t *slots, uint32_t count);

/* True while the group's epoch is the one given to waiter_join, and without a group. */
bool waiter_current(const struct waiter *waiter);

/* True when the tree has died or is stopping. */
bool waiter_gone(const struct waiter *waiter);

/* True when the tree has died or has stopped: nobody collects what is committed any more. A tree that is stopping still does. */
bool waiter_dead(const struct waiter *waiter);

/* Before every call and every message of an iteration: WAITER_NEWS to go on, WAITER_REBALANCE, or WAITER_GONE. Costs two loads and a
 * coarse clock, which it leaves in the session as the time of the last call; the supervisor is looked at once in WAITER_LIFE_NS, so that a consumer with a long backlog learns as soon as one that
 * waits that nobody stands behind it any more. */
enum waiter_result waiter_check(struct waiter *waiter);

/* Waits until the reader has something to look at. timeout_ns 0: only looks; UINT64_MAX: without limit. The reader's owner
 * lets nobody else touch it meanwhile. */
enum waiter_result waiter_wait(struct waiter *waiter, struct reader *reader, uint64_t timeout_ns);

/* Ends one wait with WAITER_INTERRUPTED: that of another thread, or else the next. */
void waiter_interrupt(struct waiter *waiter);

/* The file in which this member commits (commit_words.h), mapped, or NULL. Room for the session's queue_capacity. */
void waiter_give_words(struct waiter *waiter, struct commit_words *words);

/* Writes the offsets of interests 0 .. count - 1: stores, fences, then looks at the group's epoch and whether the words are closed.
 * False: one of them has moved, so the commit may not count. WAITER_NO_OFFSET leaves a word as it is. */
#define WAITER_NO_OFFSET UINT64_MAX
bool waiter_commit_all(struct waiter *waiter, const uint64_t *offsets, uint32_t count);

/* True when the broker has taken this member's words for the last time: the session or the tree has ended. */
bool waiter_closed(const struct waiter *waiter);

#endif

/* The consumer's half of the pull hold: names once the queues it waits for, then sleeps until one has news.
 *
 * The notifier and reput ring the session's bell (notifier.c and reput.c draw the order). Whatever happens to them, a sleep
 * lasts at most BELL_LIMIT_NS. Every PULL_HOLD_RECHECK_NS each queue is looked at and the wait ends with PULL_HOLD_RECHECK, so
 * that the owner looks at what has no bell (a topic with more queues). A lost ring only causes a delay.
 */
#ifndef ORBITMQ_PULL_HOLD_H
#define ORBITMQ_PULL_HOLD_H

#include "shared/commit_words.h"
#include "base/pace.h"
#include "client/reader.h"

#define PULL_HOLD_RECHECK_NS UINT64_C(5000000000)
#define PULL_HOLD_LIFE_NS UINT64_C(100000000) /* how often a consumer that never waits checks that the tree is alive */
#define PULL_HOLD_NO_GROUP UINT32_MAX

enum pull_hold_result {
    PULL_HOLD_NEWS = 0,      /* the reader has something to look at; pull_hold_check: continue */
    PULL_HOLD_TIMEOUT = 1,
    PULL_HOLD_SIGNAL = 2,    /* let Python run its handlers, then wait again */
    PULL_HOLD_REBALANCE = 3, /* the group's epoch is not the one that this member knows */
    PULL_HOLD_GONE = 4,      /* the tree is dead or stopping; pull_hold_check: dead or stopped */
    PULL_HOLD_RECHECK = 5,   /* 5 s without news */
    PULL_HOLD_INTERRUPTED = 6, /* pull_hold_interrupt */
};

struct pull_hold {
    struct session *session;       /* mapped read-write, ours alone */
    const struct control *control;
    struct wake *wake;             /* mapped read-write */
    struct session_shape shape;
    struct session_parts parts;
    int supervisor;                /* pidfd of the tree's supervisor, -1: not watched */
    uint32_t group;                /* whose epoch ends a wait, or PULL_HOLD_NO_GROUP */
    uint64_t epoch;
    struct commit_words *words;    /* mapped read-write, ours alone; NULL before the first join, and if unmappable */
    struct pace pace;
    uint64_t rechecked_ns;         /* CLOCK_MONOTONIC of the last look at every queue */
    uint64_t called_ns;            /* the value in the session's word of the last call */
    uint64_t lived_ns;             /* CLOCK_MONOTONIC_COARSE of the last look at the supervisor */
    _Atomic uint32_t interrupted;
};

void pull_hold_attach(struct pull_hold *hold, struct session *session, const struct session_shape *shape,
                   const struct control *control, struct wake *wake, int supervisor);

/* The group and the epoch of the assignment that this member works with. */
void pull_hold_join(struct pull_hold *hold, uint32_t group, uint64_t epoch);

/* Names the queues that the session waits for, and tells the notifier. False: more than the session has room for. */
bool pull_hold_interests(struct pull_hold *hold, const uint32_t *slots, uint32_t count);

/* True while the group's epoch is the one given to pull_hold_join, and without a group. */
bool pull_hold_current(const struct pull_hold *hold);

/* True when the tree has died or is stopping. */
bool pull_hold_gone(const struct pull_hold *hold);

/* True if the tree has died or has stopped: nobody collects commits any more. A tree that is stopping still does. */
bool pull_hold_dead(const struct pull_hold *hold);

/* Called before every call and every message of an iteration: PULL_HOLD_NEWS to continue, PULL_HOLD_REBALANCE, or
 * PULL_HOLD_GONE. Costs two loads and a coarse clock, which it writes into the session as the time of the last call. It looks
 * at the supervisor once in PULL_HOLD_LIFE_NS, so that a consumer with a long backlog learns of the broker's death as soon as
 * one that waits. */
enum pull_hold_result pull_hold_check(struct pull_hold *hold);

/* Waits until the reader has something to look at. timeout_ns 0: only looks; UINT64_MAX: without limit. The reader's owner lets
 * nobody else use the reader meanwhile. */
enum pull_hold_result pull_hold_wait(struct pull_hold *hold, struct reader *reader, uint64_t timeout_ns);

/* The same without a sleep: looks for at most limit_ns, PULL_HOLD_TIMEOUT then. Nothing is announced, so nobody spends time on waking
 * us. Between looks it yields to whoever else can run on this processor. */
enum pull_hold_result pull_hold_spin(struct pull_hold *hold, struct reader *reader, uint64_t limit_ns);

/* Ends one wait with PULL_HOLD_INTERRUPTED: that of another thread, or else the next one. */
void pull_hold_interrupt(struct pull_hold *hold);

/* The file in which this member commits (commit_words.h), mapped, or NULL. Room for the session's queue_capacity. */
void pull_hold_give_words(struct pull_hold *hold, struct commit_words *words);

/* Writes the offsets of interests 0 .. count - 1: stores, fences, then looks at the group's epoch and whether the words are
 * closed. False: one of them has moved, so the commit may not count. PULL_HOLD_NO_OFFSET leaves a word as it is. */
#define PULL_HOLD_NO_OFFSET UINT64_MAX
bool pull_hold_commit_all(struct pull_hold *hold, const uint64_t *offsets, uint32_t count);

/* True if the broker has taken this member's words for the last time: the session or the tree has ended. */
bool pull_hold_closed(const struct pull_hold *hold);

#endif

/* Messages that wait for a time of their own: which is due next, and which are done.
 *
 * They are the units of queue 0 of rmq_sys_wheel_timer, each with its due time (delay.h); nothing else is on disk. They are put into
 * the log in the order of (due time, queue offset), the key. So what is done is said by a few numbers (struct timer_progress, in
 * shared memory and in orbitmq/delayed): a message is done if its queue offset is below `known` and its key is at or below the
 * cursor, or if it is one of the extras. What has come since (from `known` on) with a key below the cursor is late, and goes first,
 * in the order of the queue.
 *
 * In memory is a heap of the next ones, TIMER_HEAP at most. What does not fit is left out, from a key on that is called the horizon;
 * when the heap runs low, the queue is read again, 20 bytes a message. So memory is bounded, and everything is found again by reading.
 *
 * A record behind a message in the queue may cancel it: then the message is not put into the heap, or is passed when it is the first
 * there. The client that sent that record is told once the record is below `known`: no successor puts messages before it has read so
 * far. Only the queue says so.
 *
 * Extras are messages that the log took while it refused one before them (a full disk). There are TIMER_PORTION at most, because
 * then one message at a time is put there until there are none.
 */
#ifndef ORBITMQ_TIMER_H
#define ORBITMQ_TIMER_H

#include "actors/scheduler/cancelled.h"
#include "format/consume_queue.h"
#include "shared/delay_record.h"
#include "shared/topics.h"

#define TIMER_HEAP (1u << 19)

struct timer_entry {
    uint64_t due_ms;
    uint64_t offset; /* in the queue */
    uint64_t physical_offset;
    uint32_t size;
    bool cancels; /* no message: it cancels the one at the queue offset that is in due_ms */
};

struct timer {
    const char *store;
    uint32_t file_units;
    struct consume_queue_reader units;
    struct consume_queue_reader targets; /* of records that cancel */
    struct cancelled cancelled;
    uint64_t cancels;           /* found since the queue was begun to be read: their messages keep log files until it is read again */
    uint64_t begun_ms;          /* CLOCK_MONOTONIC: when it was */
    struct delay_record *record;
    char folder[STORE_FOLDER_ROOM]; /* of the queue; empty: not known yet */
    struct timer_progress *progress;
    struct timer_entry *heap;
    uint32_t room;              /* TIMER_HEAP; less in tests */
    uint32_t most;              /* units read in one step; fewer in tests */
    uint32_t count;
    uint64_t read;              /* units below are looked at: in the heap, done, or beyond the horizon */
    uint64_t scanned;           /* how far it was read when it was last read again */
    uint64_t behind;            /* units below had come when a step could not read them all: they are read before the heap's first
                                   is taken, which may be due after one of them */
    struct timer_entry horizon; /* only its key; due_ms UINT64_MAX: everything is in the heap */
    /* The portion that is being put into the lane. Entries before `late` had come late, the rest come from the heap in their order. */
    struct timer_entry last;    /* of those from the heap */
    uint32_t taken;             /* entries of the portion, those included that can never be put */
    uint32_t put;               /* entries in the lane */
    struct timer_entry portion[TIMER_PORTION]; /* those */
    bool any_late;              /* of those that are taken */
    bool of_heap;               /* `last` counts */
    bool passed[TIMER_PORTION]; /* by extra: it is done with when the portion is */
    bool passes;                /* any of them */
};

/* False if memory is short. */
bool timer_open(struct timer *timer, const char *store, uint32_t file_units, struct timer_progress *progress, struct delay_record *record);
void timer_close(struct timer *timer);
void timer_unmap(struct timer *timer);

/* (due time, offset): which one comes first. */
static inline bool timer_before(uint64_t due_ms, uint64_t offset, uint64_t other_due_ms, uint64_t other_offset)
{
    return due_ms != other_due_ms ? due_ms < other_due_ms : offset < other_offset;
}

/* True if the key is at or below the cursor. */
static inline bool timer_reached(const struct timer_progress *progress, uint64_t due_ms, uint64_t offset)
{
    return !timer_before(progress->due_ms, progress->offset, due_ms, offset);
}

/* The unit at an offset below the queue's maximum; false: it cannot be read now. */
bool timer_unit(struct timer *timer, const struct topic_entry *topic, uint64_t offset, struct timer_entry *entry);

/* Units below `min`, which is above the floor, were removed: they do not wait. While no portion is being made. */
void timer_raise(struct timer *timer, uint64_t min);

/* Forgets what is in memory: the queue is read again. */
void timer_again(struct timer *timer);

/* Reads units up to `max`, timer->most at most. It stops at one that came late. Returns that: entry is its, and timer_take passes it. */
enum timer_look { TIMER_READ = 0, TIMER_LATE = 1, TIMER_MORE = 2 };
enum timer_look timer_read(struct timer *timer, const struct topic_entry *topic, uint64_t max, struct timer_entry *late);

/* The first of the heap that is neither extra nor cancelled; NULL: there is none, or the queue has not been read as far as it must. */
const struct timer_entry *timer_first(struct timer *timer);

/* An entry goes into the portion: the late one, or the first of the heap. in_lane: else it can never be put anywhere. */
void timer_take(struct timer *timer, const struct timer_entry *entry, bool late, bool in_lane);

/* True if the portion takes no more. Extras that are passed are counted first: so there are never more. */
static inline bool timer_full(const struct timer *timer)
{
    return timer->passes || timer->put >= (timer->progress->extra_count ? 1 : TIMER_PORTION / 2) || timer->taken >= TIMER_PORTION ||
           timer->progress->extra_count == TIMER_PORTION;
}

/* All of the portion is in the log, or can never be. Returns true if that changes the progress. */
bool timer_advance(struct timer *timer);

/* Nothing of a portion is in the log: its entries are in the heap again, as if it had not been made. False: those are not all that was
 * taken, or some came late; the queue is to be read again. */
bool timer_put_back(struct timer *timer);

/* Some of a portion are in the log, others are not, or nobody knows any more which they were: each that is becomes an extra, and
 * then everything is read again. */
void timer_add_extra(struct timer_progress *progress, uint64_t offset);

/* The queue is to be read again, because the heap runs low or most of what was read is done; best while nothing is due. */
bool timer_low(const struct timer *timer);

#endif

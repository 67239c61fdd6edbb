/* One page a process: who it is, whether it moves, what it did. Its owner writes, and any process reads while it runs. Every
 * word is relaxed, because a reader wants a fresh number and not a consistent set.
 */
#ifndef ORBITMQ_COUNTERS_H
#define ORBITMQ_COUNTERS_H

#include "shared/segment.h"

#define COUNTERS 24u
#define REFUSALS 32u /* more than there are verdicts (verdict.h) */
#define HISTOGRAM_SUB_BITS 3u                    /* 8 buckets to each power of two: values are kept within 12.5 % */
#define HISTOGRAM_BUCKETS ((40u + 1u) << HISTOGRAM_SUB_BITS)

enum actor_state {
    ACTOR_ABSENT = 0,
    ACTOR_STARTING = 1,
    ACTOR_RECOVERING = 2,
    ACTOR_RUNNING = 3,
    ACTOR_STOPPING = 4,
    ACTOR_STOPPED = 5,
    ACTOR_FAILED = 6,
};

/* The index of each counter, the same for every actor; counters that an actor does not use stay 0. */
enum counter {
    COUNT_STEPS = 0,       /* bounded steps that found work */
    COUNT_SLEEPS = 1,
    COUNT_MESSAGES = 2,
    COUNT_BYTES = 3,
    COUNT_REJECTED = 4,    /* messages answered with an error */
    COUNT_WAKES = 5,       /* system calls that woke somebody */
    COUNT_FULL = 6,        /* times the next stage had no room */
    COUNT_SYNCS = 7,       /* fdatasync calls */
    COUNT_INDEXED = 8,     /* IndexFile entries */
    COUNT_BLANKS = 9,      /* CommitLog files ended */
    COUNT_DIRTY = 10,      /* dirty queues handed to the notifier */
    COUNT_SESSIONS = 11,   /* sessions attached now */
    COUNT_FAULTS = 12,     /* sessions given up for what they wrote */
    COUNT_REDELIVERED = 13, /* verdicts delivered again after a predecessor's death */
    COUNT_DUPLICATES = 14, /* messages that were stored before, under the same id */
    COUNT_IDS = 15,        /* ids remembered now */
    COUNT_PASSED = 16      /* requests and answers of clients that a gateway has passed on to the first one */
};

struct histogram {
    _Atomic uint64_t bucket[HISTOGRAM_BUCKETS];
};

struct actor_page {
    _Alignas(SEGMENT_LINE) char name[24]; /* NUL-terminated */
    _Atomic uint32_t pid;
    _Atomic uint32_t epoch;   /* which life of this actor, from 1; the supervisor raises it */
    _Atomic uint32_t state;   /* enum actor_state */
    _Atomic uint32_t error;   /* errno behind ACTOR_FAILED, or 0 */
    _Atomic uint64_t heartbeat_ms; /* CLOCK_MONOTONIC of its last look */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t counter[COUNTERS];
    _Alignas(SEGMENT_LINE) _Atomic uint64_t refused[REFUSALS]; /* writer: messages answered with an error, by enum verdict */
    _Alignas(SEGMENT_LINE) struct histogram histogram; /* writer: messages a write group; flush: microseconds a sync; ... */
};

static inline void count(struct actor_page *page, enum counter which, uint64_t n)
{
    /* single writer: a plain add, made of relaxed halves so that a reader never sees half a word */
    uint64_t old = atomic_load_explicit(&page->counter[which], memory_order_relaxed);
    atomic_store_explicit(&page->counter[which], old + n, memory_order_relaxed);
}

static inline void count_refused(struct actor_page *page, uint32_t verdict, uint64_t n)
{
    /* relaxed: as in count() */
    uint64_t old = atomic_load_explicit(&page->refused[verdict], memory_order_relaxed);
    atomic_store_explicit(&page->refused[verdict], old + n, memory_order_relaxed);
}

uint32_t histogram_index(uint64_t value);
uint64_t histogram_lowest(uint32_t index); /* smallest value of a bucket; the last bucket takes everything above it too */
void histogram_record(struct histogram *histogram, uint64_t value);

/* The largest value of the bucket in which the q-th part of the values ends, 0 <= q <= 1; 0 when there are none. */
uint64_t histogram_quantile(const struct histogram *histogram, double q);
uint64_t histogram_count(const struct histogram *histogram);

/* A page copied out word by word, for readers that know no atomics. */
struct actor_view {
    char name[24];
    uint32_t pid;
    uint32_t epoch;
    uint32_t state;
    uint32_t error;
    uint64_t heartbeat_ms;
    uint64_t counter[COUNTERS];
};
void actor_page_view(const struct actor_page *page, struct actor_view *view);
uint64_t actor_page_quantile(const struct actor_page *page, double q);
uint64_t actor_page_samples(const struct actor_page *page);
void actor_page_buckets(const struct actor_page *page, uint64_t *counts); /* HISTOGRAM_BUCKETS of them */

void actor_page_refused(const struct actor_page *page, uint64_t *counts); /* REFUSALS of them */

/* For owners in Python: adds to a counter; records a value. */
void actor_page_add(struct actor_page *page, enum counter which, uint64_t n);
void actor_page_record(struct actor_page *page, uint64_t value);
uint64_t actor_page_size(void);

#endif

/* The state of a work queue: one file for each (group, queue), orbitmq/workers/<group>/<topic>.<queue>. Only the dispatcher maps it.
 *
 *   | header, WORK_WORDS_AT bytes | WORK_WINDOW words of 8 bytes |
 *
 * All messages below `floor` are done. No message from `frontier` on was handed out yet. Each message between has the word at
 * offset % WORK_WINDOW:
 *
 *   bit 0    3 bits   state, enum work_state
 *   bit 3    9 bits   how often it was handed out; stays at the largest value
 *   bit 12  10 bits   session that has it or had it last: slot ...
 *   bit 22  16 bits   ... and the low bits of its epoch
 *   bit 38  26 bits   when it is free again, in ticks of CLOCK_MONOTONIC, modulo 2^26: of a message in hand or that waits.
 *                     WORK_ELSEWHERE: of one that is done because it was put elsewhere, and not because somebody acknowledged it
 *
 * A change of state is one store of a word, so whatever is killed, a successor reads the state as it stands. Words outside floor to
 * frontier are 0. `frontier` is raised before the words are stored, and `floor` before its words become 0; a successor makes the
 * words outside 0 first. Native byte order: after another boot of the machine nothing here counts, because no part of it was synced.
 */
#ifndef ORBITMQ_WORK_FILE_H
#define ORBITMQ_WORK_FILE_H

#include "shared/segment.h"
#include <string.h>

#define WORK_MAGIC UINT64_C(0x326b726f7774696f) /* "oitwork2" */
#define WORK_WINDOW 65536u
#define WORK_WORDS_AT 4096u
#define WORK_TICK_MS 10u
#define WORK_TICKS (1u << 26)
#define WORK_WAIT_MS_MAX (UINT64_C(12) * 3600 * 1000) /* far below half of WORK_TICKS, so a later time is told from a past one */
#define WORK_TRIES_MAX 511u

/* WORK_PARTING: it is to be put into the log elsewhere, as a retry or a dead letter, and is done once it is there (dispatcher_put.c) */
enum work_state { WORK_FREE = 0, WORK_HELD = 1, WORK_WAITING = 2, WORK_DONE = 3, WORK_PARTING = 4 };

#define WORK_ELSEWHERE 1u

struct work_file {
    uint64_t magic;      /* 0: the coordinator has made it, and the dispatcher has not used it yet */
    uint64_t opening;    /* the queue's opening (store/work/plan.py) for which the dispatcher made it fit; or, while magic is 0, is to */
    uint64_t generation; /* of the tree whose sessions have what is in hand */
    uint8_t boot[16];
    _Alignas(SEGMENT_LINE) _Atomic uint64_t floor;
    _Atomic uint64_t frontier;
    /* the coordinator's, by system call: the floor that consumerOffset.json has had for certain (store/work/files.py) */
    _Alignas(SEGMENT_LINE) uint64_t told;
};
static_assert(sizeof(struct work_file) <= WORK_WORDS_AT, "the header has a page of its own");
#define WORK_FILE_SIZE (WORK_WORDS_AT + (uint64_t)WORK_WINDOW * sizeof(uint64_t))

/* For Python, of a copy of the header; work_file_set for tests. relaxed: nobody else has it */
static inline uint64_t work_file_floor(const struct work_file *file)
{
    return atomic_load_explicit(&file->floor, memory_order_relaxed);
}
static inline void work_file_set(struct work_file *file, uint64_t floor, uint64_t frontier)
{
    atomic_store_explicit(&file->floor, floor, memory_order_relaxed);
    atomic_store_explicit(&file->frontier, frontier, memory_order_relaxed);
}
static inline uint64_t work_file_frontier(const struct work_file *file)
{
    return atomic_load_explicit(&file->frontier, memory_order_relaxed);
}

static inline enum work_state work_state_of(uint64_t word) { return (enum work_state)(word & 7); }
static inline uint32_t work_tries(uint64_t word) { return word >> 3 & 0x1ff; }
static inline uint32_t work_slot(uint64_t word) { return word >> 12 & 0x3ff; }
static inline uint32_t work_epoch(uint64_t word) { return word >> 22 & 0xffff; }
static inline uint32_t work_tick(uint64_t word) { return (uint32_t)(word >> 38); }

static inline uint64_t work_word(enum work_state state, uint32_t tries, uint32_t slot, uint32_t epoch, uint32_t tick)
{
    return (uint64_t)state | (uint64_t)tries << 3 | (uint64_t)(slot & 0x3ff) << 12 | (uint64_t)(epoch & 0xffff) << 22 |
           (uint64_t)(tick & (WORK_TICKS - 1)) << 38;
}

/* For Python, of a copy of a whole file. */
static inline enum work_state work_file_state(const void *bytes, uint64_t offset)
{
    uint64_t word;
    memcpy(&word, (const uint8_t *)bytes + WORK_WORDS_AT + offset % WORK_WINDOW * sizeof word, sizeof word);
    return work_state_of(word);
}

/* The first message that is not done. The dispatcher raises the floor some time after the last word below says so. */
static inline uint64_t work_file_reached(const void *bytes)
{
    const struct work_file *file = bytes;
    uint64_t at = work_file_floor(file);
    for (uint32_t i = 0; at < work_file_frontier(file) && i < WORK_WINDOW && work_file_state(bytes, at) == WORK_DONE; i++)
        at++;
    return at;
}

/* True if a worker has one of the messages, or one is to be put elsewhere. */
static inline bool work_file_unsettled(const void *bytes)
{
    const struct work_file *file = bytes;
    for (uint64_t at = work_file_floor(file), i = 0; at < work_file_frontier(file) && i < WORK_WINDOW; at++, i++)
        if (work_file_state(bytes, at) == WORK_PARTING || work_file_state(bytes, at) == WORK_HELD)
            return true;
    return false;
}

/* The first tick that has not begun before this moment. */
static inline uint32_t work_tick_at(uint64_t ms) { return (uint32_t)(ms / WORK_TICK_MS + 1) & (WORK_TICKS - 1); }

/* Milliseconds until a tick; 0: it has begun, or lies so far ahead that no message waits for it. */
static inline uint64_t work_left_ms(uint32_t tick, uint64_t now_ms)
{
    const uint32_t left = (tick - (uint32_t)(now_ms / WORK_TICK_MS)) & (WORK_TICKS - 1);
    return left <= WORK_WAIT_MS_MAX / WORK_TICK_MS + 1 ? (uint64_t)left * WORK_TICK_MS : 0;
}

#endif

/* What the words of a queue say, for who looks after a group: of a copy, which was read while the dispatcher went on. So each word is as
 * it was at some moment of the reading, and the sums need not be those of one moment. */
#ifndef ORBITMQ_WORK_VIEW_H
#define ORBITMQ_WORK_VIEW_H

#include "shared/work_file.h"

struct work_view {
    uint64_t free, held, waiting, parting, done; /* messages */
    uint64_t wait_ms;                            /* until the first of those that wait is free; UINT64_MAX: none waits */
    uint64_t first;                              /* the first that is not done; the frontier if there is none */
    uint64_t first_left_ms;                      /* until it is taken from its worker, or free again */
    uint32_t first_state, first_tries, first_slot, first_epoch;
};

/* What one worker has in hand, over all queues that are counted with the same array; the caller sets slot and epoch. */
struct work_hands {
    uint32_t slot, epoch;
    uint64_t held;
    uint64_t left_ms; /* until the first of these is taken from it; UINT64_MAX: it has none */
};

/* file: a copy of WORK_FILE_SIZE bytes, aligned like a word. frontier - floor is at most WORK_WINDOW. hands: of `workers` workers, sorted by slot. */
void work_view(const uint8_t *file, uint64_t floor, uint64_t frontier, uint64_t now_ms, struct work_view *view, struct work_hands *hands,
               uint32_t workers);

/* A word, for tests. */
uint64_t work_view_word(uint32_t state, uint32_t tries, uint32_t slot, uint32_t epoch, uint32_t tick);

#endif

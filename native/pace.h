/* How long whoever ran out of work stays awake before it sleeps: as long as work has been coming back soon.
 *
 * A sleep and its wake-up cost the sleeper 20 us of lateness and the waker 5 us of its time. At a thousand messages a second that
 * is nothing; at a hundred thousand, with five stages, it is more than two processors have. So each stage keeps the mean of its
 * recent idle gaps. While they are short it lingers, and gives the processor away between looks, so that on a small
 * machine the other stages run meanwhile; once they are long it sleeps at once.
 */
#ifndef ORBITMQ_PACE_H
#define ORBITMQ_PACE_H

#include "clock.h"
#include <sched.h>
#include <stdbool.h>

#define PACE_SHORT_NS 40000u   /* mean gap below which lingering pays: both halves of a wake-up, and some */
#define PACE_LINGER_NS 60000u  /* the longest stay; the gap that ends it counts as long */
#define PACE_LONG_NS 1000000u  /* longer gaps count as this one */

struct pace {
    uint64_t idle_from; /* CLOCK_MONOTONIC ns since when there has been no work; 0: there is */
    uint64_t gap_ns;    /* mean of recent idle gaps */
};

static inline struct pace pace_start(void) { return (struct pace){.idle_from = 0, .gap_ns = PACE_LONG_NS}; }

/* Work was found. */
static inline void pace_work(struct pace *pace)
{
    if (!pace->idle_from)
        return;
    const uint64_t gap = clock_ns() - pace->idle_from;
    pace->gap_ns = (pace->gap_ns * 7 + (gap < PACE_LONG_NS ? gap : PACE_LONG_NS)) / 8;
    pace->idle_from = 0;
}

/* No work was found. True: look again; the processor was given away once. False: sleep. spin_ns: stay awake that long in any case. */
static inline bool pace_linger(struct pace *pace, uint64_t spin_ns)
{
    const uint64_t now = clock_ns();
    if (!pace->idle_from)
        pace->idle_from = now;
    uint64_t stay = pace->gap_ns < PACE_SHORT_NS ? PACE_LINGER_NS : 0;
    if (stay < spin_ns)
        stay = spin_ns;
    if (now - pace->idle_from >= stay)
        return false;
    sched_yield();
    return true;
}

#endif

/* How a process rests when it has run out of work: the amount of work and the gaps between decide, not a setting.
 *
 * A sleep behind a bell and its wake-up cost the sleeper 20 us of delay and the waker 5 us of its time. At a thousand messages
 * a second that is nothing; with five stages on two processors it is more than there is. So each stage keeps two means:
 *
 *   gap_ns  of its recent idle gaps. While they are short it lingers: it yields the processor between looks and stays
 *           runnable. That suits many small pieces of work, such as 100,000 single messages a second.
 *   load    of the messages in its recent steps. While steps are large it naps: it sleeps for a fixed time without an
 *           announcement, so nobody has to wake it, and finds more work the next time. That suits streams. Lingering would
 *           be wrong there: a processor that yields all the time looks busy, and the kernel moves no work to it.
 *           A stage also naps while many senders wait for the disk: all of them come back at once, one by one.
 *
 * Otherwise it sleeps at once, and is rung when there is work.
 */
#ifndef ORBITMQ_PACE_H
#define ORBITMQ_PACE_H

#include "base/clock.h"
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>

#define PACE_SHORT_NS 40000u   /* mean gap below which lingering pays: both halves of a wake-up, and a bit more */
#define PACE_LINGER_NS 60000u  /* longest stay; the gap that ends it counts as this long */
#define PACE_LONG_NS 1000000u  /* longer gaps count as this one */
#define PACE_STREAM 64u        /* mean messages a step from which on work counts as a stream: 0.1 us of wake-up for each */
#define PACE_NAP_NS 50000      /* to which the kernel adds its timer slack of 50 us */

struct pace {
    uint64_t idle_from; /* CLOCK_MONOTONIC ns since when there has been no work; 0: there is */
    uint64_t gap_ns;    /* mean of recent idle gaps */
    uint32_t load;      /* 8 times the mean of messages in recent steps */
    bool napped;        /* in this gap */
};

enum pace_rest { PACE_LOOK, PACE_SLEEP, PACE_SIGNAL };

static inline struct pace pace_start(void) { return (struct pace){.gap_ns = PACE_LONG_NS}; }

/* Work was found and done. */
static inline void pace_work(struct pace *pace, uint32_t messages)
{
    pace->load += messages - pace->load / 8;
    pace->napped = false;
    if (!pace->idle_from)
        return;
    const uint64_t gap = clock_ns() - pace->idle_from;
    pace->gap_ns = (pace->gap_ns * 7 + (gap < PACE_LONG_NS ? gap : PACE_LONG_NS)) / 8;
    pace->idle_from = 0;
}

/* No work was found. PACE_LOOK: look again, we have rested a little. PACE_SLEEP: announce, and sleep until rung. PACE_SIGNAL: a
 * signal has come, which Python must handle. spin_ns: stay awake that long in any case. crowded: many wait for the disk
 * together; nap, and then sleep. */
static inline enum pace_rest pace_idle(struct pace *pace, uint64_t spin_ns, bool crowded)
{
    const uint64_t now = clock_ns();
    if (!pace->idle_from)
        pace->idle_from = now;
    if ((pace->load >= 8 * PACE_STREAM || crowded) && !pace->napped) {
        pace->napped = true;
        const struct timespec nap = {.tv_nsec = PACE_NAP_NS};
        return clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL) == EINTR ? PACE_SIGNAL : PACE_LOOK;
    }
    uint64_t stay = pace->gap_ns < PACE_SHORT_NS && !crowded ? PACE_LINGER_NS : 0;
    if (stay < spin_ns)
        stay = spin_ns;
    if (now - pace->idle_from >= stay)
        return PACE_SLEEP;
    sched_yield();
    return PACE_LOOK;
}

#endif

/* The machine's two clocks. */
#ifndef ORBITMQ_CLOCK_H
#define ORBITMQ_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* CLOCK_MONOTONIC: for waits, ages and rates. */
static inline uint64_t clock_ns(void) { return clock_read_ns(CLOCK_MONOTONIC); }
static inline uint64_t clock_ms(void) { return clock_ns() / 1000000u; }

/* CLOCK_MONOTONIC as of the kernel's last tick, up to 10 ms ago; a quarter of the price, for looks at each message. */
static inline uint64_t clock_coarse_ns(void) { return clock_read_ns(CLOCK_MONOTONIC_COARSE); }

/* CLOCK_REALTIME, milliseconds since 1970: for timestamps in records. */
static inline uint64_t clock_real_ms(void) { return clock_read_ns(CLOCK_REALTIME) / 1000000u; }

#endif

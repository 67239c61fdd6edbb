/* Hints to the processor itself. */
#ifndef ORBITMQ_CPU_H
#define ORBITMQ_CPU_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Between two looks of a spin: leaves the core's other thread, and the cache line that is looked at, alone for a moment. */
static inline void cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}

/* True if this process may run on more than one processor. Spinning helps only then: what it waits for must be computed meanwhile.
 * Read once; a later change costs only speed. */
static inline bool cpu_several(void)
{
    static _Atomic int processors;
    /* relaxed: a thread that reads 0 computes the same number again */
    int n = atomic_load_explicit(&processors, memory_order_relaxed);
    if (n == 0) {
        cpu_set_t set;
        n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
        atomic_store_explicit(&processors, n, memory_order_relaxed);
    }
    return n > 1;
}

#endif

/* Hints to the processor itself. */
#ifndef ORBITMQ_CPU_H
#define ORBITMQ_CPU_H

/* Between two looks of a spin: leaves the core's other thread, and the cache line that is looked at, alone for a moment. */
static inline void cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}

#endif

/* What the drivers share. They run the lock-free parts in threads, so that the sanitizers can watch both sides, and end with 0
 * or abort. Threads instead of processes, because the thread sanitizer sees one address space only. */
#ifndef ORBITMQ_DRIVE_H
#define ORBITMQ_DRIVE_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);       \
            abort();                                                                            \
        }                                                                                       \
    } while (0)

static inline pthread_t drive_start(void *(*work)(void *), void *with)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, with) == 0);
    return thread;
}

static inline void drive_join(pthread_t thread) { CHECK(pthread_join(thread, NULL) == 0); }

/* Zeroed and aligned to a cache line; of exactly this size, so that the address sanitizer notices an access one byte beyond
 * it. */
static inline void *drive_memory(size_t size)
{
    unsigned char *memory = aligned_alloc(64, (size + 63) / 64 * 64);
    CHECK(memory != NULL);
    for (size_t i = 0; i < size; i++)
        memory[i] = 0;
    return memory;
}

/* xorshift64*: the same numbers in every run for the same seed. */
static inline uint64_t drive_random(uint64_t *seed)
{
    *seed ^= *seed >> 12;
    *seed ^= *seed << 25;
    *seed ^= *seed >> 27;
    return *seed * UINT64_C(2685821657736338717);
}

#endif

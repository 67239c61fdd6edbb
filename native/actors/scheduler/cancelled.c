#include "actors/scheduler/cancelled.h"

#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES (CANCELLED_SPAN / 8)

enum cancelled_result cancelled_set(struct cancelled *cancelled, uint64_t offset)
{
    if (offset - cancelled->base >= CANCELLED_SPAN)
        return CANCELLED_FAR;
    if (!cancelled->words) {
        void *words = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (words == MAP_FAILED)
            return CANCELLED_SHORT;
        cancelled->words = words;
    }
    const uint64_t at = offset % CANCELLED_SPAN;
    cancelled->words[at / 64] |= UINT64_C(1) << (at % 64);
    return CANCELLED_SET;
}

void cancelled_close(struct cancelled *cancelled)
{
    if (cancelled->words)
        munmap(cancelled->words, BYTES);
    *cancelled = (struct cancelled){0};
}

/* Bits [from, to), which do not wrap: whole pages are given back. */
static void clear(uint64_t *words, uint64_t from, uint64_t to)
{
    const uint64_t page_bits = 8 * (uint64_t)sysconf(_SC_PAGESIZE);
    while (from < to) {
        const uint64_t whole = (to - from) / page_bits * page_bits;
        if (from % page_bits == 0 && whole && madvise((uint8_t *)words + from / 8, whole / 8, MADV_DONTNEED) == 0) {
            from += whole;
        } else if (from % 64 == 0 && to - from >= 64) {
            if (words[from / 64])
                words[from / 64] = 0;
            from += 64;
        } else {
            if (words[from / 64] >> (from % 64) & 1)
                words[from / 64] &= ~(UINT64_C(1) << (from % 64));
            from++;
        }
    }
}

void cancelled_raise(struct cancelled *cancelled, uint64_t base)
{
    if (base <= cancelled->base)
        return;
    const uint64_t gone = base - cancelled->base, from = cancelled->base % CANCELLED_SPAN;
    cancelled->base = base;
    if (!cancelled->words)
        return;
    if (gone >= CANCELLED_SPAN) {
        clear(cancelled->words, 0, CANCELLED_SPAN);
        return;
    }
    const uint64_t left = CANCELLED_SPAN - from;
    clear(cancelled->words, from, from + (gone < left ? gone : left));
    if (gone > left)
        clear(cancelled->words, 0, gone - left);
}

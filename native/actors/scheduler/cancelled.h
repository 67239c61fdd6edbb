/* Which messages with a time were cancelled: a bit for each queue offset, of the last CANCELLED_SPAN from the first one that may still
 * wait. Memory is taken a page at a time, as bits are set. It is found again by reading the queue (timer.c).
 */
#ifndef ORBITMQ_CANCELLED_H
#define ORBITMQ_CANCELLED_H

#include <stdbool.h>
#include <stdint.h>

#define CANCELLED_SPAN (UINT64_C(1) << 27) /* 16 MiB, if every page has a bit */

struct cancelled {
    uint64_t *words; /* NULL: none was ever set */
    uint64_t base;   /* offsets before are forgotten */
};

enum cancelled_result {
    CANCELLED_SET = 0,
    CANCELLED_FAR = 1,   /* too far from base */
    CANCELLED_SHORT = 2, /* no memory now */
};
enum cancelled_result cancelled_set(struct cancelled *cancelled, uint64_t offset);
void cancelled_close(struct cancelled *cancelled);

/* Forgets all before this offset. */
void cancelled_raise(struct cancelled *cancelled, uint64_t base);

static inline bool cancelled_has(const struct cancelled *cancelled, uint64_t offset)
{
    const uint64_t at = offset % CANCELLED_SPAN;
    return __builtin_expect(cancelled->words != 0, 0) && offset - cancelled->base < CANCELLED_SPAN &&
           (cancelled->words[at / 64] >> (at % 64) & 1);
}

#endif

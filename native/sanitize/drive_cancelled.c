/* The bits of messages that were cancelled, whose ring goes round many times, compared with a list of what was set. */
#include "drive.h"
#include "actors/scheduler/cancelled.h"

#define ROUNDS 2000u
#define SETS 16u
#define LISTED 50000u

static uint64_t seed = 20261123, set[LISTED];

static uint64_t below(uint64_t limit) { return drive_random(&seed) % limit; }

/* From the base on: anywhere, near it, or near the furthest that there is a bit for, and beyond. */
static uint64_t somewhere(void)
{
    switch (below(4)) {
    case 0:
        return below(100000);
    case 1:
        return CANCELLED_SPAN - 500 + below(505);
    default:
        return below(CANCELLED_SPAN);
    }
}

static uint64_t further(void)
{
    switch (below(5)) {
    case 0:
        return below(200);
    case 1:
        return 64 * below(100);
    case 2:
        return 32768 * below(20); /* pages */
    case 3:
        return below(CANCELLED_SPAN);
    default:
        return below(20) ? below(100000) : CANCELLED_SPAN - 2 + below(5);
    }
}

static uint64_t bits(const struct cancelled *cancelled)
{
    uint64_t found = 0;
    for (uint64_t word = 0; word < CANCELLED_SPAN / 64; word++)
        found += (uint64_t)__builtin_popcountll(cancelled->words[word]);
    return found;
}

int main(void)
{
    struct cancelled cancelled = {0};
    uint64_t base = 0;
    uint32_t count = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t n = 0; n < SETS; n++) {
            const uint64_t offset = base + somewhere();
            const bool had = cancelled_has(&cancelled, offset);
            const enum cancelled_result result = cancelled_set(&cancelled, offset);
            CHECK(result == (offset - base < CANCELLED_SPAN ? CANCELLED_SET : CANCELLED_FAR));
            if (result == CANCELLED_SET && !had) {
                CHECK(count < LISTED);
                set[count++] = offset;
            }
        }
        base += further();
        cancelled_raise(&cancelled, base);
        cancelled_raise(&cancelled, base / 2); /* never back */
        uint32_t left = 0;
        for (uint32_t n = 0; n < count; n++) {
            CHECK(cancelled_has(&cancelled, set[n]) == (set[n] >= base));
            if (set[n] >= base)
                set[left++] = set[n];
        }
        count = left;
        if (round % 50 == 0)
            CHECK(bits(&cancelled) == count);
    }
    cancelled_close(&cancelled);
    CHECK(!cancelled_has(&cancelled, base));
    return 0;
}

#include "shared/halves.h"

#include "base/crash_point.h"

static _Atomic uint64_t *word_of(struct halves *halves, uint64_t offset)
{
    return &halves->words[offset % HALVES_SPAN / HALVES_WORD];
}

static uint32_t shift_of(uint64_t offset) { return 2 * (uint32_t)(offset % HALVES_WORD); }

enum half_state halves_state(const struct halves *halves, uint64_t offset)
{
    /* acquire: the places below it were cleared before. Pairs with halves_extend [Z1]. */
    const uint64_t known = atomic_load_explicit(&halves->known, memory_order_acquire);
    /* relaxed, both: each says by itself that a half is settled, and neither is ever wrong about that */
    const uint64_t floor = atomic_load_explicit(&halves->floor, memory_order_relaxed);
    if (offset >= known)
        return offset < floor ? HALF_SETTLED : HALF_OPEN;
    if (known - offset > HALVES_SPAN)
        return HALF_SETTLED;
    const uint64_t word = atomic_load_explicit(word_of((struct halves *)halves, offset), memory_order_relaxed);
    const enum half_state state = word >> shift_of(offset) & 3;
    return state == HALF_OPEN && offset < floor ? HALF_SETTLED : state;
}

uint64_t halves_next_open(const struct halves *halves, uint64_t from, uint64_t end)
{
    const uint64_t known = atomic_load_explicit(&halves->known, memory_order_acquire); /* as in halves_state [Z1] */
    const uint64_t floor = atomic_load_explicit(&halves->floor, memory_order_relaxed); /* likewise */
    const uint64_t last = end < known ? end : known; /* from here on, all are open */
    uint64_t at = from > floor ? from : floor;
    if (known > HALVES_SPAN && at < known - HALVES_SPAN)
        at = known - HALVES_SPAN;
    while (at < last) {
        const uint64_t word = atomic_load_explicit(word_of((struct halves *)halves, at), memory_order_relaxed); /* likewise */
        const uint64_t open = ~(word | word >> 1) & UINT64_C(0x5555555555555555) << shift_of(at);
        at += (open ? (uint64_t)__builtin_ctzll(open) / 2 : HALVES_WORD) - at % HALVES_WORD;
        if (at > last) /* what follows in its word is of other offsets */
            at = last;
        if (open)
            break;
    }
    return at < end ? at : end;
}

uint64_t halves_count_open(const struct halves *halves, uint64_t from, uint64_t end)
{
    uint64_t count = 0;
    for (uint64_t at = halves_next_open(halves, from, end); at < end; at = halves_next_open(halves, at, end)) {
        uint64_t run = 1; /* a word's at once where the whole word is open */
        if (at % HALVES_WORD == 0 && end - at >= HALVES_WORD) {
            const uint64_t known = atomic_load_explicit(&halves->known, memory_order_acquire); /* as in halves_state [Z1] */
            const uint64_t word = atomic_load_explicit(word_of((struct halves *)halves, at), memory_order_relaxed); /* likewise */
            if (at >= known || (!word && known - at >= HALVES_WORD))
                run = HALVES_WORD;
        }
        count += run;
        at += run;
    }
    return count;
}

void halves_begin(struct halves *halves, uint64_t floor, uint64_t next)
{
    if (next - floor > HALVES_SPAN) /* of more than there are places for, the oldest count as settled */
        floor = next - HALVES_SPAN;
    /* relaxed, all: nobody else looks before the writer is ready */
    atomic_store_explicit(&halves->floor, floor, memory_order_relaxed);
    /* Of a fresh control block all places are clear, and to look at them would give memory to each page of them. */
    const bool fresh = atomic_load_explicit(&halves->known, memory_order_relaxed) == 0;
    for (uint64_t i = 0; !fresh && i < HALVES_SPAN / HALVES_WORD; i++)
        if (atomic_load_explicit(&halves->words[i], memory_order_relaxed))
            atomic_store_explicit(&halves->words[i], 0, memory_order_relaxed);
    atomic_store_explicit(&halves->known, next, memory_order_release); /* as in halves_extend [Z1] */
}

void halves_extend(struct halves *halves, uint64_t next)
{
    /* relaxed: only we write it */
    uint64_t at = atomic_load_explicit(&halves->known, memory_order_relaxed);
    if (at >= next)
        return;
    while (at < next) {
        const uint64_t left = HALVES_WORD - at % HALVES_WORD, count = left < next - at ? left : next - at;
        const uint64_t mask = (count == HALVES_WORD ? UINT64_MAX : (UINT64_C(1) << 2 * count) - 1) << shift_of(at);
        _Atomic uint64_t *word = word_of(halves, at);
        const uint64_t before = atomic_load_explicit(word, memory_order_relaxed);
        if (before & mask)
            atomic_store_explicit(word, before & ~mask, memory_order_relaxed);
        at += count;
    }
    CRASH_POINT("halves_cleared");
    /* release: the cleared places before the offset that makes them valid. Pairs with halves_state [Z1]. */
    atomic_store_explicit(&halves->known, next, memory_order_release);
}

void halves_settle(struct halves *halves, uint64_t offset, enum half_state state)
{
    _Atomic uint64_t *word = word_of(halves, offset);
    /* relaxed, both: only we write it, and it says all by itself */
    const uint64_t before = atomic_load_explicit(word, memory_order_relaxed);
    if ((before >> shift_of(offset) & 3) == HALF_OPEN)
        atomic_store_explicit(word, before | (uint64_t)state << shift_of(offset), memory_order_relaxed);
}

void halves_raise_floor(struct halves *halves, uint64_t least)
{
    /* relaxed, all: only we write them */
    const uint64_t known = atomic_load_explicit(&halves->known, memory_order_relaxed);
    const uint64_t from = atomic_load_explicit(&halves->floor, memory_order_relaxed);
    uint64_t floor = from < least && least <= known ? least : from;
    while (floor < known && (atomic_load_explicit(word_of(halves, floor), memory_order_relaxed) >> shift_of(floor) & 3) != HALF_OPEN)
        floor++;
    if (floor != from)
        atomic_store_explicit(&halves->floor, floor, memory_order_relaxed);
}

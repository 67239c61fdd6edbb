#include "shared/delay_record.h"
#include "base/crash_point.h"

#include <string.h>

void delay_read(const struct delay_record *record, struct delay_slot *slot, uint64_t *version)
{
    /* acquire: pairs with the release in delay_write [K1]. A successor reads, when the scheduler is dead, or the supervisor: no retry. */
    *version = atomic_load_explicit(&record->version, memory_order_acquire);
    *slot = record->slot[*version & 1];
}

void delay_write(struct delay_record *record, const struct delay_slot *slot)
{
    const uint64_t version = atomic_load_explicit(&record->version, memory_order_relaxed); /* only we write it */
    record->slot[(version + 1) & 1] = *slot;
    CRASH_POINT("delay_record_filled");
    /* release: the slot before the flip [K1] */
    atomic_store_explicit(&record->version, version + 1, memory_order_release);
    CRASH_POINT("delay_record_flipped");
    delay_count(record, slot);
}

void delay_count(struct delay_record *record, const struct delay_slot *slot)
{
    /* release: the notes, and the slot's flip, before it [K3] */
    atomic_store_explicit(&record->counted, slot->timer.known, memory_order_release);
}

void delay_note_cancel(struct delay_record *record, uint64_t offset, enum cancel_outcome outcome)
{
    atomic_store_explicit(&record->cancels[offset % CANCEL_NOTES], (offset + 1) << 2 | outcome, memory_order_relaxed); /* [K3] */
}

enum cancel_outcome delay_record_outcome(const struct delay_record *record, uint64_t offset)
{
    /* acquire: pairs with the release in delay_count [K3] */
    if (atomic_load_explicit(&record->counted, memory_order_acquire) <= offset)
        return CANCEL_OPEN;
    const uint64_t note = atomic_load_explicit(&record->cancels[offset % CANCEL_NOTES], memory_order_relaxed);
    return note >> 2 == offset + 1 ? (enum cancel_outcome)(note & 3) : CANCEL_FORGOTTEN;
}

static void clear(struct delay_slot *slot, uint32_t level, uint64_t offset)
{
    const uint64_t at = offset % DELAY_WINDOW;
    slot->done[level][at / 64] &= ~(UINT64_C(1) << (at % 64));
}

/* Goes on over what is done already. */
static void advance(struct delay_slot *slot, uint32_t level)
{
    while (delay_is_done(slot, level, slot->next[level]))
        clear(slot, level, slot->next[level]++);
}

void delay_pass(struct delay_slot *slot, uint32_t level, uint64_t next)
{
    if (next <= slot->next[level])
        return;
    if (next - slot->next[level] >= DELAY_WINDOW)
        memset(slot->done[level], 0, sizeof slot->done[level]);
    else
        for (uint64_t offset = slot->next[level]; offset < next; offset++)
            clear(slot, level, offset);
    slot->next[level] = next;
    advance(slot, level);
}

void delay_done(struct delay_slot *slot, uint32_t level, uint64_t offset)
{
    if (offset < slot->next[level])
        return;
    if (offset - slot->next[level] >= DELAY_WINDOW)
        delay_pass(slot, level, offset - DELAY_WINDOW + 1);
    const uint64_t at = offset % DELAY_WINDOW;
    slot->done[level][at / 64] |= UINT64_C(1) << (at % 64);
    advance(slot, level);
}

bool delay_has_gap(const struct delay_slot *slot)
{
    uint64_t any = slot->timer.extra_count;
    for (uint32_t level = 0; level < DELAY_LEVELS; level++)
        for (uint32_t word = 0; word < DELAY_WINDOW / 64; word++)
            any |= slot->done[level][word];
    return any != 0;
}

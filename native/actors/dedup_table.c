#include "actors/dedup_table.h"
#include <assert.h>
#include <stddef.h>
#include <sys/mman.h>

#define ROOM_LEAST 1024u
#define ROOM_MOST (UINT32_C(1) << 29)

static void *reserve(uint64_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static uint64_t entries_size(const struct dedup_table *table) { return ((uint64_t)table->room + 1) * sizeof *table->entries; }
static uint64_t slots_size(const struct dedup_table *table) { return (uint64_t)table->room * 2 * sizeof **table->slots; }
static uint32_t slots_mask(const struct dedup_table *table) { return table->room * 2 - 1; }

bool dedup_table_open(struct dedup_table *table, uint32_t room)
{
    uint32_t whole = ROOM_LEAST;
    while (whole < room && whole < ROOM_MOST)
        whole *= 2;
    *table = (struct dedup_table){.room = whole, .used = 1};
    table->entries = reserve(entries_size(table));
    bool good = table->entries;
    for (uint32_t index = 0; index < DEDUP_INDEXES; index++)
        good &= (table->slots[index] = reserve(slots_size(table))) != NULL;
    if (!good)
        dedup_table_close(table);
    return good;
}

void dedup_table_close(struct dedup_table *table)
{
    if (table->entries)
        munmap(table->entries, entries_size(table));
    for (uint32_t index = 0; index < DEDUP_INDEXES; index++)
        if (table->slots[index])
            munmap(table->slots[index], slots_size(table));
    *table = (struct dedup_table){0};
}

/* ---- slots ---- */

static uint32_t home(const struct dedup_table *table, enum dedup_index index, uint32_t at)
{
    const struct dedup_entry *entry = &table->entries[at];
    return (uint32_t)(index == DEDUP_BY_HASH ? entry->hash : entry->family) & slots_mask(table);
}

const struct dedup_entry *dedup_table_next(const struct dedup_table *table, uint64_t hash, struct dedup_probe *probe)
{
    for (;;) {
        const uint32_t at = table->slots[DEDUP_BY_HASH][((uint32_t)hash + probe->step) & slots_mask(table)];
        if (!at)
            return NULL;
        probe->step++;
        if (table->entries[at].hash == hash)
            return &table->entries[at];
    }
}

/* The slot of the newest one of a family; a free one: there is none. */
static uint32_t *family_slot(const struct dedup_table *table, uint64_t family)
{
    uint32_t *const slots = table->slots[DEDUP_BY_FAMILY];
    uint32_t slot = (uint32_t)family & slots_mask(table);
    while (slots[slot] && table->entries[slots[slot]].family != family)
        slot = (slot + 1) & slots_mask(table);
    return &slots[slot];
}

/* Frees a slot, and moves up what would not be found behind a free one. */
static void free_slot(struct dedup_table *table, enum dedup_index index, uint32_t hole)
{
    uint32_t *const slots = table->slots[index];
    const uint32_t mask = slots_mask(table);
    for (uint32_t look = (hole + 1) & mask; slots[look]; look = (look + 1) & mask) {
        const uint32_t from = home(table, index, slots[look]);
        if (((look - from) & mask) >= ((look - hole) & mask)) {
            slots[hole] = slots[look];
            hole = look;
        }
    }
    slots[hole] = 0;
}

static void link_hash(struct dedup_table *table, uint32_t at)
{
    uint32_t slot = home(table, DEDUP_BY_HASH, at);
    while (table->slots[DEDUP_BY_HASH][slot])
        slot = (slot + 1) & slots_mask(table);
    table->slots[DEDUP_BY_HASH][slot] = at;
}

static void unlink_hash(struct dedup_table *table, uint32_t at)
{
    uint32_t slot = home(table, DEDUP_BY_HASH, at);
    while (table->slots[DEDUP_BY_HASH][slot] != at)
        slot = (slot + 1) & slots_mask(table);
    free_slot(table, DEDUP_BY_HASH, slot);
}

/* ---- families ---- */

static void link_family(struct dedup_table *table, uint32_t at)
{
    struct dedup_entry *const entries = table->entries, *const entry = &entries[at];
    uint32_t *const slot = family_slot(table, entry->family);
    const uint32_t newest = *slot;
    entry->before = newest ? newest : at;
    entry->after = newest ? entries[newest].after : at;
    entry->number = newest ? entries[newest].number + 1 : 0;
    entries[entry->before].after = at;
    entries[entry->after].before = at;
    *slot = at;
}

static void unlink_family(struct dedup_table *table, uint32_t at)
{
    struct dedup_entry *const entries = table->entries, *const entry = &entries[at];
    uint32_t *const slot = family_slot(table, entry->family);
    if (entry->after == at) {
        free_slot(table, DEDUP_BY_FAMILY, (uint32_t)(slot - table->slots[DEDUP_BY_FAMILY]));
        return;
    }
    if (*slot == at)
        *slot = entry->before;
    entries[entry->before].after = entry->after;
    entries[entry->after].before = entry->before;
}

/* ---- entries ---- */

/* The number of an entry that is free. */
static uint32_t take_unused(struct dedup_table *table)
{
    const uint32_t at = table->unused;
    if (!at)
        return table->used++;
    table->unused = table->entries[at].newer;
    return at;
}

static void forget(struct dedup_table *table, uint32_t at)
{
    struct dedup_entry *const entries = table->entries, *const entry = &entries[at];
    unlink_hash(table, at);
    if (entry->family)
        unlink_family(table, at);
    *(entry->older ? &entries[entry->older].newer : &table->oldest) = entry->newer;
    *(entry->newer ? &entries[entry->newer].older : &table->newest) = entry->older;
    entry->newer = table->unused;
    table->unused = at;
    table->count--;
}

void dedup_table_put(struct dedup_table *table, const struct dedup_entry *wanted)
{
    assert(table->count < table->room);
    const uint32_t at = take_unused(table), last = table->newest;
    struct dedup_entry *const entries = table->entries, *const entry = &entries[at];
    *entry = *wanted;
    /* Times rise, so that the oldest is first: of a log of another broker's whose clock went back, too. */
    if (last && entry->store_ms < entries[last].store_ms)
        entry->store_ms = entries[last].store_ms;
    entry->older = last;
    entry->newer = 0;
    *(last ? &entries[last].newer : &table->oldest) = at;
    table->newest = at;
    table->count++;
    link_hash(table, at);
    if (entry->family)
        link_family(table, at);
}

bool dedup_table_room(struct dedup_table *table)
{
    struct dedup_table larger;
    if (table->count < table->room)
        return true;
    if (table->room >= ROOM_MOST || !dedup_table_open(&larger, table->room * 2))
        return false;
    for (uint32_t at = table->oldest; at; at = table->entries[at].newer)
        dedup_table_put(&larger, &table->entries[at]);
    dedup_table_close(table);
    *table = larger;
    return true;
}

void dedup_table_trim(struct dedup_table *table, uint64_t family, uint32_t keep)
{
    const struct dedup_entry *const entries = table->entries;
    for (;;) {
        const uint32_t newest = *family_slot(table, family), oldest = entries[newest].after;
        if (!newest || entries[newest].number - entries[oldest].number + 1 < keep)
            return;
        forget(table, oldest);
    }
}

void dedup_table_expire(struct dedup_table *table, uint64_t through_ms)
{
    while (table->oldest && table->entries[table->oldest].store_ms <= through_ms)
        forget(table, table->oldest);
}

void dedup_table_take_back(struct dedup_table *table, uint64_t from_offset)
{
    while (table->newest && table->entries[table->newest].physical_offset >= from_offset)
        forget(table, table->newest);
}

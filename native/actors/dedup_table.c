#include "actors/dedup_table.h"
#include <stddef.h>
#include <sys/mman.h>

#define ROOM_LEAST 1024u
#define ROOM_MOST (UINT32_C(1) << 30)

static void *reserve(uint64_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static uint64_t entries_size(const struct dedup_table *table) { return ((uint64_t)table->mask + 1) * sizeof *table->entries; }
static uint64_t slots_size(const struct dedup_table *table) { return ((uint64_t)table->mask + 1) * 2 * sizeof *table->slots; }
static uint32_t slots_mask(const struct dedup_table *table) { return table->mask * 2 + 1; }

bool dedup_table_open(struct dedup_table *table, uint32_t room)
{
    uint32_t whole = ROOM_LEAST;
    while (whole < room && whole < ROOM_MOST)
        whole *= 2;
    *table = (struct dedup_table){.mask = whole - 1};
    table->entries = reserve(entries_size(table));
    table->slots = reserve(slots_size(table));
    if (table->entries && table->slots)
        return true;
    dedup_table_close(table);
    return false;
}

void dedup_table_close(struct dedup_table *table)
{
    if (table->entries)
        munmap(table->entries, entries_size(table));
    if (table->slots)
        munmap(table->slots, slots_size(table));
    table->entries = NULL;
    table->slots = NULL;
}

static uint32_t home(const struct dedup_table *table, uint64_t hash) { return (uint32_t)hash & slots_mask(table); }

static struct dedup_entry *entry_at(const struct dedup_table *table, uint64_t number) { return &table->entries[number & table->mask]; }

const struct dedup_entry *dedup_table_next(const struct dedup_table *table, uint64_t hash, struct dedup_probe *probe)
{
    for (;;) {
        const uint32_t number = table->slots[(home(table, hash) + probe->step) & slots_mask(table)];
        if (!number)
            return NULL;
        probe->step++;
        const struct dedup_entry *entry = entry_at(table, number - 1);
        if (entry->hash == hash)
            return entry;
    }
}

/* Makes the entry known that has this number. */
static void link_entry(struct dedup_table *table, uint64_t number)
{
    uint32_t slot = home(table, entry_at(table, number)->hash);
    while (table->slots[slot])
        slot = (slot + 1) & slots_mask(table);
    table->slots[slot] = (uint32_t)(number & table->mask) + 1;
}

/* Frees the slot of the entry, and moves up what would not be found behind a free one. */
static void unlink_entry(struct dedup_table *table, uint64_t number)
{
    const uint32_t mask = slots_mask(table), own = (uint32_t)(number & table->mask) + 1;
    uint32_t hole = home(table, entry_at(table, number)->hash);
    while (table->slots[hole] != own)
        hole = (hole + 1) & mask;
    for (uint32_t look = (hole + 1) & mask; table->slots[look]; look = (look + 1) & mask) {
        const uint32_t from = home(table, entry_at(table, table->slots[look] - 1)->hash);
        if (((look - from) & mask) >= ((look - hole) & mask)) {
            table->slots[hole] = table->slots[look];
            hole = look;
        }
    }
    table->slots[hole] = 0;
}

bool dedup_table_put(struct dedup_table *table, const struct dedup_entry *entry)
{
    if (dedup_table_count(table) > table->mask)
        return false;
    struct dedup_entry *to = entry_at(table, table->next);
    *to = *entry;
    /* Times rise, so that the oldest is first: of a log of another broker's whose clock went back, too. */
    if (table->next > table->first && to->store_ms < entry_at(table, table->next - 1)->store_ms)
        to->store_ms = entry_at(table, table->next - 1)->store_ms;
    link_entry(table, table->next++);
    return true;
}

bool dedup_table_grow(struct dedup_table *table)
{
    struct dedup_table larger;
    if (table->mask + 1 >= ROOM_MOST || !dedup_table_open(&larger, (table->mask + 1) * 2))
        return false;
    for (uint64_t number = table->first; number < table->next; number++)
        dedup_table_put(&larger, entry_at(table, number));
    dedup_table_close(table);
    *table = larger;
    return true;
}

void dedup_table_expire(struct dedup_table *table, uint64_t through_ms)
{
    for (; table->first < table->next && entry_at(table, table->first)->store_ms <= through_ms; table->first++)
        unlink_entry(table, table->first);
}

void dedup_table_take_back(struct dedup_table *table, uint64_t from_offset)
{
    while (table->first < table->next && entry_at(table, table->next - 1)->physical_offset >= from_offset)
        unlink_entry(table, --table->next);
}

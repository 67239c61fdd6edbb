#include "actors/writer/dedup_table.h"
#include <assert.h>
#include <stddef.h>
#include <sys/mman.h>

#define ROOM_LEAST 1024u
#define ROOM_MOST (UINT32_C(1) << 29)
/* Of each index with each entry: there are two former slots for each entry that is put before the pool is full again, and each has at most half
 * an entry to be moved. */
#define MOVES 4u
#define RELEASED_AT_ONCE (UINT32_C(1) << 14) /* slots: 64 KiB */

static void *reserve(uint64_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static uint64_t entries_size(uint32_t room) { return ((uint64_t)room + 1) * sizeof(struct dedup_entry); }
static uint64_t slots_size(uint32_t count) { return (uint64_t)count * sizeof(uint32_t); }

static void close_slots(struct dedup_slots *own)
{
    if (own->slots)
        munmap(own->slots, slots_size(own->count));
    *own = (struct dedup_slots){0};
}

static bool open_slots(struct dedup_slots own[DEDUP_INDEXES], uint32_t room)
{
    bool good = true;
    for (uint32_t index = 0; index < DEDUP_INDEXES; index++) {
        own[index] = (struct dedup_slots){.slots = reserve(slots_size(room * 2)), .count = room * 2};
        good &= own[index].slots != NULL;
    }
    for (uint32_t index = 0; index < DEDUP_INDEXES && !good; index++)
        close_slots(&own[index]);
    return good;
}

bool dedup_table_open(struct dedup_table *table, uint32_t room)
{
    uint32_t whole = ROOM_LEAST;
    while (whole < room && whole < ROOM_MOST)
        whole *= 2;
    *table = (struct dedup_table){.room = whole, .used = 1};
    table->entries = reserve(entries_size(whole));
    const bool good = open_slots(table->now, whole) && table->entries;
    if (!good)
        dedup_table_close(table);
    return good;
}

void dedup_table_close(struct dedup_table *table)
{
    if (table->entries)
        munmap(table->entries, entries_size(table->room));
    for (uint32_t index = 0; index < DEDUP_INDEXES; index++) {
        close_slots(&table->now[index]);
        close_slots(&table->former[index]);
    }
    *table = (struct dedup_table){0};
}

/* ---- slots ---- */

static uint32_t home(const struct dedup_table *table, enum dedup_index index, const struct dedup_slots *own, uint32_t at)
{
    const struct dedup_entry *entry = &table->entries[at];
    return (uint32_t)(index == DEDUP_BY_HASH ? entry->hash : entry->family) & (own->count - 1);
}

const struct dedup_entry *dedup_table_next(const struct dedup_table *table, uint64_t hash, struct dedup_probe *probe)
{
    for (;;) {
        const struct dedup_slots *own = probe->former ? &table->former[DEDUP_BY_HASH] : &table->now[DEDUP_BY_HASH];
        const uint32_t at = own->slots ? own->slots[((uint32_t)hash + probe->step) & (own->count - 1)] : 0;
        probe->step++;
        if (at && table->entries[at].hash == hash)
            return &table->entries[at];
        if (!at && probe->former)
            return NULL;
        if (!at)
            *probe = (struct dedup_probe){.former = 1};
    }
}

/* The slot of the newest one of a family among these; a free one: there is none. */
static uint32_t *family_slot(const struct dedup_table *table, const struct dedup_slots *own, uint64_t family)
{
    uint32_t slot = (uint32_t)family & (own->count - 1);
    while (own->slots[slot] && table->entries[own->slots[slot]].family != family)
        slot = (slot + 1) & (own->count - 1);
    return &own->slots[slot];
}

/* Of which slots it is. A family that is in none is to be among those of now. */
static struct dedup_slots *slots_of_family(struct dedup_table *table, uint64_t family)
{
    struct dedup_slots *const former = &table->former[DEDUP_BY_FAMILY];
    return former->slots && *family_slot(table, former, family) ? former : &table->now[DEDUP_BY_FAMILY];
}

/* Frees a slot, and moves up what would not be found behind a free one. */
static void free_slot(struct dedup_table *table, enum dedup_index index, struct dedup_slots *own, uint32_t hole)
{
    uint32_t *const slots = own->slots;
    const uint32_t mask = own->count - 1;
    for (uint32_t look = (hole + 1) & mask; slots[look]; look = (look + 1) & mask) {
        const uint32_t from = home(table, index, own, slots[look]);
        if (((look - from) & mask) >= ((look - hole) & mask)) {
            slots[hole] = slots[look];
            hole = look;
        }
    }
    slots[hole] = 0;
}

static void link_slot(struct dedup_table *table, enum dedup_index index, uint32_t at)
{
    struct dedup_slots *const own = &table->now[index];
    uint32_t slot = home(table, index, own, at);
    while (own->slots[slot])
        slot = (slot + 1) & (own->count - 1);
    own->slots[slot] = at;
}

/* False: it is not among these. */
static bool unlink_hash(struct dedup_table *table, struct dedup_slots *own, uint32_t at)
{
    uint32_t slot = home(table, DEDUP_BY_HASH, own, at);
    while (own->slots[slot] && own->slots[slot] != at)
        slot = (slot + 1) & (own->count - 1);
    if (!own->slots[slot])
        return false;
    free_slot(table, DEDUP_BY_HASH, own, slot);
    return true;
}

/* Moves some of the former slots' entries. Taking an entry out moves up those behind it, so that the others are still found. */
static void move(struct dedup_table *table, enum dedup_index index, uint32_t steps)
{
    struct dedup_slots *const former = &table->former[index];
    for (; former->slots && steps; steps--) {
        const uint32_t at = former->slots[former->moved];
        if (at) {
            free_slot(table, index, former, former->moved);
            link_slot(table, index, at);
        } else if (++former->moved == former->count) {
            close_slots(former);
        } else if (former->moved % RELEASED_AT_ONCE == 0) { /* what is free for good is zeros as well if it takes no memory */
            madvise(former->slots + former->moved - RELEASED_AT_ONCE, slots_size(RELEASED_AT_ONCE), MADV_DONTNEED);
        }
    }
}

/* ---- families ---- */

static void link_family(struct dedup_table *table, uint32_t at)
{
    struct dedup_entry *const entries = table->entries, *const entry = &entries[at];
    uint32_t *const slot = family_slot(table, slots_of_family(table, entry->family), entry->family);
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
    struct dedup_slots *const own = slots_of_family(table, entry->family);
    uint32_t *const slot = family_slot(table, own, entry->family);
    if (entry->after == at) {
        free_slot(table, DEDUP_BY_FAMILY, own, (uint32_t)(slot - own->slots));
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
    if (!unlink_hash(table, &table->now[DEDUP_BY_HASH], at))
        unlink_hash(table, &table->former[DEDUP_BY_HASH], at);
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
    link_slot(table, DEDUP_BY_HASH, at);
    if (entry->family)
        link_family(table, at);
    for (uint32_t index = 0; index < DEDUP_INDEXES; index++)
        move(table, index, MOVES);
}

bool dedup_table_room(struct dedup_table *table)
{
    struct dedup_slots larger[DEDUP_INDEXES];
    if (table->count < table->room)
        return true;
    if (table->room >= ROOM_MOST || !open_slots(larger, table->room * 2))
        return false;
    void *entries = mremap(table->entries, entries_size(table->room), entries_size(table->room * 2), MREMAP_MAYMOVE);
    for (uint32_t index = 0; index < DEDUP_INDEXES; index++) {
        if (entries == MAP_FAILED) {
            close_slots(&larger[index]);
            continue;
        }
        move(table, index, UINT32_MAX); /* nothing is left, or MOVES is too small */
        table->former[index] = table->now[index];
        table->now[index] = larger[index];
    }
    if (entries == MAP_FAILED)
        return false;
    table->entries = entries;
    table->room *= 2;
    return true;
}

void dedup_table_trim(struct dedup_table *table, uint64_t family, uint32_t keep)
{
    const struct dedup_entry *const entries = table->entries;
    for (;;) {
        const uint32_t newest = *family_slot(table, slots_of_family(table, family), family), oldest = entries[newest].after;
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

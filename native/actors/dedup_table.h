/* The ids that a CommitLog writer remembers: hash -> physical offset, in order of time. Memory of one process, made anew by each
 * writer out of the log (writer_dedup.c).
 *
 *   entries  a ring, oldest first. Places and times rise in it, so the expired ones are taken from its beginning, and those of
 *            a write group that failed from its end.
 *   slots    open addressing with linear probing, half full at most: numbers of entries. A removal moves the followers up, so
 *            that there are no tombstones.
 *
 * Both are reserved whole, and take memory as they are used. The hash only leads to candidates: whether one is the same id, the
 * caller finds out in the log.
 */
#ifndef ORBITMQ_DEDUP_TABLE_H
#define ORBITMQ_DEDUP_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct dedup_entry {
    uint64_t hash;
    uint64_t physical_offset;
    uint64_t store_ms;
};

struct dedup_table {
    struct dedup_entry *entries;
    uint32_t *slots;    /* number of an entry & mask, plus one; 0: free */
    uint64_t first, next; /* entries are numbered from 0; these are remembered: [first, next) */
    uint32_t mask;      /* entries there is room for, a power of two, minus one */
};

/* Room for this many at least, at most 2^30. False: out of memory. */
bool dedup_table_open(struct dedup_table *table, uint32_t room);
void dedup_table_close(struct dedup_table *table);

static inline uint64_t dedup_table_count(const struct dedup_table *table) { return table->next - table->first; }

/* A walk over the candidates of a hash: begin with a zero probe; NULL: no more. Nothing may change meanwhile. */
struct dedup_probe {
    uint32_t step;
};
const struct dedup_entry *dedup_table_next(const struct dedup_table *table, uint64_t hash, struct dedup_probe *probe);

/* Remembers one more, of a place and a time that are not before those of the last. False: no room (dedup_table_grow). */
bool dedup_table_put(struct dedup_table *table, const struct dedup_entry *entry);

/* Doubles the room. False: out of memory; then nothing has changed. */
bool dedup_table_grow(struct dedup_table *table);

/* Forgets those that were stored at or before a time; those that lie at or behind a place. */
void dedup_table_expire(struct dedup_table *table, uint64_t through_ms);
void dedup_table_take_back(struct dedup_table *table, uint64_t from_offset);

#endif

/* The ids that a CommitLog writer remembers: hash -> physical offset, in order of time. Memory of one process, made anew by each
 * writer out of the log (writer_dedup.c).
 *
 *   entries  a pool, linked from the oldest to the newest. Places and times rise along the links, so the expired ones are taken
 *            from one end, and those of a write group that failed from the other. The entries of one family, which are the ids that a
 *            named producer has numbered, are linked in a ring as well, so that its oldest can be forgotten before its time.
 *   slots    open addressing with linear probing, half full at most: numbers of entries, by hash; and the newest one of each
 *            family, by family. A removal moves the followers up, so that there are no tombstones.
 *
 * If the pool is full, it grows where it is, and both indexes begin anew, twice as large. Their former slots are moved a few at a time, with each
 * entry that is put, so that no message waits for all of them. Until then an entry is in one of the two, and a look goes through both.
 *
 * All are reserved whole, and take memory as they are used. The hash only leads to candidates: whether one is the same id, the
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
    uint64_t family;                  /* 0: of none */
    uint32_t older, newer;            /* in time; 0: none */
    uint32_t before, after;           /* in the family, a ring: the newest one's `after` is the oldest */
    uint32_t number;                  /* in the family, rising */
};

enum dedup_index { DEDUP_BY_HASH, DEDUP_BY_FAMILY, DEDUP_INDEXES };

struct dedup_slots {
    uint32_t *slots;                  /* 0: free. NULL: there are none */
    uint32_t count;                   /* a power of two */
    uint32_t moved;                   /* of former ones: those below are free for good */
};

struct dedup_table {
    struct dedup_entry *entries;      /* from 1 on */
    struct dedup_slots now[DEDUP_INDEXES], former[DEDUP_INDEXES];
    uint32_t room;                    /* entries, a power of two */
    uint32_t used;                    /* entries below this were in use once */
    uint32_t unused;                  /* a list of those that are not any more, by `newer` */
    uint32_t oldest, newest, count;
};

/* Room for this many at least, at most 2^29. False: out of memory. */
bool dedup_table_open(struct dedup_table *table, uint32_t room);
void dedup_table_close(struct dedup_table *table);

static inline uint32_t dedup_table_count(const struct dedup_table *table) { return table->count; }

/* A walk over the candidates of a hash: begin with a zero probe; NULL: no more. Nothing may change meanwhile. */
struct dedup_probe {
    uint32_t step;
    uint32_t former;                  /* which of the two */
};
const struct dedup_entry *dedup_table_next(const struct dedup_table *table, uint64_t hash, struct dedup_probe *probe);

/* Makes sure that there is room for one more. False: out of memory; then nothing has changed. */
bool dedup_table_room(struct dedup_table *table);

/* Remembers one more, for which there is room: hash, place, time and family; of a place and a time that are not before those of the last. */
void dedup_table_put(struct dedup_table *table, const struct dedup_entry *entry);

/* Forgets the oldest of a family until there are fewer than `keep`, which is not 0. */
void dedup_table_trim(struct dedup_table *table, uint64_t family, uint32_t keep);

/* Forgets those that were stored at or before a time; those that lie at or behind a place. */
void dedup_table_expire(struct dedup_table *table, uint64_t through_ms);
void dedup_table_take_back(struct dedup_table *table, uint64_t from_offset);

#endif

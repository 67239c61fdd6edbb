/* Where groups are whose offsets are committed with atomic batches: for each group and queue the offset of its newest record in
 * rmq_sys_group_commits. Part of the control block, so it outlives the writer, which alone changes it; every process may look.
 *
 * A record is applied here when its write group is committed, never before (actors/writer/writer_commits.c). `next` is raised afterwards: whatever
 * dies, all records before it are applied, and a successor applies those from it on, in order, again.
 *
 * Each word says all by itself, so all accesses are relaxed: a key is put into a free place and stays there, and the value of a place belongs
 * to its key alone.
 */
#ifndef ORBITMQ_COMMIT_TABLE_H
#define ORBITMQ_COMMIT_TABLE_H

#include "format/group_commit.h"
#include "shared/segment.h"

#define COMMIT_PLACES 65536u
#define COMMIT_KEYS_MAX (COMMIT_PLACES / 2)

struct commit_place {
    _Atomic uint64_t key[2]; /* [0] is stored last; 0: the place is free */
    _Atomic uint64_t value;  /* offset + 1; 0: none */
};

struct commit_table {
    _Alignas(SEGMENT_LINE) _Atomic uint64_t ready; /* 1: what earlier trees have stored is here */
    _Atomic uint64_t next;  /* queue offset of the first record that is perhaps not applied */
    _Atomic uint64_t count; /* keys */
    _Alignas(SEGMENT_LINE) struct commit_place place[COMMIT_PLACES];
};

/* Any process: the offset, or COMMIT_FROM_NOTHING. */
uint64_t commit_table_get(const struct commit_table *table, const struct commit_key *key);

/* The writer's. False: there is no room for another key. */
bool commit_table_set(struct commit_table *table, const struct commit_key *key, uint64_t offset);

/* True if there is room for so many keys more. */
bool commit_table_room(const struct commit_table *table, uint32_t keys);

/* A copy, for nobody but its owner. to: zeros, or a copy made before. */
void commit_table_copy(struct commit_table *to, const struct commit_table *from);

#endif

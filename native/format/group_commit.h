/* Offsets of a consumer group that are committed with an atomic batch: the body of a record in queue 0 of rmq_sys_group_commits.
 *
 *   u8 version (1)   u8 group size, group   u16 queues, then for each: u8 topic size, topic, u32 queue, u64 from, u64 to
 *
 * All big-endian. The group has been at `from` in the queue, or COMMIT_FROM_NOTHING if none of its offsets was committed so before; it goes on
 * at `to`, or COMMIT_TO_NOTHING: what was committed so is forgotten. The records of a group and queue are a chain: each begins where the one before it ended (actors/writer/writer_commits.c).
 */
#ifndef ORBITMQ_GROUP_COMMIT_H
#define ORBITMQ_GROUP_COMMIT_H

#include "format/properties.h"

#define COMMITS_TOPIC "rmq_sys_group_commits"
#define COMMITS_BODY_MAX (256u << 10)
#define COMMITS_MOST 4096u /* queues of a record */
#define COMMIT_FROM_NOTHING UINT64_MAX
#define COMMIT_TO_NOTHING UINT64_MAX
#define COMMIT_OFFSET_MAX ((UINT64_C(1) << 48) - 1)

struct group_commit {
    struct slice topic;
    uint32_t queue;
    uint64_t from, to;
};

/* What is left of a record to read. */
struct group_commits {
    struct slice group;
    uint32_t count;
    struct slice rest;
};

/* Begins to read. False: it is no such body. */
bool group_commits_begin(struct slice body, struct group_commits *commits);

/* The next queue. False at the end, or at what is none. */
bool group_commits_next(struct group_commits *commits, struct group_commit *next);

/* True if all of it can be read, and nothing follows. */
bool group_commits_whole(struct slice body);

/* The name of a group's queue in tables: 128 bits of a hash, of which the first 64 are not 0. topic.size 0: of the group itself. */
struct commit_key { uint64_t word[2]; };
struct commit_key commit_key(struct slice group, struct slice topic, uint32_t queue);

#endif

/* IndexFile: a hash index over message keys, RocketMQ's layout; see docs/formats/indexfile.md.
 *
 *   | header, 40 bytes | slots x u32 newest entry number | entries x 20 bytes: u32 hash, u64 physical offset,
 *   | i32 seconds since the header's begin timestamp, u32 previous entry of the slot |
 *
 * Entries have no fixed place, so writing a record's keys again would double them. reput therefore commits how far it got
 * (struct index_commit, in <store>/orbitmq/reput) and a successor rolls back to it: newest entry first, a slot is reset only
 * if it holds that very entry.
 */
#ifndef ORBITMQ_INDEX_FILE_H
#define ORBITMQ_INDEX_FILE_H

#include "base/bytes.h"
#include "base/store_path.h"
#include <stdbool.h>
#include <stdint.h>

#define INDEX_NAME_DIGITS 17u /* yyyyMMddHHmmssSSS */
#define INDEX_HEADER 40u
#define INDEX_SLOT 4u
#define INDEX_ENTRY 20u
#define INDEX_RESERVE (1u << 20)  /* entry bytes reserved at a time */
#define INDEX_KEYS_MAX 16384u     /* a record cannot hold more keys: each takes two of its 32,767 property bytes */

static inline uint64_t index_file_size(uint32_t slots, uint32_t entries)
{
    return INDEX_HEADER + (uint64_t)slots * INDEX_SLOT + (uint64_t)entries * INDEX_ENTRY;
}

/* |java_hash(topic # key)|, 0 where that is negative. prefix_hash is java_hash of "topic#". */
uint32_t index_key_hash(int32_t prefix_hash, const uint8_t *key, uint32_t size);

struct index_header { /* decoded; big-endian on disk in this order */
    uint64_t begin_ms, end_ms, begin_offset, end_offset;
    uint32_t slots_used;
    uint32_t next_entry; /* starts at 1 */
};

struct index_header index_header_load(const uint8_t *at);

struct index_file {
    uint8_t *data;
    uint32_t slots, entries;
    uint64_t reserved; /* bytes of the entry area that may be written */
    int descriptor;    /* kept for reserving ahead; -1 for a reader */
    struct index_header header; /* the writer's copy; stored by index_file_publish */
};

/* <store>/index/<name>; path has room for STORE_FILE_ROOM bytes. */
void index_file_path(char *path, const char *store, uint64_t name);

/* Opens an existing file, or creates one of full length (sparse, slots reserved). Returns 0 or an errno. */
int index_file_open(struct index_file *file, const char *path, uint32_t slots, uint32_t entries, bool writable, bool create);
void index_file_close(struct index_file *file);

/* Makes sure that the next `count` entries can be put without an error. Returns 0, ENOSPC, or ENFILE if the file has no room
 * for that many. */
int index_file_reserve(struct index_file *file, uint32_t count);

/* Adds one entry. Returns 0, ENOSPC, or ENFILE if the file is full. Header fields are in file->header until
 * index_file_publish. */
int index_file_put(struct index_file *file, uint32_t hash, uint64_t physical_offset, uint64_t store_ms);
void index_file_prefetch(const struct index_file *file, uint32_t hash);
void index_file_publish(struct index_file *file);

/* Undoes every entry from next_entry of `to` on, newest first, and stores `to` as the header. Returns 0 or the errno of a
 * read. */
int index_file_roll_back(struct index_file *file, const struct index_header *to);

/* Physical offsets of entries with this hash, newest first, whose time may be in [from_ms, to_ms] (an entry knows its time to
 * the second); at most `most`. Safe beside a writer, in whatever state a dead one left the file. */
uint32_t index_file_find(const struct index_file *file, uint32_t hash, uint64_t from_ms, uint64_t to_ms, uint64_t *offsets,
                         uint32_t most);

#endif

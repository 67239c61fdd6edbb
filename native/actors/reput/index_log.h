/* The row of IndexFiles that reput writes, and the commit file that lets a successor go on from exactly where it stood.
 *
 * <store>/orbitmq/reput, 4096 bytes, big-endian: 8 bytes magic "OMQREPUT", and two slots, at 64 and at 192:
 *
 *   +0   u64 version; the valid slot with the larger one counts; 0 is void
 *   +8   u64 position: everything in the log below it is in the ConsumeQueues and the index
 *   +16  u64 indexed: keys of records below it are in the index; at or above position
 *   +24  u64 name of the newest index file as a number, 0 if there is none
 *   +32  its header, 40 bytes as on disk
 *   +72  u32 CRC-32 of the 72 bytes before
 *
 * Entries and slots reach the index file first, then its header, then the commit, then the queues' published max offsets and
 * reput's position. So the commit is never ahead of the index (what it counts is there, as long as the machine runs) and never
 * behind what anybody has been told; what the index holds beyond it belongs to the step that died, and goes:
 *
 *   killed while an entry is written, or before the header    entries beyond the commit: rolled back
 *   ... after the header, before the commit                   header restored from the commit
 *   ... in the middle of the commit                           its slot is void: the other one, one step older, counts
 *   ... after a new file was made                             files newer than the commit's are removed, the older one was
 *                                                             committed when it was left
 *   ... after the commit, before the positions                the step's queue units are written once more, its keys not
 *
 * A power cut may keep the commit and lose the index: recovery then removes index files that it cannot trust, and the commit.
 */
#ifndef ORBITMQ_INDEX_LOG_H
#define ORBITMQ_INDEX_LOG_H

#include "format/index_file.h"

#define INDEX_COMMIT_SIZE 4096u
#define INDEX_PENDING 16u /* entries whose slots are being fetched from memory */

struct index_commit {
    uint64_t version, position, indexed, name;
    struct index_header header;
};

struct index_pending {
    uint64_t physical_offset, store_ms;
    uint32_t hash;
};

struct index_log {
    char store[STORE_FOLDER_ROOM];
    uint32_t slots, entries;
    struct index_file file;      /* the newest; data NULL when there is none */
    uint8_t *data;               /* the commit file */
    struct index_commit commit;  /* the newest one */
    uint64_t indexed;            /* records below are in the index already */
    uint32_t pending_count;
    struct index_pending pending[INDEX_PENDING];
};

/* The newest valid commit of a commit file's 4096 bytes; false if there is none. */
bool index_commit_load(const uint8_t *data, struct index_commit *commit);

/* Opens the commit file and rolls the index back to it. Without a commit the index is taken as it is, up to its newest file's
 * header, and indexing continues after its last record. position: where reput would begin by itself; lowered to the commit's.
 * Returns 0 or an errno. */
int index_log_open(struct index_log *log, const char *store, uint32_t slots, uint32_t entries, uint64_t *position);
void index_log_close(struct index_log *log);

/* Makes sure that all keys of one record can be added without an error, all to one file. Begins a new file if the newest has no
 * room for them. Returns 0 or an errno. */
int index_log_reserve(struct index_log *log, uint32_t count, uint64_t position);

/* Adds one key's entry. It may stay pending until index_log_commit. */
void index_log_add(struct index_log *log, uint32_t hash, uint64_t physical_offset, uint64_t store_ms);

/* Commits that everything below position is in the queues and was added here. */
void index_log_commit(struct index_log *log, uint64_t position);

#endif

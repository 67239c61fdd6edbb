/* Reads a store once, from its first log file on, and reports what is not as it should be. It writes nothing, believes nothing
 * but the log, and needs the same memory for a store of any size. store/verify/verify.py drives it.
 */
#ifndef ORBITMQ_VERIFY_H
#define ORBITMQ_VERIFY_H

#include "check/findings.h"
#include "format/index_file.h"
#include "format/queue_table.h"

struct verify;

/* What is to be read, and what may be expected of it. */
struct verify_plan {
    char store[STORE_FOLDER_ROOM];
    uint64_t log_file_size;
    uint64_t begin;            /* of the log: start of its first file */
    uint64_t end;              /* of its last file, or of what a running broker has settled */
    uint64_t indexed;          /* queues and index hold everything below it */
    bool settled;              /* and nothing at or above it */
    uint64_t floor;            /* the log was certainly on disk up to here */
    uint32_t queue_file_units;
    uint32_t queues;           /* about how many */
    uint32_t index_slots, index_entries;
    uint32_t index_count;
    const uint64_t *index_names; /* of the index files that can be relied on, ascending; the caller keeps the array */
    bool has_header;           /* this header counts for the newest of them: what lies behind it is not settled */
    struct index_header header;
};

/* Plain, for Python. */
struct verify_state {
    uint64_t offset;      /* the log was read up to here */
    uint64_t good_end;    /* end of the last good record or blank marker, or where the log begins */
    uint64_t records, blanks;
    uint64_t log_bytes, queue_bytes, index_bytes; /* read so far */
    uint64_t last_ms;     /* store timestamp of the last good record, 0: none */
    uint64_t rising_from; /* no record at or behind this place is followed by one of an earlier time */
    uint32_t queue_count; /* queues seen so far */
};

/* A queue as the log has it: its good records have the queue offsets [first, next), except what was found to be missing. */
struct verify_queue {
    struct queue_name name;
    bool seen;
    uint64_t first, next;
};

enum verify_result { VERIFY_MORE = 0, VERIFY_END = 1, VERIFY_FAILED = 2 };

/* NULL with errno ENOMEM. */
struct verify *verify_open(const struct verify_plan *plan);
void verify_close(struct verify *verify);

/* Continues for about limit_bytes of log, less if there is much to report. VERIFY_FAILED: no memory. */
enum verify_result verify_step(struct verify *verify, uint64_t limit_bytes);

/* Call after the log, for all files of a queue in order: units [first, first + count) of one ConsumeQueue file, without those
 * of the log's records. */
enum verify_result verify_units(struct verify *verify, const uint8_t *topic, uint32_t topic_size, uint32_t queue_id,
                                uint64_t first, uint32_t count);

/* Call after the log: what the index holds besides its keys, one part per call. The last call also closes the findings that
 * were growing. */
enum verify_result verify_rest(struct verify *verify);

void verify_look(const struct verify *verify, struct verify_state *state);
bool verify_see_queue(const struct verify *verify, uint32_t number, struct verify_queue *queue);

/* Moves at most `most` findings to `to`, oldest first, and returns how many. */
uint32_t verify_findings(struct verify *verify, struct finding *to, uint32_t most);

#endif

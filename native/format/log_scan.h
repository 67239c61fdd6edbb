/* Scans the CommitLog forward from a record boundary to the first place without a good record; recovery and verify use it. It
 * believes nothing but the files: every record is checked by size, place and CRCs.
 *
 * If the last records are those of an atomic batch that is not complete, the log ends before the atomic batch (atomic.h). An atomic batch lies in
 * one file.
 *
 * For every queue of the scanned part it notes the offset after its newest message: what the ConsumeQueues will say once reput
 * has caught up.
 */
#ifndef ORBITMQ_LOG_SCAN_H
#define ORBITMQ_LOG_SCAN_H

#include "format/queue_table.h"

struct scan;

/* Plain, for Python. */
struct scan_state {
    uint64_t offset;      /* everything from the start up to here is good */
    uint64_t fault_at;    /* where the scan ended; behind `offset` if an atomic batch before it is not complete */
    uint64_t last_ms;     /* store timestamp of the newest record seen, 0: none */
    uint64_t last_offset; /* where that record begins */
    uint64_t first_ms;    /* likewise of the first one */
    uint64_t rising_from; /* of the records seen, none at or behind this place is followed by one with an earlier time */
    uint64_t records;
    uint32_t first_sealed; /* the first one has the CRC property: OrbitMQ wrote it */
    uint32_t blanks;      /* file ends passed over */
    uint32_t fault;       /* enum record_fault at offset, once the end is reached; RECORD_END also when the file is missing */
    uint32_t error;       /* errno of SCAN_FAILED */
    uint32_t queue_count;
    uint32_t headless;    /* the atomic batch that is not complete began before the scan: everything seen of it is in `offset` */
};

struct scan_queue {
    uint64_t next_offset; /* 1 + queue offset of the newest message seen; prepared and rolled back messages have none */
    struct queue_name name;
};

enum scan_result { SCAN_MORE = 0, SCAN_END = 1, SCAN_FAILED = 2 };

/* store: root of the store; from: a record boundary; parts: atomic batches that are not complete are kept. NULL with errno ENOMEM. */
struct scan *scan_open(const char *store, uint64_t file_size, uint64_t from, bool parts);
void scan_close(struct scan *scan);

/* Continues for about limit_bytes, so that the caller can show progress and look at signals. */
enum scan_result scan_step(struct scan *scan, uint64_t limit_bytes);

void scan_look(const struct scan *scan, struct scan_state *state);

/* Copies the notes on queues [first, first + most); returns how many. Their order has no meaning. */
uint32_t scan_queues(const struct scan *scan, uint32_t first, uint32_t most, struct scan_queue *queues);

#endif

/* Checks the ConsumeQueues against the log, record by record in the log's order: each record must have its unit, and queue
 * offsets must be dense. What else the queues hold is looked at afterwards.
 *
 * Units are read with pread, a window of a queue at a time. All windows together have a fixed size, however many queues there
 * are.
 */
#ifndef ORBITMQ_QUEUE_CHECK_H
#define ORBITMQ_QUEUE_CHECK_H

#include "check/findings.h"
#include "format/properties.h"
#include "format/queue_table.h"
#include "format/record.h"
#include "base/spans.h"

struct unit_window {
    uint8_t *data;         /* units [first, end) of a queue; zeros if there is none */
    uint64_t first, end;
    uint32_t queue;
};

struct checked_queue {
    bool seen;             /* a record of it */
    bool ended;            /* of a queue without a record: a unit that was never written has been passed */
    uint64_t first, next;  /* the records seen have the queue offsets [first, next), except what was found to be missing */
    uint64_t physical;     /* the newest of them */
    struct finding open;   /* grows as long as the following ones have the same fault */
};

struct queue_check {
    const char *store;
    uint32_t file_units;
    uint64_t begin;        /* the beginning of the log: units that point before it belong to messages that are gone */
    uint64_t indexed;      /* queues are complete below this position of the log */
    bool settled;          /* nothing is indexed at or above it */
    uint64_t certain;      /* the log cannot end before this: gaps below are damage, not a tail */
    const struct spans *gaps;
    struct findings *findings;
    struct queue_table table;
    struct checked_queue *queues;
    uint32_t room;
    uint32_t window_units, window_count;
    struct unit_window *windows; /* of queue n: n modulo their count */
    uint64_t read;               /* bytes */
};

/* queues: about how many there are. The pointers are kept. Returns 0 or ENOMEM. */
int queue_check_open(struct queue_check *check, const char *store, uint32_t file_units, uint32_t queues);
void queue_check_close(struct queue_check *check);

/* A good record, at view->physical_offset, with its tags code. Returns 0 or ENOMEM. */
int queue_check_record(struct queue_check *check, const struct record_view *view, int64_t code);

/* Call after the last record, for all of a queue's files in order: units [first, first + count) of one file, without those of
 * the records seen. Returns 0 or ENOMEM. */
int queue_check_rest(struct queue_check *check, const struct queue_name *name, uint64_t first, uint32_t count);

/* Adds the finding that is still growing. */
void queue_check_end(struct queue_check *check);

#endif

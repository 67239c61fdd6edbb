/* What the files of reput share: its state, and the call from one file to the other.
 *
 *   reput.c          records into units and index entries; the loop
 *   reput_publish.c  what readers may see of them, and who is woken
 */
#ifndef ORBITMQ_REPUT_PARTS_H
#define ORBITMQ_REPUT_PARTS_H

#include "actors/reput/index_log.h"
#include "actors/reput/reput.h"
#include "base/pace.h"
#include "format/consume_queue.h"
#include "format/log_map.h"

/* What reput knows about one queue slot. */
struct queue_work {
    struct consume_queue_writer writer;
    uint64_t max_offset;   /* of this step, to be published */
    uint64_t physical_end;
    uint64_t first;        /* the lowest offset of this step */
    bool touched;
};

struct topic_prefix {
    int32_t hash; /* java_hash("topic#") */
    bool known;
};

struct reput {
    struct attachment *attachment;
    struct pace pace;
    uint64_t position;
    uint64_t store_ms;                /* of the newest record below position */
    bool all;                         /* every queue counts as changed */
    bool late;                        /* a deleted topic has got a file */
    const struct topic_entry *topic;  /* of the previous record */
    struct topic_prefix *prefixes;    /* by topic */
    struct queue_work *queues;        /* by queue slot */
    uint32_t touched_count;
    uint32_t *touched;                /* slots, room for queue_capacity */
    uint32_t missing_size, missing_queue;
    uint8_t missing[TOPIC_NAME_MAX];
    uint64_t stray;                   /* the record that is passed without a queue */
    uint32_t stopped;                 /* the errno that persists */
    uint64_t soonest_ms;              /* of this step, when the first message with a time is due; UINT64_MAX: there is none */
    uint64_t indexed;                 /* entries added in this step, for the counter */
    struct log_map log;
    struct index_log index;
};

/* Publishes what the step has written, in the order that reput.c draws, and wakes those who wait for it. */
void reput_publish(struct reput *reput);

#endif

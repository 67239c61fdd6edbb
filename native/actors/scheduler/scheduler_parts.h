/* What the files of the scheduler share.
 *
 *   scheduler.c         its life and its loop: portions, counting, sleeping
 *   scheduler_level.c   what is due of each delay level
 *   scheduler_timer.c   what is due of the messages with a time
 *   scheduler_image.c   from a scheduled record to the one that is put into the lane
 *   scheduler_load.c    what the log knows after a death of the whole tree
 *   scheduler_missed.c  what it knows of messages with a time
 */
#ifndef ORBITMQ_SCHEDULER_PARTS_H
#define ORBITMQ_SCHEDULER_PARTS_H

#include "actors/put_lane.h"
#include "actors/scheduler/scheduler.h"
#include "actors/scheduler/timer.h"
#include "format/consume_queue.h"
#include "format/log_map.h"
#include "format/record.h"

#define KIND_TIMER DELAY_LEVELS /* of a put_name; lower ones are levels, from 0 */
#define PORTION_BYTES (128u << 10)  /* a portion ends with the record that passes this */

#define RETRY_MS 100u /* between two tries when the log takes no more, or a file cannot be written */
#define CANCELS_MS 600000u /* how often the queue is read again because messages in it were cancelled */
#define TIMER_QUIET_MS 500u /* nothing is due for so long: time to read the queue again */

#define DELAY_LOOKS 12u /* more than the looks at a level's queue within its delay that are remembered */

/* One level's queue. Looks say which messages have waited long enough by CLOCK_MONOTONIC, should the clock have been set back. */
struct level {
    struct consume_queue_reader units;
    struct { uint64_t at_ms, max; } looks[DELAY_LOOKS]; /* when, and which offsets were there already; the oldest first */
    uint32_t look_count;
    uint64_t waited; /* offsets below it have waited for their level's delay */
};

#define MISSED_UNITS (1u << 26) /* marks that are held: 8 MiB */

/* After a death of the whole tree, of the messages with a time (scheduler_missed.c). */
struct missed {
    uint64_t *marked;         /* a bit for each of `units` messages from queue offset `base` on: the log has it */
    uint64_t base, units;
    uint64_t most;            /* of units: MISSED_UNITS; fewer in tests */
    uint64_t max;             /* of the queue when the log began to be read: what has come since was put there by nobody */
    uint64_t cancels_at;      /* queue offset up to which those were looked for that cancel others: their messages are marked too */
    uint64_t at;              /* queue offset up to which those were looked for that the log lacks */
    uint64_t from;            /* where the portion that is in the lane began */
    uint64_t counted;         /* position in the lane before it */
    bool started;
    struct timer_progress before; /* what the files say */
};

struct scheduler {
    struct attachment *attachment;
    struct put_lane put;
    struct delay_slot slot;  /* as in the control block, and what was passed since */
    bool known;
    bool kept;
    bool needs_kept;         /* something is due, and must wait for scheduler_kept */
    bool changed;            /* slot is to be written although there is no portion */
    uint32_t turn;           /* the level to begin the next portion with */
    uint64_t due_ms;         /* when the next message is due, or UINT64_MAX */
    uint64_t seen;           /* the maximum of the queue of messages with a time at the last look */
    uint64_t retry_ms;       /* CLOCK_MONOTONIC: the log took no more, or a file could not be written; not before then */
    uint64_t load_from, load_at, load_end;
    int64_t ahead_ms[2];     /* for tests: added to the real and to the monotonic clock */
    struct missed missed;
    struct timer timer;
    uint64_t read;           /* bytes of the log read through mappings since they were made */
    struct log_map log;
    struct level levels[DELAY_LEVELS];
    uint8_t properties[PROPERTIES_MAX];
};

/* ---- scheduler.c ---- */

/* The schedule topic, or NULL while there is none. */
const struct topic_entry *scheduler_topic(const struct scheduler *scheduler);

/* Unmaps what was read, once it is much: pages stay in memory as long as they are mapped. */
void scheduler_let_go(struct scheduler *scheduler);

/* A record cannot be put there yet, because orbitmq/delayed does not exist. */
bool scheduler_must_keep(struct scheduler *scheduler);

/* How late a message that is put into the lane is. */
void scheduler_note_late(struct scheduler *scheduler, uint64_t due_ms, uint64_t now_ms);

/* ---- scheduler_level.c ---- */

/* Puts the due messages of one level into the lane. False: the portion is full. */
bool scheduler_put_level(struct scheduler *scheduler, const struct topic_entry *topic, uint32_t number, uint64_t now_ms);

/* ---- scheduler_timer.c ---- */

/* The topic of messages with a time, or NULL while there is none. */
const struct topic_entry *scheduler_timer_topic(const struct scheduler *scheduler);

/* Puts those that are due into the lane. False: the portion is full. */
bool scheduler_put_timer(struct scheduler *scheduler, uint64_t now_ms);

/* ---- scheduler_missed.c ---- */

/* Before the log is read, once reput has passed the end of what is to be read. False if memory is short. */
bool scheduler_begin_missed(struct scheduler *scheduler);

/* A record of the log that a scheduler made of the message at this queue offset. False: not now. */
bool scheduler_mark(struct scheduler *scheduler, uint64_t offset);

/* After the log was read: puts what it lacks there, a bounded piece of it. */
enum missed_result {
    MISSED_OVER = 0,    /* the progress is known */
    MISSED_GOES_ON = 1, /* at once; perhaps the log is to be read again */
    MISSED_WAITS = 2,   /* for the writer, or for a while */
};
enum missed_result scheduler_find_missed(struct scheduler *scheduler);

/* ---- scheduler_image.c ---- */

enum image_result {
    IMAGE_PUT = 0,   /* it is in the lane */
    IMAGE_GONE = 1,  /* it will never be: its topic is gone, or it cannot be read */
    IMAGE_FULL = 2,  /* the lane has no room now */
    IMAGE_LATER = 3, /* this process is short of something now */
};
enum image_result scheduler_put(struct scheduler *scheduler, uint32_t kind, uint64_t offset, const struct queue_unit *unit);

/* When the record of a unit was stored, ms; 0 if it cannot be read. */
uint64_t scheduler_stored_ms(struct scheduler *scheduler, const struct queue_unit *unit);

/* ---- scheduler_load.c ---- */

/* Reads a piece of the log; counts what it finds. Returns bytes, 0 if it must wait for reput, or is over. */
uint32_t scheduler_load(struct scheduler *scheduler);

#endif

/* A consumer's private view of the store: the queues it reads, how far it is in each, and its current fetch.
 *
 * A reader maps the files itself, read-only, and asks nobody. The broker only publishes how far each queue may be read
 * (queue_slot.max_offset) and that anything moved at all (control->reput). A fetch is an array of references into the mapped
 * log; nothing is copied. The files of a fetch are pinned until the next one or reader_release. A caller that keeps a
 * reference longer pins its file itself.
 *
 * Cursors are visited in rounds. A round begins when the reput position moves, so a fetch costs two loads if nothing is new. A
 * round survives from fetch to fetch, so with many queues a small fetch does not start the scan again.
 *
 * Without a control block (a store read offline) every cursor has an end of its own.
 *
 * One thread at a time may use a reader.
 */
#ifndef ORBITMQ_READER_H
#define ORBITMQ_READER_H

#include "format/consume_queue.h"
#include "shared/control.h"
#include "format/log_map.h"
#include "format/record.h"
#include "format/sql.h"
#include "format/tag_filter.h"
#include "shared/topics.h"

#define READER_SCAN_UNITS 65536u /* most units looked at in one fetch, so that a filter that never matches still returns */
#define READER_AHEAD 16u         /* records whose first lines are being fetched while one is checked */
#define READER_LARGE 512u        /* bytes of a body from which it is checked while it is copied, if it is copied */

/* One message of a fetch. Everything after `record` was checked: shape, place, and the body's CRC, unless reader->unchecked. */
struct message_ref {
    const uint8_t *record;
    struct log_file *file; /* pinned by the fetch */
    uint64_t physical_offset;
    uint64_t queue_offset;
    int64_t tags_code;
    uint32_t size;         /* of the record */
    uint32_t body_at;      /* in the record */
    uint32_t body_size;
    uint32_t cursor;
};

/* One queue. */
struct reader_cursor {
    const struct queue_slot *queue; /* NULL: offline */
    uint64_t position;              /* queue offset of the next unit */
    uint64_t end;                   /* offline: the units that may be read are [begin, end) */
    uint64_t begin;
    const uint8_t *units;           /* of [units_first, units_end), in the file that `file` has mapped */
    uint64_t units_first, units_end;
    struct consume_queue_reader file;
    uint64_t removed;               /* messages that retention removed before they were read, not reported yet */
    uint64_t removed_end;           /* offset behind the last of them */
    uint32_t name;                  /* index in reader->names */
    uint32_t queue_id;
    bool paused;                    /* not read until reader_pause says otherwise */
};

struct reader_name {
    uint32_t size;
    uint8_t text[TOPIC_NAME_MAX + 1];
};

/* Why a fetch stopped short. */
struct reader_fault {
    enum record_fault record;  /* what is wrong with the record, or RECORD_GOOD */
    int error;                 /* errno of a file that could not be mapped, or 0 */
    uint32_t cursor;
    uint64_t queue_offset;
    uint64_t physical_offset;
    bool in_queue;             /* it is the ConsumeQueue that could not be read, not the log */
};

struct reader {
    const struct control *control;
    const struct topics *topics;
    uint32_t queue_file_units;
    uint64_t rising_begin, rising_end; /* of the log: here no record precedes one with an earlier time (docs/time.md) */
    bool verify;              /* check the CRC of each body; on unless somebody turned it off */
    bool unchecked;           /* of the fetch: large bodies are not checked yet; only reader_copy_body may give them away */
    uint32_t next;            /* the cursor to visit now */
    uint32_t left;            /* cursors to visit before the round is over */
    uint64_t reput_seen;      /* the reput position when the round began */
    uint64_t log_min_seen;
    uint64_t looked;          /* units looked at, in all */
    uint64_t skipped;         /* messages that retention removed before they were read, in all */
    struct reader_cursor *cursors;
    uint32_t cursor_count, cursor_room;
    struct reader_name *names;
    uint32_t name_count, name_room;
    struct tag_filter tags;
    struct sql_program *sql;  /* NULL: everything */
    struct message_ref *refs; /* the fetch */
    uint32_t count, room;
    uint32_t recent;          /* messages of the last fetch that had any */
    struct reader_fault fault;
    uint32_t pinned_count;
    struct log_file *pinned[LOG_MAP_SLOTS];
    /* the file of the last record: [log_start, log_end) begins at log_data */
    struct log_file *log_file;
    uint64_t log_start, log_end;
    const uint8_t *log_data;
    char store[STORE_FOLDER_ROOM];
    struct log_map log;
};

/* control and topics: of the tree, mapped as long as the reader is used; both NULL to read a store offline. */
struct reader *reader_open(const struct control *control, const struct topics *topics, const char *store,
                           uint64_t log_file_size, uint32_t queue_file_units);

/* Unmaps what nobody has pinned and forgets the queues. Control and topics are not looked at afterwards. */
void reader_close(struct reader *reader);
/* Call after reader_close, when no pin is left. */
void reader_free(struct reader *reader);

/* Adds a queue of the tree. Returns its cursor's index, or -1 with errno: EINVAL (no such slot), ENOMEM. */
int64_t reader_add(struct reader *reader, uint32_t slot, uint64_t position);
/* Adds units [begin, end) of a queue, to be read offline. */
int64_t reader_add_offline(struct reader *reader, const uint8_t *topic, uint32_t topic_size, uint32_t queue_id,
                           uint64_t begin, uint64_t end);
void reader_clear(struct reader *reader);

/* The offsets that may be read now: [*min, *max). */
static inline void reader_bounds(const struct reader *reader, uint32_t index, uint64_t *min, uint64_t *max)
{
    assert(index < reader->cursor_count);
    const struct reader_cursor *cursor = &reader->cursors[index];
    if (!cursor->queue) {
        *min = cursor->begin;
        *max = cursor->end;
        return;
    }
    /* acquire: units and records below max_offset before their bytes are read. Pairs with reput's release [Q1]. min_offset only
     * grows and never passes max_offset, so it is read first. It is raised before files are removed [O1]. */
    *min = atomic_load_explicit(&cursor->queue->min_offset, memory_order_acquire);
    *max = atomic_load_explicit(&cursor->queue->max_offset, memory_order_acquire);
}

void reader_seek(struct reader *reader, uint32_t cursor, uint64_t position);

/* What the caller does with the bodies of a fetch: looks at them where they are, or takes each with reader_copy_body. */
enum reader_use { READER_LOOKS, READER_COPIES };

/* A paused queue is neither read nor waited for. The caller puts back messages of it that were gathered already. */
void reader_pause(struct reader *reader, uint32_t cursor, bool paused);

/* Only messages with one of these tags. Returns 0 or ENOMEM. */
int reader_filter(struct reader *reader, const struct slice *tags, uint32_t count);

/* Only messages for which the filter is true; NULL: all. The reader owns the program from now on. A message must also have one of the
 * tags, if there are any. One that does not pass is not checked further: its body may be damaged. */
void reader_filter_sql(struct reader *reader, struct sql_program *program);

/* Makes the next fetch, at most `most` messages with about `bytes` bytes of bodies and properties, and moves the positions past them. The first
 * record may be larger, and the last may exceed `bytes`. Returns how many messages. 0 with a fault set: the
 * message at fault.queue_offset cannot be read; the position stays before it, and the next fetch begins with another queue. 0
 * without a fault: there is nothing new (reader_ready is false), or only messages that the filters hold back so far (it is true). */
uint32_t reader_fetch(struct reader *reader, uint32_t most, uint64_t bytes, enum reader_use use);

/* The same for a caller that holds messages already: a fault is left for the next fetch, which begins with it. */
uint32_t reader_more(struct reader *reader, uint32_t most, uint64_t bytes, enum reader_use use);

/* True if the body of a message of the fetch was checked where it is. Otherwise it is plain, and reader_copy_body
 * (reader_copy.h) takes it. */
static inline bool reader_checked(const struct reader *reader, const struct message_ref *ref)
{
    return !reader->unchecked || ref->body_size < READER_LARGE ||
           load_be32(ref->record + RECORD_SYSFLAG_AT) & SYSFLAG_COMPRESSED;
}

/* The messages [first, first + count) of one queue, as a fetch; the cursor ends behind them. Fewer come if some are gone or no messages, and
 * before one that cannot be read: then a fault is set. */
uint32_t reader_fetch_range(struct reader *reader, uint32_t cursor, uint64_t first, uint32_t count);

/* After a fault: the next fetch begins with another queue. */
void reader_pass(struct reader *reader);

/* Unpins the fetch. */
void reader_release(struct reader *reader);

/* True if a fetch would find something to look at. Costs two loads while the reput position does not move. */
bool reader_ready(struct reader *reader);

/* Looks at every queue again, whatever the reput position is. */
void reader_recheck(struct reader *reader);

/* One record of the log by its physical offset, fully checked, as the only message of the fetch; cursor and tags code are 0.
 * Its file is pinned like a fetch's. False with reader->fault set. The offset is not trusted. */
bool reader_record(struct reader *reader, uint64_t physical_offset);

/* For a store that is read offline: where in the log times rise. Without this call, nowhere. */
void reader_trust(struct reader *reader, uint64_t begin, uint64_t end);

/* The readable units [*first, *end) whose records are in the part where times rise. False with reader->fault set. */
bool reader_rising(struct reader *reader, uint32_t cursor, uint64_t *first, uint64_t *end);

/* A search by time. Where times rise it is binary. Elsewhere it looks at message after message, and so proceeds in steps.
 * Between two steps the caller may do anything but remove the queue. */
struct reader_search {
    uint32_t cursor;
    bool nearest;       /* as RocketMQ searches: where the message before the found one lies nearer to the time, that one; the last
                         * message where all are older; `min` of an empty queue */
    bool begun;
    uint64_t store_ms;
    uint64_t offset;    /* the result: the first readable message stored at or after store_ms, or the end. Until then: no message
                         * before it was */
    uint64_t first;     /* the bounds when the search began; retention may raise the first one */
    uint64_t max;
    uint64_t rising, rising_end;
};
enum reader_found { READER_FOUND = 0, READER_SEARCHING = 1, READER_FAULTY = 2 };
enum reader_found reader_search_step(struct reader *reader, struct reader_search *search);

#endif

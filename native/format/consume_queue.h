/* ConsumeQueue files: 20-byte big-endian units (u64 physical offset, u32 size, i64 tags code), queue_file_units to a file,
 * <store>/consumequeue/<topic>/<queue id>/<20-digit byte offset>. See docs/formats/consumequeue.md.
 *
 * reput writes through consume_queue_writer, one a queue slot, opened when the first unit comes; files are sparse at full length,
 * reserved in growing steps up to CONSUME_QUEUE_RESERVE ahead of the units, mapped MADV_RANDOM. Readers use consume_queue_reader.
 */
#ifndef ORBITMQ_CONSUME_QUEUE_H
#define ORBITMQ_CONSUME_QUEUE_H

#include "base/bytes.h"
#include "base/store_path.h"
#include <stdbool.h>
#include <stdint.h>

#define CONSUME_QUEUE_UNIT 20u
#define CONSUME_QUEUE_RESERVE (256u << 10)

struct queue_unit {
    uint64_t physical_offset;
    uint32_t size;
    int64_t tags_code;
};

static inline struct queue_unit queue_unit_load(const uint8_t *at)
{
    return (struct queue_unit){load_be64(at), load_be32(at + 8), (int64_t)load_be64(at + 12)};
}

struct consume_queue_writer {
    uint8_t *data;      /* the mapped file, or NULL */
    uint64_t first;     /* queue offset of data[0] */
    uint64_t reserved;  /* units of this file that may be written; 0 when none is mapped */
};

/* The content of units before the first message of a queue's first file: offset 0, tags code 0 and this size. */
#define CONSUME_QUEUE_BLANK_SIZE 0x7FFFFFFFu

/* Stores the unit at its place in the mapped file. The size comes last: a unit that a SIGKILL cut short has no size and so
 * counts as missing. A plain store order is enough for that, because all completed stores of a killed process count. */
static inline void queue_unit_store(uint8_t *at, const struct queue_unit *unit)
{
    store_be64(at, unit->physical_offset);
    store_be64(at + 12, (uint64_t)unit->tags_code);
    __atomic_signal_fence(__ATOMIC_RELEASE);
    store_be32(at + 8, unit->size);
}

/* The common case of consume_queue_put: the place is mapped and reserved. Returns false if it is not. */
static inline bool consume_queue_quick(const struct consume_queue_writer *writer, uint64_t queue_offset,
                                       const struct queue_unit *unit)
{
    const uint64_t index = queue_offset - writer->first; /* very large if the offset is before first */
    if (index >= writer->reserved)
        return false;
    queue_unit_store(writer->data + index * CONSUME_QUEUE_UNIT, unit);
    return true;
}

/* <store>/consumequeue/<topic>/<queue id>; path has room for STORE_FOLDER_ROOM bytes. */
void consume_queue_folder(char *path, const char *store, const uint8_t *topic, uint32_t topic_size, uint32_t queue_id);

/* <folder>/<20-digit byte offset> of the file whose first unit has the queue offset `first`; path has room for STORE_FILE_ROOM
 * bytes. */
void consume_queue_path(char *path, const char *folder, uint64_t first);

/* Writes the unit at its fixed place; makes the folder and the file if they are missing. If a file is opened and the units
 * right before this one were never written, they are filled as RocketMQ does (0, 0x7FFFFFFF, 0): the queue's first unit is then
 * inside a file. Writing a unit again changes nothing. Returns 0, or an errno (usually ENOSPC) with nothing written. */
int consume_queue_put(struct consume_queue_writer *writer, const char *folder, uint32_t file_units, uint64_t queue_offset,
                      const struct queue_unit *unit);
void consume_queue_writer_close(struct consume_queue_writer *writer, uint32_t file_units);

/* Dates the file that ends before queue_offset, where a file begins: its units are of messages stored before store_ms. RocketMQ
 * looks for a time in the first file that was modified at or after it, and a mapped file's own date only says when one of its
 * pages was first touched. */
void consume_queue_date(const char *folder, uint32_t file_units, uint64_t queue_offset, uint64_t store_ms);

/* For recovery and retention, over units that lie in one file. consume_queue_good: how many units from data[0] on are whole:
 * a size above 0, and, unless blank, a place at or after `floor` and each predecessor's end and an end at or below `limit` of the log.
 * *end: physical end of the last of them that is not blank; untouched if there is none. */
uint32_t consume_queue_good(const uint8_t *data, uint32_t units, uint64_t floor, uint64_t limit, uint64_t *end);

/* Index of the first unit that is not blank and lies at or after min_offset of the log; `units` if there is none. */
uint32_t consume_queue_first(const uint8_t *data, uint32_t units, uint64_t min_offset);

struct consume_queue_reader {
    const uint8_t *data;
    uint64_t first;
};

/* The unit's bytes; *units units follow each other there in this file. NULL with errno. The caller has checked queue_offset <
 * max_offset. */
const uint8_t *consume_queue_at(struct consume_queue_reader *reader, const char *folder, uint32_t file_units,
                                uint64_t queue_offset, uint64_t *units);
void consume_queue_reader_close(struct consume_queue_reader *reader, uint32_t file_units);

#endif

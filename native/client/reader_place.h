/* What the files of the reader share: where units and records lie in memory, and what is noted of one that cannot be had.
 *
 *   reader.c         a reader's life; rounds over its queues, fetches out of them
 *   reader_queues.c  which queues it reads and where it stands in each, which messages it wants
 *   reader_copy.c    bodies that are checked while they are copied
 *   reader_search.c  single messages: by physical offset, by store time
 *   reader_place.c   the mapped files behind all of these
 */
#ifndef ORBITMQ_READER_PLACE_H
#define ORBITMQ_READER_PLACE_H

#include "client/reader.h"

/* Makes room for `needed` elements in an array that may move; returns 0 or ENOMEM. */
int reader_grow(void **array, uint32_t *room, uint32_t needed, size_t element);

static inline void reader_blame(struct reader *reader, uint32_t cursor, uint64_t queue_offset, uint64_t physical_offset,
                  enum record_fault record, int error)
{
    reader->fault = (struct reader_fault){.record = record, .error = error, .cursor = cursor, .queue_offset = queue_offset,
                                          .physical_offset = physical_offset};
}

/* Pins the file of a physical offset for this fetch, and makes it the current one. Returns 0 or an errno. */
int reader_pin(struct reader *reader, uint64_t physical_offset);

/* Bytes that may be read at a physical offset: to the end of its file. 0 with errno in *error. */
static inline uint64_t reader_locate(struct reader *reader, uint64_t physical_offset, const uint8_t **at, int *error)
{
    /* unsigned: an offset below log_start wraps to a huge one */
    if (physical_offset - reader->log_start >= reader->log_end - reader->log_start) {
        *error = reader_pin(reader, physical_offset);
        if (*error)
            return 0;
    }
    *at = reader->log_data + (physical_offset - reader->log_start);
    return reader->log_end - physical_offset;
}

/* The cursor's next units that follow each other in memory; 0 with the fault set. */
uint64_t reader_units_at(struct reader *reader, uint32_t index, uint64_t offset, const uint8_t **units);

#endif

/* The mapped files behind a reader: those of the log, pinned while a fetch points into them, and a ConsumeQueue's file for each
 * cursor. */
#include "client/reader_place.h"
#include <errno.h>
#include <stdlib.h>

int reader_grow(void **array, uint32_t *room, uint32_t needed, size_t element)
{
    if (needed <= *room)
        return 0;
    uint32_t next = *room ? *room : 16;
    while (next < needed)
        next *= 2;
    void *larger = realloc(*array, next * element);
    if (!larger)
        return ENOMEM;
    *array = larger;
    *room = next;
    return 0;
}

int reader_pin(struct reader *reader, uint64_t physical_offset)
{
    struct log_file *file = log_map_pin(&reader->log, physical_offset);
    if (!file)
        return errno ? errno : EIO;
    bool known = false;
    for (uint32_t i = 0; i < reader->pinned_count; i++)
        known |= reader->pinned[i] == file;
    if (known) {
        log_map_unpin(&reader->log, file);
    } else {
        assert(reader->pinned_count < LOG_MAP_SLOTS);
        reader->pinned[reader->pinned_count++] = file;
    }
    reader->log_file = file;
    reader->log_data = file->data;
    reader->log_start = file->start;
    reader->log_end = file->start + reader->log.file_size;
    return 0;
}

void reader_release(struct reader *reader)
{
    for (uint32_t i = 0; i < reader->pinned_count; i++)
        log_map_unpin(&reader->log, reader->pinned[i]);
    reader->pinned_count = 0;
    if (reader->count)
        reader->recent = reader->count;
    reader->count = 0;
    /* the file of the last record must no longer be used */
    reader->log_file = NULL;
    reader->log_start = reader->log_end = 0;
}

uint64_t reader_units_at(struct reader *reader, uint32_t index, uint64_t offset, const uint8_t **units)
{
    struct reader_cursor *cursor = &reader->cursors[index];
    if (offset < cursor->units_first || offset >= cursor->units_end) {
        const struct reader_name *name = &reader->names[cursor->name];
        char folder[STORE_FOLDER_ROOM];
        uint64_t count = 0;
        consume_queue_folder(folder, reader->store, name->text, name->size, cursor->queue_id);
        cursor->units_first = cursor->units_end = 0;
        cursor->units = consume_queue_at(&cursor->file, folder, reader->queue_file_units, offset, &count);
        if (!cursor->units || count == 0) {
            reader_blame(reader, index, offset, 0, RECORD_GOOD, errno ? errno : EIO);
            reader->fault.in_queue = true;
            return 0;
        }
        cursor->units_first = offset;
        cursor->units_end = offset + count;
    }
    *units = cursor->units + (offset - cursor->units_first) * CONSUME_QUEUE_UNIT;
    return cursor->units_end - offset;
}

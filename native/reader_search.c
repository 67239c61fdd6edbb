/* Single messages of a store: by physical offset, and by store time in a queue. */
#include "reader_place.h"
#include <errno.h>

bool reader_record(struct reader *reader, uint64_t physical_offset)
{
    reader_release(reader);
    reader->fault = (struct reader_fault){0};
    if (reader_grow((void **)&reader->refs, &reader->room, 1, sizeof *reader->refs)) {
        reader_blame(reader, 0, 0, physical_offset, RECORD_GOOD, ENOMEM);
        return false;
    }
    const uint8_t *record;
    int error = 0;
    const uint64_t available = reader_locate(reader, physical_offset, &record, &error);
    struct record_view view;
    enum record_fault fault = available ? record_check(record, available, physical_offset, &view) : RECORD_GOOD;
    if (available && fault == RECORD_GOOD && view.prepared_offset == RECORD_STANDS_IN)
        fault = RECORD_LOST;
    if (!available || fault != RECORD_GOOD) {
        reader_blame(reader, 0, 0, physical_offset, fault, error);
        return false;
    }
    reader->refs[0] = (struct message_ref){.record = record, .file = reader->log_file, .physical_offset = physical_offset,
                                           .queue_offset = view.queue_offset, .size = view.total_size,
                                           .body_at = (uint32_t)(view.body.data - record), .body_size = view.body.size};
    reader->count = 1;
    return true;
}

/* Store timestamp of one unit's record. */
static bool store_ms_at(struct reader *reader, uint32_t index, uint64_t offset, uint64_t *store_ms)
{
    const uint8_t *unit_at;
    if (reader_units_at(reader, index, offset, &unit_at) == 0)
        return false;
    const struct queue_unit unit = queue_unit_load(unit_at);
    const uint8_t *record;
    int error = 0;
    const uint64_t available = reader_locate(reader, unit.physical_offset, &record, &error);
    struct record_view view;
    const enum record_fault fault = available ? record_parse(record, available, &view) : RECORD_GOOD;
    if (!available || fault != RECORD_GOOD) {
        reader_blame(reader, index, offset, unit.physical_offset, fault, error);
        return false;
    }
    *store_ms = view.store_ms;
    return true;
}

/* The first unit of [min, max) stored at or after store_ms, or max. */
static bool first_since(struct reader *reader, uint32_t index, uint64_t min, uint64_t max, uint64_t store_ms,
                        uint64_t *queue_offset)
{
    uint64_t low = min, high = max; /* it is in [low, high] */
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        uint64_t at_ms;
        if (!store_ms_at(reader, index, middle, &at_ms))
            return false;
        if (at_ms >= store_ms)
            high = middle;
        else
            low = middle + 1;
    }
    *queue_offset = low;
    return true;
}

/* What RocketMQ finds. */
static bool nearest(struct reader *reader, uint32_t index, uint64_t min, uint64_t max, uint64_t store_ms, uint64_t *queue_offset)
{
    uint64_t low;
    if (!first_since(reader, index, min, max, store_ms, &low))
        return false;
    if (low == max) { /* everything is older: the last message, as RocketMQ does */
        *queue_offset = max > min ? max - 1 : min;
        return true;
    }
    *queue_offset = low;
    if (low == min)
        return true;
    uint64_t left_ms, right_ms;
    if (!store_ms_at(reader, index, low - 1, &left_ms) || !store_ms_at(reader, index, low, &right_ms))
        return false;
    /* the right neighbour wins only when it is strictly nearer; an exact match is nearer than anything */
    if (right_ms - store_ms >= store_ms - left_ms)
        *queue_offset = low - 1;
    return true;
}

typedef bool search(struct reader *reader, uint32_t index, uint64_t min, uint64_t max, uint64_t store_ms, uint64_t *queue_offset);

static bool search_readable(struct reader *reader, uint32_t index, uint64_t store_ms, uint64_t *queue_offset, search *find)
{
    uint64_t min, max, begun;
    reader_bounds(reader, index, &min, &max);
    do {
        reader->fault = (struct reader_fault){0};
        if (find(reader, index, min, max, store_ms, queue_offset))
            return true;
        /* Retention may have taken what we were looking at; then there is less to search. */
        begun = min;
        reader_bounds(reader, index, &min, &max);
    } while (min != begun);
    return false;
}

bool reader_search_time(struct reader *reader, uint32_t index, uint64_t store_ms, uint64_t *queue_offset)
{
    return search_readable(reader, index, store_ms, queue_offset, nearest);
}

bool reader_since(struct reader *reader, uint32_t index, uint64_t store_ms, uint64_t *queue_offset)
{
    return search_readable(reader, index, store_ms, queue_offset, first_since);
}

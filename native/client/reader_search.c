/* Single messages of a store: by physical offset, and by store time in a queue (docs/time.md). */
#include "client/reader_place.h"
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

#define SEARCH_UNITS 8192u /* looked at in one step, if times do not rise */
#define SEARCH_FILES 2u    /* of the log pinned meanwhile */

static bool unit_at(struct reader *reader, uint32_t index, uint64_t offset, struct queue_unit *unit)
{
    const uint8_t *at;
    if (reader_units_at(reader, index, offset, &at) == 0)
        return false;
    *unit = queue_unit_load(at);
    return true;
}

/* Store timestamp of one unit's record. */
static bool store_ms_at(struct reader *reader, uint32_t index, uint64_t offset, uint64_t *store_ms)
{
    struct queue_unit unit;
    if (!unit_at(reader, index, offset, &unit))
        return false;
    if (reader->pinned_count > SEARCH_FILES)
        reader_release(reader);
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

/* The first unit of [low, high) whose record is at or behind a physical offset, or high. A queue's units lead forward through
 * the log, whichever broker wrote it. */
static bool first_behind(struct reader *reader, uint32_t index, uint64_t low, uint64_t high, uint64_t physical, uint64_t *offset)
{
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        struct queue_unit unit;
        if (!unit_at(reader, index, middle, &unit))
            return false;
        if (unit.physical_offset >= physical)
            high = middle;
        else
            low = middle + 1;
    }
    *offset = low;
    return true;
}

static bool rising_units(struct reader *reader, uint32_t index, uint64_t min, uint64_t max, uint64_t *first, uint64_t *end)
{
    *first = *end = max;
    if (reader->rising_begin >= reader->rising_end)
        return true;
    if (reader->rising_begin == 0)
        *first = min;
    else if (!first_behind(reader, index, min, max, reader->rising_begin, first))
        return false;
    return reader->rising_end == UINT64_MAX || first_behind(reader, index, *first, max, reader->rising_end, end);
}

/* The first unit of [low, high) stored at or after store_ms, or high; times rise there. */
static bool first_since(struct reader *reader, uint32_t index, uint64_t low, uint64_t high, uint64_t store_ms, uint64_t *offset)
{
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
    *offset = low;
    return true;
}

/* The same for [search->offset, high) if times need not rise. A damaged message has no time, and is skipped. */
static enum reader_found look_through(struct reader *reader, struct reader_search *search, uint64_t high, uint32_t *left)
{
    for (; search->offset < high; search->offset++) {
        if ((*left)-- == 0) {
            *left = 0;
            return READER_SEARCHING;
        }
        uint64_t at_ms;
        if (store_ms_at(reader, search->cursor, search->offset, &at_ms)) {
            if (at_ms >= search->store_ms)
                return READER_FOUND;
        } else if (reader->fault.record == RECORD_GOOD) {
            return READER_FAULTY;
        }
        reader->fault = (struct reader_fault){0};
    }
    return READER_FOUND;
}

/* What RocketMQ finds, if search->offset is the first message stored at or after the time. */
static bool nearest(struct reader *reader, struct reader_search *search)
{
    const uint64_t min = search->first, found = search->offset;
    if (found >= search->max) { /* everything is older: the last message, as RocketMQ does */
        search->offset = search->max > min ? search->max - 1 : min;
        return true;
    }
    if (found <= min)
        return true;
    uint64_t left_ms, right_ms;
    if (!store_ms_at(reader, search->cursor, found - 1, &left_ms) || !store_ms_at(reader, search->cursor, found, &right_ms))
        return false;
    /* the right neighbour wins only if it is strictly nearer; an exact match is nearer than anything */
    if (right_ms - search->store_ms >= search->store_ms - left_ms)
        search->offset = found - 1;
    return true;
}

static enum reader_found step(struct reader *reader, struct reader_search *search)
{
    const uint32_t index = search->cursor;
    uint32_t left = SEARCH_UNITS;
    if (!search->begun) {
        if (!rising_units(reader, index, search->offset, search->max, &search->rising, &search->rising_end))
            return READER_FAULTY;
        search->begun = true;
    }
    if (search->offset < search->rising) {
        const enum reader_found found = look_through(reader, search, search->rising, &left);
        if (found != READER_FOUND || search->offset < search->rising)
            return found;
    }
    if (search->offset < search->rising_end) {
        if (!first_since(reader, index, search->offset, search->rising_end, search->store_ms, &search->offset))
            return READER_FAULTY;
        if (search->offset < search->rising_end)
            return READER_FOUND;
    }
    return look_through(reader, search, search->max, &left);
}

enum reader_found reader_search_step(struct reader *reader, struct reader_search *search)
{
    if (!search->begun) {
        reader_bounds(reader, search->cursor, &search->first, &search->max);
        search->offset = search->first;
    }
    for (;;) {
        reader->fault = (struct reader_fault){0};
        const enum reader_found found = step(reader, search);
        if (found == READER_FOUND && (!search->nearest || nearest(reader, search)))
            return READER_FOUND;
        if (found == READER_SEARCHING)
            return READER_SEARCHING;
        /* Retention may have removed what we were looking at; then there is less to search. */
        uint64_t min, max;
        reader_bounds(reader, search->cursor, &min, &max);
        if (min <= search->first)
            return READER_FAULTY;
        search->first = min;
        if (search->offset < min)
            search->offset = min;
    }
}

void reader_trust(struct reader *reader, uint64_t begin, uint64_t end)
{
    assert(!reader->control);
    reader->rising_begin = begin;
    reader->rising_end = end;
}

bool reader_rising(struct reader *reader, uint32_t cursor, uint64_t *first, uint64_t *end)
{
    uint64_t min, max;
    reader_bounds(reader, cursor, &min, &max);
    reader->fault = (struct reader_fault){0};
    return rising_units(reader, cursor, min, max, first, end);
}

/* Works in rounds: each queue is visited until it holds nothing more. A fetch is staged unit by unit, so that the records'
 * first lines are being fetched from memory, and then checked record by record. reader_place.h says what is in which file. */
#include "client/reader_place.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct reader *reader_open(const struct control *control, const struct topics *topics, const char *store,
                           uint64_t log_file_size, uint32_t queue_file_units)
{
    assert((control == NULL) == (topics == NULL));
    struct reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return NULL;
    reader->control = control;
    reader->topics = topics;
    reader->queue_file_units = queue_file_units;
    reader->verify = true;
    if (control) { /* our writer's times rise for as long as the tree lives */
        reader->rising_begin = control->rising_from;
        reader->rising_end = UINT64_MAX;
    }
    snprintf(reader->store, sizeof reader->store, "%s", store);
    log_map_open(&reader->log, reader->store, log_file_size, false);
    return reader;
}

void reader_close(struct reader *reader)
{
    reader_release(reader);
    reader_clear(reader);
    reader_filter(reader, NULL, 0);
    reader_filter_sql(reader, NULL);
    free(reader->refs);
    free(reader->cursors);
    free(reader->names);
    reader->refs = NULL;
    reader->cursors = NULL;
    reader->names = NULL;
    reader->room = reader->cursor_room = reader->name_room = 0;
    reader->control = NULL;
    reader->topics = NULL;
    log_map_forget(&reader->log, UINT64_MAX);
}

void reader_free(struct reader *reader)
{
    log_map_close(&reader->log);
    free(reader);
}

void reader_recheck(struct reader *reader) { reader->left = reader->cursor_count; }

/* Begins a round if anything was indexed since the last one began, and drops the files that retention has removed. */
static void look_for_news(struct reader *reader)
{
    if (!reader->control)
        return;
    /* relaxed: only decides when memory, and space on the disk, is given back */
    const uint64_t log_min = atomic_load_explicit(&reader->control->min_offset.value, memory_order_relaxed);
    if (log_min != reader->log_min_seen) {
        reader->log_min_seen = log_min;
        reader->log_file = NULL;
        reader->log_start = reader->log_end = 0;
        log_map_forget(&reader->log, log_min);
    }
    /* acquire: reput publishes max_offset of the queues before its position, so a position seen here has its queues'
     * offsets behind it. Pairs with reput's release [P1]. */
    const uint64_t reput = atomic_load_explicit(&reader->control->reput.value, memory_order_acquire);
    if (reput == reader->reput_seen)
        return;
    reader->reput_seen = reput;
    reader->left = reader->cursor_count;
}

static void rotate(struct reader *reader)
{
    reader->next = reader->next + 1 < reader->cursor_count ? reader->next + 1 : 0;
}

bool reader_ready(struct reader *reader)
{
    look_for_news(reader);
    for (; reader->left > 0; reader->left--, rotate(reader)) {
        uint64_t min, max;
        const struct reader_cursor *cursor = &reader->cursors[reader->next];
        reader_bounds(reader, reader->next, &min, &max);
        if (max > cursor->position && !cursor->paused)
            return true;
    }
    return false;
}

enum judged { JUDGED_GOOD, JUDGED_PASSED, JUDGED_FAULTY };

/* Checks one record of a staged reference and completes the reference. Topic, queue and queue offset are compared because a unit may
 * point to a whole record of another queue. */
static inline enum judged judge(struct reader *reader, struct message_ref *ref, uint32_t queue_id, const struct reader_name *topic)
{
    struct record_view view;
    const uint64_t available = reader->log.file_size - (ref->physical_offset - ref->file->start);
    enum record_fault fault = record_parse(ref->record, available, &view);
    if (fault == RECORD_GOOD && view.total_size != ref->size)
        fault = RECORD_BAD_SIZE;
    if (fault == RECORD_GOOD && (view.physical_offset != ref->physical_offset || view.queue_offset != ref->queue_offset ||
                                 view.queue_id != queue_id || view.topic.size != topic->size ||
                                 !bytes_equal(view.topic.data, topic->text, topic->size)))
        fault = RECORD_BAD_PLACE;
    if (fault == RECORD_GOOD && reader->sql &&
        sql_evaluate(reader->sql, view.properties.data, view.properties.size) != SQL_TRUE)
        return JUDGED_PASSED;
    if (fault == RECORD_GOOD) {
        ref->body_at = (uint32_t)(view.body.data - ref->record);
        ref->body_size = view.body.size;
        if (reader->verify && reader_checked(reader, ref))
            fault = record_check_body(ref->record, &view);
    }
    if (fault != RECORD_GOOD) {
        reader_blame(reader, ref->cursor, ref->queue_offset, ref->physical_offset, fault, 0);
        return JUDGED_FAULTY;
    }
    if (view.prepared_offset == RECORD_STANDS_IN || !tag_filter_passes(&reader->tags, ref->tags_code, view.properties))
        return JUDGED_PASSED;
    return JUDGED_GOOD;
}

enum taken {
    TAKEN_ALL,    /* nothing is left to read in this queue */
    TAKEN_SOME,   /* the fetch or the scan limit ended the run */
    TAKEN_FAULTY, /* reader->fault says why the next message cannot be read */
};

/* How much of the store one fetch may still take. */
struct budget {
    uint32_t units; /* to look at */
    uint64_t bytes; /* of bodies and properties; the last record may exceed them */
};

static inline void spend(struct budget *budget, uint32_t record_size)
{
    const uint64_t bytes = record_size > RECORD_FIXED ? record_size - RECORD_FIXED : 0;
    budget->bytes -= bytes < budget->bytes ? bytes : budget->bytes;
}

/* Decodes units into references after the fetch, wanted tags only, each with its record's address. Returns units looked at; *staged
 * references are at refs[count ...]. Stops where the budget ends, and before a unit whose record's file cannot be opened, with
 * *error set. */
static uint32_t stage(struct reader *reader, uint32_t index, uint64_t offset, const uint8_t *units, uint32_t count,
                      struct budget *budget, uint32_t *staged, int *error)
{
    struct message_ref *ref = reader->refs + reader->count;
    uint32_t i = 0;
    for (; i < count && budget->bytes; i++) {
        const struct queue_unit unit = queue_unit_load(units + (uint64_t)i * CONSUME_QUEUE_UNIT);
        if (!tag_filter_wants(&reader->tags, unit.tags_code))
            continue;
        const uint8_t *record;
        if (reader_locate(reader, unit.physical_offset, &record, error) == 0) {
            reader_blame(reader, index, offset + i, unit.physical_offset, RECORD_GOOD, *error);
            break;
        }
        *ref++ = (struct message_ref){.record = record, .file = reader->log_file, .physical_offset = unit.physical_offset,
                                      .queue_offset = offset + i, .tags_code = unit.tags_code, .size = unit.size,
                                      .cursor = index};
        spend(budget, ref[-1].size);
    }
    budget->units -= i;
    *staged = (uint32_t)(ref - (reader->refs + reader->count));
    return i;
}

/* The lines that a check of a usual record touches. A prefetch of an address that is not mapped does nothing. */
static inline void prefetch(const struct message_ref *ref)
{
    const uint32_t most = 512;
    const uint32_t size = ref->size < most ? ref->size : most;
    for (uint32_t at = 0; at < size; at += SEGMENT_LINE)
        __builtin_prefetch(ref->record + at);
}

/* Checks the staged references and keeps those that match. False at the first faulty one, with its offset in *next_offset,
 * where the reader continues. */
static bool check(struct reader *reader, uint32_t staged, const struct reader_cursor *cursor, uint64_t *next_offset)
{
    const struct reader_name *topic = &reader->names[cursor->name];
    struct message_ref *refs = reader->refs + reader->count;
    struct message_ref *kept = refs;
    for (uint32_t i = 0; i < staged && i < READER_AHEAD; i++)
        prefetch(&refs[i]);
    for (uint32_t i = 0; i < staged; i++) {
        if (i + READER_AHEAD < staged)
            prefetch(&refs[i + READER_AHEAD]);
        const enum judged judged = judge(reader, &refs[i], cursor->queue_id, topic);
        if (judged == JUDGED_FAULTY) {
            *next_offset = refs[i].queue_offset;
            reader->count += (uint32_t)(kept - refs);
            return false;
        }
        if (judged == JUDGED_GOOD) {
            if (kept != &refs[i])
                *kept = refs[i];
            kept++;
        }
    }
    reader->count += (uint32_t)(kept - refs);
    return true;
}

/* Skips messages that retention removed. */
static void pass_removed(struct reader *reader, struct reader_cursor *cursor, uint64_t position)
{
    reader->skipped += position - cursor->position;
    cursor->removed += position - cursor->position;
    cursor->removed_end = cursor->position = position;
}

/* True if retention removed the unit at the position between our look at min_offset and now: the reader skips it. */
static bool expired(struct reader *reader, struct reader_cursor *cursor)
{
    if (!cursor->queue)
        return false;
    /* acquire: as in reader_bounds; the new min is published before files are unlinked [O1] */
    const uint64_t min = atomic_load_explicit(&cursor->queue->min_offset, memory_order_acquire);
    if (cursor->position < min) {
        pass_removed(reader, cursor, min);
        reader->fault = (struct reader_fault){0};
        return true;
    }
    const uint64_t log_min = atomic_load_explicit(&reader->control->min_offset.value, memory_order_acquire);
    if (!reader->fault.in_queue && reader->fault.error == ENOENT && reader->fault.physical_offset < log_min) {
        pass_removed(reader, cursor, cursor->position + 1);
        reader->fault = (struct reader_fault){0};
        return true;
    }
    return false;
}

/* Takes up to `most` messages of one queue. */
static enum taken take_run(struct reader *reader, uint32_t index, uint32_t most, struct budget *budget)
{
    struct reader_cursor *cursor = &reader->cursors[index];
    if (cursor->paused)
        return TAKEN_ALL;
    uint64_t min, max;
    reader_bounds(reader, index, &min, &max);
    if (cursor->position < min)
        pass_removed(reader, cursor, min);
    while (cursor->position < max) {
        const uint32_t room = most - reader->count;
        if (room == 0 || budget->units == 0 || budget->bytes == 0)
            return TAKEN_SOME;
        const uint8_t *units;
        uint64_t run = reader_units_at(reader, index, cursor->position, &units);
        if (run == 0) {
            if (expired(reader, cursor))
                continue;
            return TAKEN_FAULTY;
        }
        if (run > max - cursor->position)
            run = max - cursor->position;
        if (run > room)
            run = room;
        if (run > budget->units)
            run = budget->units;
        uint32_t staged = 0;
        int error = 0;
        const uint64_t bytes = budget->bytes;
        const uint32_t count = reader->count;
        const uint32_t looked = stage(reader, index, cursor->position, units, (uint32_t)run, budget, &staged, &error);
        uint64_t next = cursor->position + looked;
        reader->looked += looked;
        const bool good = check(reader, staged, cursor, &next);
        cursor->position = next;
        if (reader->count - count < staged) { /* what was passed over costs nothing */
            budget->bytes = bytes;
            for (uint32_t i = count; i < reader->count; i++)
                spend(budget, reader->refs[i].size);
        }
        /* A unit without a message may also have fallen below a min_offset raised since: the blank ones before a queue's first
         * message. */
        if ((!good || error) && !expired(reader, cursor))
            return TAKEN_FAULTY;
    }
    return TAKEN_ALL;
}

uint32_t reader_fetch(struct reader *reader, uint32_t most, uint64_t bytes, enum reader_use use)
{
    reader_release(reader);
    reader->unchecked = reader->verify && use == READER_COPIES;
    reader->fault = (struct reader_fault){0};
    if (reader_grow((void **)&reader->refs, &reader->room, most, sizeof *reader->refs)) {
        reader_blame(reader, 0, 0, 0, RECORD_GOOD, ENOMEM);
        return 0;
    }
    look_for_news(reader);
    struct budget budget = {.units = READER_SCAN_UNITS, .bytes = bytes};
    while (reader->left > 0 && reader->count < most && budget.units > 0 && budget.bytes > 0) {
        const enum taken taken = take_run(reader, reader->next, most, &budget);
        if (taken == TAKEN_ALL) {
            reader->left--;
            rotate(reader);
            continue;
        }
        /* this queue holds more, so the round starts over; after a fault only if nobody has to be told about it first */
        reader->left = reader->cursor_count;
        if (taken == TAKEN_FAULTY && reader->count > 0) {
            reader->fault = (struct reader_fault){0};
            return reader->count;
        }
        rotate(reader);
        if (taken == TAKEN_FAULTY)
            return 0;
    }
    return reader->count;
}

uint32_t reader_more(struct reader *reader, uint32_t most, uint64_t bytes, enum reader_use use)
{
    const uint32_t count = reader_fetch(reader, most, bytes, use);
    if (count == 0 && (reader->fault.record != RECORD_GOOD || reader->fault.error)) {
        reader->next = reader->fault.cursor;
        reader->fault = (struct reader_fault){0};
    }
    return count;
}

uint32_t reader_fetch_range(struct reader *reader, uint32_t cursor, uint64_t first, uint32_t count)
{
    assert(cursor < reader->cursor_count);
    reader_release(reader);
    reader->unchecked = false;
    reader->fault = (struct reader_fault){0};
    if (reader_grow((void **)&reader->refs, &reader->room, count, sizeof *reader->refs)) {
        reader_blame(reader, cursor, first, 0, RECORD_GOOD, ENOMEM);
        return 0;
    }
    look_for_news(reader);
    reader->cursors[cursor].position = first;
    struct budget budget = {.units = count, .bytes = UINT64_MAX};
    take_run(reader, cursor, count, &budget);
    /* Where retention has removed some, the run went on behind the range. */
    while (reader->count > 0 && reader->refs[reader->count - 1].queue_offset >= first + count)
        reader->count--;
    return reader->count;
}

void reader_pass(struct reader *reader)
{
    reader->next = reader->fault.cursor;
    reader->left = reader->cursor_count;
    rotate(reader);
}

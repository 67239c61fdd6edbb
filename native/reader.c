#include "reader.h"
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
    snprintf(reader->store, sizeof reader->store, "%s", store);
    log_map_open(&reader->log, reader->store, log_file_size, false);
    return reader;
}

void reader_close(struct reader *reader)
{
    reader_release(reader);
    reader_clear(reader);
    reader_filter(reader, NULL, 0);
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

/* Makes room for one element more; returns 0 or ENOMEM. */
static int grow(void **array, uint32_t *room, uint32_t needed, size_t element)
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

/* The index of a topic's name; topics are few beside queues, and queues of one topic come together. */
static int64_t name_index(struct reader *reader, const uint8_t *text, uint32_t size)
{
    for (uint32_t i = reader->name_count; i-- > 0;)
        if (reader->names[i].size == size && memcmp(reader->names[i].text, text, size) == 0)
            return i;
    if (grow((void **)&reader->names, &reader->name_room, reader->name_count + 1, sizeof *reader->names))
        return -1;
    struct reader_name *name = &reader->names[reader->name_count];
    memset(name, 0, sizeof *name);
    name->size = size;
    memcpy(name->text, text, size);
    return reader->name_count++;
}

static int64_t add(struct reader *reader, const uint8_t *topic, uint32_t topic_size, struct reader_cursor cursor)
{
    const int64_t name = name_index(reader, topic, topic_size);
    if (name < 0 || grow((void **)&reader->cursors, &reader->cursor_room, reader->cursor_count + 1, sizeof cursor)) {
        errno = ENOMEM;
        return -1;
    }
    cursor.name = (uint32_t)name;
    reader->cursors[reader->cursor_count++] = cursor;
    reader->left = reader->cursor_count;
    return reader->cursor_count - 1;
}

int64_t reader_add(struct reader *reader, uint32_t slot, uint64_t position)
{
    const struct topics *topics = reader->topics;
    /* acquire: the slot's topic and number were written before the count was raised. Pairs with the release in topics_add [T2]. */
    if (!topics || slot >= atomic_load_explicit(&topics->queue_count, memory_order_acquire)) {
        errno = EINVAL;
        return -1;
    }
    const struct queue_slot *queue = topics_queue(topics, slot);
    const struct topic_entry *topic = &topics->topic[queue->topic & (topics->topic_capacity - 1)];
    /* acquire: state before the rest of the entry. Pairs with the release in topics_add [T1]. */
    if (atomic_load_explicit(&topic->state, memory_order_acquire) != TOPIC_LIVE) {
        errno = EINVAL;
        return -1;
    }
    return add(reader, topic->name, topic->name_size,
               (struct reader_cursor){.queue = queue, .position = position, .queue_id = queue->queue_id});
}

int64_t reader_add_offline(struct reader *reader, const uint8_t *topic, uint32_t topic_size, uint32_t queue_id,
                           uint64_t begin, uint64_t end)
{
    if (topic_size == 0 || topic_size > TOPIC_NAME_MAX || begin > end) {
        errno = EINVAL;
        return -1;
    }
    return add(reader, topic, topic_size,
               (struct reader_cursor){.position = begin, .begin = begin, .end = end, .queue_id = queue_id});
}

void reader_clear(struct reader *reader)
{
    for (uint32_t i = 0; i < reader->cursor_count; i++)
        consume_queue_reader_close(&reader->cursors[i].file, reader->queue_file_units);
    reader->cursor_count = reader->name_count = 0;
    reader->next = reader->left = 0;
}

void reader_bounds(const struct reader *reader, uint32_t index, uint64_t *min, uint64_t *max)
{
    assert(index < reader->cursor_count);
    const struct reader_cursor *cursor = &reader->cursors[index];
    if (!cursor->queue) {
        *min = cursor->begin;
        *max = cursor->end;
        return;
    }
    /* acquire: units and records below max_offset before their bytes are read. Pairs with reput's release [Q1]. min_offset
     * only grows and never passes max_offset, so the older of the two is read first. */
    *min = atomic_load_explicit(&cursor->queue->min_offset, memory_order_acquire);
    *max = atomic_load_explicit(&cursor->queue->max_offset, memory_order_acquire);
}

void reader_seek(struct reader *reader, uint32_t index, uint64_t position)
{
    assert(index < reader->cursor_count);
    reader->cursors[index].position = position;
    reader->left = reader->cursor_count;
}

int reader_filter(struct reader *reader, const struct slice *tags, uint32_t count)
{
    for (uint32_t i = 0; i < reader->tag_count; i++)
        free(reader->tags[i].text);
    free(reader->tags);
    reader->tags = NULL;
    reader->tag_count = 0;
    if (count == 0)
        return 0;
    reader->tags = calloc(count, sizeof *reader->tags);
    if (!reader->tags)
        return ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        struct reader_tag *tag = &reader->tags[i];
        tag->text = malloc(tags[i].size + 1);
        if (!tag->text)
            return ENOMEM;
        memcpy(tag->text, tags[i].data, tags[i].size);
        tag->size = tags[i].size;
        tag->code = tags_code(tags[i]);
        reader->tag_count = i + 1;
    }
    return 0;
}

void reader_recheck(struct reader *reader) { reader->left = reader->cursor_count; }

/* Begins a round when anything was indexed since the last one began, and drops the files that retention has taken. */
static void look_for_news(struct reader *reader)
{
    if (!reader->control)
        return;
    /* acquire: reput publishes max_offset of the queues before its position, so a position seen here has its queues'
     * offsets behind it. Pairs with reput's release [P1]. */
    const uint64_t reput = atomic_load_explicit(&reader->control->reput.value, memory_order_acquire);
    if (reput == reader->reput_seen)
        return;
    reader->reput_seen = reput;
    reader->left = reader->cursor_count;
    /* relaxed: only decides when memory is given back */
    const uint64_t log_min = atomic_load_explicit(&reader->control->min_offset.value, memory_order_relaxed);
    if (log_min != reader->log_min_seen) {
        reader->log_min_seen = log_min;
        reader->log_file = NULL;
        reader->log_start = reader->log_end = 0;
        log_map_forget(&reader->log, log_min);
    }
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
        reader_bounds(reader, reader->next, &min, &max);
        if (max > reader->cursors[reader->next].position)
            return true;
    }
    return false;
}

void reader_release(struct reader *reader)
{
    for (uint32_t i = 0; i < reader->pinned_count; i++)
        log_map_unpin(&reader->log, reader->pinned[i]);
    reader->pinned_count = 0;
    if (reader->count)
        reader->recent = reader->count;
    reader->count = 0;
    /* the file of the last record is no longer ours to believe in */
    reader->log_file = NULL;
    reader->log_start = reader->log_end = 0;
}

static void blame(struct reader *reader, uint32_t cursor, uint64_t queue_offset, uint64_t physical_offset,
                  enum record_fault record, int error)
{
    reader->fault = (struct reader_fault){.record = record, .error = error, .cursor = cursor, .queue_offset = queue_offset,
                                          .physical_offset = physical_offset};
}

/* Pins the file of a physical offset for this batch, and makes it the current one. Returns 0 or an errno. */
static int pin(struct reader *reader, uint64_t physical_offset)
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

/* Bytes that may be read at a physical offset: to the end of its file. 0 with errno in *error. */
static inline uint64_t locate(struct reader *reader, uint64_t physical_offset, const uint8_t **at, int *error)
{
    /* unsigned: an offset below log_start wraps to a huge one */
    if (physical_offset - reader->log_start >= reader->log_end - reader->log_start) {
        *error = pin(reader, physical_offset);
        if (*error)
            return 0;
    }
    *at = reader->log_data + (physical_offset - reader->log_start);
    return reader->log_end - physical_offset;
}

static bool tag_wanted(const struct reader *reader, int64_t code)
{
    for (uint32_t i = 0; i < reader->tag_count; i++)
        if (reader->tags[i].code == code)
            return true;
    return reader->tag_count == 0;
}

/* Different tags may share a code, so the string decides. */
static bool tag_matches(const struct reader *reader, int64_t code, struct slice properties)
{
    if (reader->tag_count == 0)
        return true;
    const struct slice tag = properties_get(properties.data, properties.size, "TAGS", 4);
    for (uint32_t i = 0; i < reader->tag_count; i++)
        if (reader->tags[i].code == code && tag.data && reader->tags[i].size == tag.size &&
            memcmp(reader->tags[i].text, tag.data, tag.size) == 0)
            return true;
    return false;
}

enum judged { JUDGED_GOOD, JUDGED_OTHER_TAG, JUDGED_FAULTY };

/* Checks one record of a staged reference and completes the reference. */
static inline enum judged judge(struct reader *reader, struct message_ref *ref, uint32_t queue_id)
{
    struct record_view view;
    const uint64_t available = reader->log.file_size - (ref->physical_offset - ref->file->start);
    enum record_fault fault = record_parse(ref->record, available, &view);
    if (fault == RECORD_GOOD && view.total_size != ref->size)
        fault = RECORD_BAD_SIZE;
    if (fault == RECORD_GOOD && (view.physical_offset != ref->physical_offset || view.queue_offset != ref->queue_offset ||
                                 view.queue_id != queue_id))
        fault = RECORD_BAD_PLACE;
    if (fault == RECORD_GOOD && reader->verify && !record_body_good(&view))
        fault = RECORD_BAD_BODY_CRC;
    if (fault != RECORD_GOOD) {
        blame(reader, ref->cursor, ref->queue_offset, ref->physical_offset, fault, 0);
        return JUDGED_FAULTY;
    }
    if (!tag_matches(reader, ref->tags_code, view.properties))
        return JUDGED_OTHER_TAG;
    ref->body_at = (uint32_t)(view.body.data - ref->record);
    ref->body_size = view.body.size;
    return JUDGED_GOOD;
}

/* The cursor's next units that follow each other in memory; 0 with the fault set. */
static uint64_t units_at(struct reader *reader, uint32_t index, uint64_t offset, const uint8_t **units)
{
    struct reader_cursor *cursor = &reader->cursors[index];
    if (offset < cursor->units_first || offset >= cursor->units_end) {
        const struct reader_name *name = &reader->names[cursor->name];
        char folder[4096];
        uint64_t count = 0;
        consume_queue_folder(folder, reader->store, name->text, name->size, cursor->queue_id);
        cursor->units_first = cursor->units_end = 0;
        cursor->units = consume_queue_at(&cursor->file, folder, reader->queue_file_units, offset, &count);
        if (!cursor->units || count == 0) {
            blame(reader, index, offset, 0, RECORD_GOOD, errno ? errno : EIO);
            reader->fault.in_queue = true;
            return 0;
        }
        cursor->units_first = offset;
        cursor->units_end = offset + count;
    }
    *units = cursor->units + (offset - cursor->units_first) * CONSUME_QUEUE_UNIT;
    return cursor->units_end - offset;
}

enum taken {
    TAKEN_ALL,    /* nothing is left to read in this queue */
    TAKEN_SOME,   /* the batch or the scan limit ended the run */
    TAKEN_FAULTY, /* reader->fault says why the next message cannot be read */
};

/* Decodes units into references behind the batch, wanted tags only, each with its record's address, and asks for the first
 * lines of the first records. Returns units looked at; *staged references stand at refs[count ...]. Stops before a unit whose
 * record's file cannot be had, with *error set. */
static uint32_t stage(struct reader *reader, uint32_t index, uint64_t offset, const uint8_t *units, uint32_t count,
                      uint32_t *staged, int *error)
{
    struct message_ref *ref = reader->refs + reader->count;
    uint32_t i = 0;
    for (; i < count; i++) {
        const struct queue_unit unit = queue_unit_load(units + (uint64_t)i * CONSUME_QUEUE_UNIT);
        if (!tag_wanted(reader, unit.tags_code))
            continue;
        const uint8_t *record;
        if (locate(reader, unit.physical_offset, &record, error) == 0) {
            blame(reader, index, offset + i, unit.physical_offset, RECORD_GOOD, *error);
            break;
        }
        *ref++ = (struct message_ref){.record = record, .file = reader->log_file, .physical_offset = unit.physical_offset,
                                      .queue_offset = offset + i, .tags_code = unit.tags_code, .size = unit.size,
                                      .cursor = index};
    }
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

/* Checks the staged references and keeps those that match. False at the first faulty one, with its offset in *next_offset:
 * the reader goes on there. */
static bool check(struct reader *reader, uint32_t staged, uint32_t queue_id, uint64_t *next_offset)
{
    struct message_ref *refs = reader->refs + reader->count;
    struct message_ref *kept = refs;
    for (uint32_t i = 0; i < staged && i < READER_AHEAD; i++)
        prefetch(&refs[i]);
    for (uint32_t i = 0; i < staged; i++) {
        if (i + READER_AHEAD < staged)
            prefetch(&refs[i + READER_AHEAD]);
        const enum judged judged = judge(reader, &refs[i], queue_id);
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

/* True when retention took the unit at the position between our look at min_offset and now: the reader moves on. */
static bool expired(struct reader *reader, struct reader_cursor *cursor)
{
    if (!cursor->queue)
        return false;
    /* acquire: as in reader_bounds; the new min is published before files are unlinked */
    const uint64_t min = atomic_load_explicit(&cursor->queue->min_offset, memory_order_acquire);
    if (cursor->position < min) {
        reader->skipped += min - cursor->position;
        cursor->position = min;
        reader->fault = (struct reader_fault){0};
        return true;
    }
    const uint64_t log_min = atomic_load_explicit(&reader->control->min_offset.value, memory_order_acquire);
    if (!reader->fault.in_queue && reader->fault.error == ENOENT && reader->fault.physical_offset < log_min) {
        reader->skipped++;
        cursor->position++;
        reader->fault = (struct reader_fault){0};
        return true;
    }
    return false;
}

/* Takes up to `most` messages of one queue; *scan is what may still be looked at in this fill. */
static enum taken take_run(struct reader *reader, uint32_t index, uint32_t most, uint32_t *scan)
{
    struct reader_cursor *cursor = &reader->cursors[index];
    uint64_t min, max;
    reader_bounds(reader, index, &min, &max);
    if (cursor->position < min) {
        reader->skipped += min - cursor->position;
        cursor->position = min;
    }
    while (cursor->position < max) {
        const uint32_t room = most - reader->count;
        if (room == 0 || *scan == 0)
            return TAKEN_SOME;
        const uint8_t *units;
        uint64_t run = units_at(reader, index, cursor->position, &units);
        if (run == 0) {
            if (expired(reader, cursor))
                continue;
            return TAKEN_FAULTY;
        }
        if (run > max - cursor->position)
            run = max - cursor->position;
        if (run > room)
            run = room;
        if (run > *scan)
            run = *scan;
        uint32_t staged = 0;
        int error = 0;
        const uint32_t looked = stage(reader, index, cursor->position, units, (uint32_t)run, &staged, &error);
        uint64_t next = cursor->position + looked;
        *scan -= looked;
        reader->looked += looked;
        const bool good = check(reader, staged, cursor->queue_id, &next);
        cursor->position = next;
        /* Also a unit that is none may have fallen below a min_offset raised since: the blank ones before a queue's first. */
        if ((!good || error) && !expired(reader, cursor))
            return TAKEN_FAULTY;
    }
    return TAKEN_ALL;
}

uint32_t reader_fill(struct reader *reader, uint32_t most)
{
    reader_release(reader);
    reader->fault = (struct reader_fault){0};
    if (grow((void **)&reader->refs, &reader->room, most, sizeof *reader->refs)) {
        blame(reader, 0, 0, 0, RECORD_GOOD, ENOMEM);
        return 0;
    }
    look_for_news(reader);
    uint32_t scan = READER_SCAN_UNITS;
    while (reader->left > 0 && reader->count < most && scan > 0) {
        const enum taken taken = take_run(reader, reader->next, most, &scan);
        if (taken == TAKEN_ALL) {
            reader->left--;
            rotate(reader);
            continue;
        }
        /* this queue holds more, so the round starts over; after a fault only when nobody has to be told it first */
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

uint32_t reader_more(struct reader *reader, uint32_t most)
{
    const uint32_t count = reader_fill(reader, most);
    if (count == 0 && (reader->fault.record != RECORD_GOOD || reader->fault.error)) {
        reader->next = reader->fault.cursor;
        reader->fault = (struct reader_fault){0};
    }
    return count;
}

bool reader_record(struct reader *reader, uint64_t physical_offset)
{
    reader_release(reader);
    reader->fault = (struct reader_fault){0};
    if (grow((void **)&reader->refs, &reader->room, 1, sizeof *reader->refs)) {
        blame(reader, 0, 0, physical_offset, RECORD_GOOD, ENOMEM);
        return false;
    }
    const uint8_t *record;
    int error = 0;
    const uint64_t available = locate(reader, physical_offset, &record, &error);
    struct record_view view;
    const enum record_fault fault = available ? record_check(record, available, physical_offset, &view) : RECORD_GOOD;
    if (!available || fault != RECORD_GOOD) {
        blame(reader, 0, 0, physical_offset, fault, error);
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
    if (units_at(reader, index, offset, &unit_at) == 0)
        return false;
    const struct queue_unit unit = queue_unit_load(unit_at);
    const uint8_t *record;
    int error = 0;
    const uint64_t available = locate(reader, unit.physical_offset, &record, &error);
    struct record_view view;
    const enum record_fault fault = available ? record_parse(record, available, &view) : RECORD_GOOD;
    if (!available || fault != RECORD_GOOD) {
        blame(reader, index, offset, unit.physical_offset, fault, error);
        return false;
    }
    *store_ms = view.store_ms;
    return true;
}

bool reader_search_time(struct reader *reader, uint32_t index, uint64_t store_ms, uint64_t *queue_offset)
{
    uint64_t min, max;
    reader_bounds(reader, index, &min, &max);
    *queue_offset = min;
    /* the first unit stored at or after store_ms is in [low, high] */
    uint64_t low = min, high = max;
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

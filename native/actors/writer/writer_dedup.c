/* Messages with an id: one that was stored within the window is not stored again (docs/idempotent-producers.md).
 *
 * The log is the only truth. The table that leads from an id to its record is this writer's own memory: a successor reads the last
 * window of the log, and puts what is in it into a table of its own. It does that only in a store in which the file orbitmq/dedup
 * says that ids were used; each writer makes that file durable before the first record with an id. What a write group has put into the table
 * before it is committed needs no undoing when the writer dies, because the table dies too.
 *
 * A hash only leads to a record. Topic and id are compared in the log, so that no message is taken for another one.
 */
#include "base/crash_point.h"
#include "format/atomic.h"
#include "format/dedup_id.h"
#include "format/delay.h"
#include "format/record.h"
#include "shared/verdict.h"
#include "actors/writer/writer_parts.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define ROOM_FIRST (1u << 18) /* ids; a small table stays in the processor's caches, and few stores need a larger one */
#define LOAD_PIECE (4u << 20) /* bytes of the log between two looks at the clock */
#define LOAD_LEAST_MS 20u     /* a call reads on for so long at least */

/* What makes two messages the same: the topic that a message is for, and its id. A half message is for the topic of half messages: only named
 * producers give it an id, of which no other message has the same. An atomic batch has the key of its first message. */
struct dedup_key {
    struct slice topic, id;
};

static struct dedup_key key_of(const struct record_view *view)
{
    struct slice properties = view->properties;
    struct mark mark;
    if (mark_read(properties, &mark))
        properties = (struct slice){properties.data + mark.size, properties.size - mark.size};
    struct dedup_key key = {view->topic, dedup_id(properties)};
    if (key.id.data && (delay_is_topic(view->topic) || timer_is_topic(view->topic))) {
        const struct slice real = properties_get(view->properties.data, view->properties.size, "REAL_TOPIC", 10);
        if (real.data)
            key.topic = real;
    }
    return key;
}

static bool same_bytes(struct slice one, struct slice other)
{
    return one.size == other.size && memcmp(one.data, other.data, one.size) == 0;
}

static uint64_t fold(uint64_t one, uint64_t other)
{
    const unsigned __int128 product = (unsigned __int128)one * other;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_slice(uint64_t hash, const uint64_t seed[2], struct slice bytes)
{
    for (uint32_t at = 0; at < bytes.size; at += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes.data + at, bytes.size - at < 8 ? bytes.size - at : 8);
        hash = fold(hash ^ word ^ seed[0], seed[1] | 1);
    }
    return fold(hash ^ bytes.size, seed[0] | 1);
}

/* Seeded anew by each writer, so that nobody can choose ids that collide. */
static uint64_t hash_of(const struct writer_dedup *dedup, const struct dedup_key *key)
{
    return hash_slice(hash_slice(dedup->seed[1], dedup->seed, key->topic), dedup->seed, key->id);
}

/* Which named producer has numbered the id, 0: a program gave it. Of the former one, what it cannot send again any more is forgotten to
 * make room for one more. */
static uint64_t family_of(struct writer_dedup *dedup, struct slice id)
{
    uint32_t keep;
    const struct slice common = dedup_family(id, &keep);
    if (!common.data)
        return 0;
    const uint64_t family = hash_slice(dedup->seed[1], dedup->seed, common);
    if (!family)
        return 0;
    dedup_table_trim(&dedup->table, family, keep);
    return family;
}

static void marker_path(const struct writer *writer, char path[STORE_FILE_ROOM], const char *name)
{
    snprintf(path, STORE_FILE_ROOM, "%s/orbitmq%s", writer->attachment->control->settings.store, name);
}

bool writer_dedup_open(struct writer *writer)
{
    struct writer_dedup *dedup = &writer->dedup;
    const struct settings *settings = &writer->attachment->control->settings;
    log_map_open(&dedup->log, settings->store, settings->log_file_size, false);
    if (getrandom(dedup->seed, sizeof dedup->seed, 0) != sizeof dedup->seed)
        return false;
    return dedup_table_open(&dedup->table, settings->dedup_ids < ROOM_FIRST ? settings->dedup_ids : ROOM_FIRST);
}

void writer_dedup_close(struct writer *writer)
{
    if (writer->dedup.loading)
        log_walk_close(&writer->dedup.walk);
    log_map_close(&writer->dedup.log);
    dedup_table_close(&writer->dedup.table);
}

/* Whether a remembered record has this key. */
enum likeness { LIKE_NOT, LIKE_SAME, LIKE_UNKNOWN, LIKE_FAILED };

/* The record at a place in the log. LIKE_SAME: it is there. LIKE_UNKNOWN: it cannot be read just now, with errno. LIKE_FAILED: it is part of
 * a small write that the disk did not take. */
static enum likeness look(struct writer *writer, uint64_t physical_offset, struct record_view *view)
{
    if (writer->small.count && physical_offset >= writer->file_start + writer->small.at && !writer_end_small(writer))
        return LIKE_FAILED;
    const uint8_t *at = log_map_at(&writer->dedup.log, physical_offset);
    if (!at)
        return log_map_passing(errno) ? LIKE_UNKNOWN : LIKE_NOT;
    return record_parse(at, writer->file_size - physical_offset % writer->file_size, view) == RECORD_GOOD ? LIKE_SAME : LIKE_NOT;
}

static enum likeness likeness(struct writer *writer, const struct dedup_entry *entry, const struct dedup_key *key,
                              struct record_view *view)
{
    /* relaxed: retention removes files at its leisure */
    if (entry->physical_offset < atomic_load_explicit(&writer->attachment->control->min_offset.value, memory_order_relaxed))
        return LIKE_NOT;
    const enum likeness found = look(writer, entry->physical_offset, view);
    if (found != LIKE_SAME)
        return found;
    const struct dedup_key theirs = key_of(view);
    return theirs.id.data && same_bytes(theirs.topic, key->topic) && same_bytes(theirs.id, key->id) ? LIKE_SAME : LIKE_NOT;
}

static enum likeness find(struct writer *writer, uint64_t hash, const struct dedup_key *key, struct record_view *first)
{
    struct dedup_probe probe = {0};
    const struct dedup_entry *entry;
    while ((entry = dedup_table_next(&writer->dedup.table, hash, &probe))) {
        const enum likeness found = likeness(writer, entry, key, first);
        if (found != LIKE_NOT)
            return found;
    }
    return LIKE_NOT;
}

static struct completion place_of(const struct record_view *view)
{
    return (struct completion){.physical_offset = view->physical_offset, .queue_offset = view->queue_offset, .size = view->total_size,
                               .queue_id = view->queue_id, .code = VERDICT_DUPLICATE};
}

static void expire(struct writer *writer)
{
    const uint64_t window = writer->attachment->control->settings.dedup_window_ms;
    if (writer->store_ms >= window)
        dedup_table_expire(&writer->dedup.table, writer->store_ms - window);
}

/* Makes sure that a successor looks for ids. 0, or an errno. */
static int mark(struct writer *writer)
{
    char path[STORE_FILE_ROOM], folder[STORE_FILE_ROOM];
    if (writer->dedup.marked)
        return 0;
    marker_path(writer, path, "/dedup");
    marker_path(writer, folder, "");
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    CRASH_POINT("writer_dedup_marking");
    const int around = file < 0 ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = file < 0 || around < 0 || pwrite(file, "1", 1, 0) != 1 || fsync(file) || fsync(around) ? errno : 0;
    if (file >= 0)
        close(file);
    if (around >= 0)
        close(around);
    writer->dedup.marked = !error;
    CRASH_POINT("writer_dedup_marked");
    return error;
}

/* Why nobody can say whether it was stored before. */
static enum verdict not_seen(const struct writer *writer, enum likeness found, struct completion *answer)
{
    answer->detail = found == LIKE_UNKNOWN ? (uint32_t)errno
                                           : atomic_load_explicit(&writer->attachment->control->wrote.error, memory_order_relaxed); /* relaxed: our own */
    return found == LIKE_UNKNOWN ? VERDICT_STORE_FULL : VERDICT_STORE_FAILED;
}

enum verdict writer_dedup_judge(struct writer *writer, const struct lane_record *record, struct completion *answer)
{
    struct writer_dedup *dedup = &writer->dedup;
    struct record_view mine, first;
    const uint8_t *image = (const uint8_t *)(record + 1);
    if (record_parse(image, record->image_size, &mine) != RECORD_GOOD)
        return VERDICT_NONE; /* a handler lets none pass */
    const struct dedup_key key = key_of(&mine);
    if (!key.id.data)
        return VERDICT_NONE;
    expire(writer);
    dedup->hash = hash_of(dedup, &key);
    const enum likeness found = find(writer, dedup->hash, &key, &first);
    if (found == LIKE_FAILED || found == LIKE_UNKNOWN)
        return not_seen(writer, found, answer);
    if (found == LIKE_SAME) {
        *answer = place_of(&first);
        return VERDICT_DUPLICATE;
    }
    dedup->family = family_of(dedup, key.id);
    answer->detail = writer->attachment->control->settings.dedup_ids;
    if (dedup_table_count(&dedup->table) >= answer->detail || !dedup_table_room(&dedup->table))
        return VERDICT_DEDUP_FULL;
    const int error = mark(writer);
    answer->detail = (uint32_t)error;
    return !error ? VERDICT_NONE
           : error == ENOSPC || error == EDQUOT || log_map_passing(error) ? VERDICT_STORE_FULL
                                                                          : VERDICT_STORE_FAILED;
}

enum verdict writer_dedup_judge_batch(struct writer *writer, const struct lane_record *first, uint32_t count, struct completion *answer)
{
    const enum verdict verdict = writer_dedup_judge(writer, first, answer);
    if (verdict != VERDICT_DUPLICATE)
        return verdict;
    uint64_t at = answer->physical_offset;
    for (uint32_t i = 0; i < count; i++) { /* they lie next to one another */
        struct record_view view;
        struct mark mark = {.count = 1};
        const enum likeness found = look(writer, at, &view);
        if (found == LIKE_FAILED || found == LIKE_UNKNOWN)
            return not_seen(writer, found, answer);
        if (found == LIKE_SAME)
            mark_read(view.properties, &mark);
        if (found == LIKE_NOT || mark.index != i || mark.count != count) {
            answer->detail = i == 0 ? mark.count : i;
            return VERDICT_BATCH_DIFFERS;
        }
        writer->dedup.places[i] = place_of(&view);
        at += view.total_size;
    }
    return VERDICT_DUPLICATE;
}

void writer_dedup_note(struct writer *writer, uint64_t at)
{
    const struct dedup_entry entry = {.hash = writer->dedup.hash, .physical_offset = at, .store_ms = writer->store_ms,
                                      .family = writer->dedup.family};
    dedup_table_put(&writer->dedup.table, &entry);
    CRASH_POINT("writer_dedup_noted");
}

void writer_dedup_tick(struct writer *writer)
{
    struct writer_dedup *dedup = &writer->dedup;
    const uint64_t count_now = dedup_table_count(&dedup->table);
    if (count_now) {
        expire(writer);
        /* relaxed: as in likeness() */
        log_map_forget(&dedup->log, atomic_load_explicit(&writer->attachment->control->min_offset.value, memory_order_relaxed));
    }
    if (dedup->shown != count_now) {
        dedup->shown = count_now;
        atomic_store_explicit(&writer->attachment->page->counter[COUNT_IDS], count_now, memory_order_relaxed);
    }
}

/* ---- takeover ------------------------------------------------------------------------------------------------------ */

/* The beginning of a log file before which nothing is in the window any more. */
static uint64_t window_begins(struct writer *writer, uint64_t after_ms)
{
    /* relaxed: as in likeness() */
    const uint64_t min_offset = atomic_load_explicit(&writer->attachment->control->min_offset.value, memory_order_relaxed);
    uint64_t start = writer->wrote - writer->wrote % writer->file_size;
    for (;; start -= writer->file_size) {
        const uint8_t *at = start < writer->wrote ? log_map_at(&writer->dedup.log, start) : NULL;
        struct record_view view;
        if (at && record_parse(at, writer->file_size, &view) == RECORD_GOOD && view.store_ms <= after_ms)
            return start;
        if (start <= min_offset || start < writer->file_size)
            return start;
    }
}

static void load_one(struct writer *writer, uint64_t after_ms)
{
    struct writer_dedup *dedup = &writer->dedup;
    const struct record_view *view = &dedup->walk.view;
    const struct dedup_key key = view->store_ms > after_ms ? key_of(view) : (struct dedup_key){.id = {NULL, 0}};
    struct record_view first;
    if (!key.id.data)
        return;
    struct dedup_entry entry = {.hash = hash_of(dedup, &key), .physical_offset = dedup->walk.at, .store_ms = view->store_ms};
    /* A record that was made from this one by another broker keeps the property, and must not make the window longer. */
    if (find(writer, entry.hash, &key, &first) == LIKE_SAME)
        return;
    entry.family = family_of(dedup, key.id);
    if (dedup_table_room(&dedup->table)) /* perhaps more than the setting allows now: none of them is forgotten */
        dedup_table_put(&dedup->table, &entry);
    else
        dedup->short_of_memory = true;
}

bool writer_dedup_load(struct writer *writer, uint64_t end_ms)
{
    struct writer_dedup *dedup = &writer->dedup;
    const struct settings *settings = &writer->attachment->control->settings;
    const uint64_t after_ms = writer->store_ms > settings->dedup_window_ms ? writer->store_ms - settings->dedup_window_ms : 0;
    char path[STORE_FILE_ROOM];
    marker_path(writer, path, "/dedup");
    if (dedup->loaded)
        return true;
    if (!dedup->loading) {
        if (settings->read_only || access(path, F_OK)) {
            dedup->loaded = true;
            return true;
        }
        if (log_walk_open(&dedup->walk, settings->store, settings->log_file_size, window_begins(writer, after_ms), writer->wrote))
            return false;
        dedup->loading = true;
    }
    const uint64_t least_ms = clock_ms() + LOAD_LEAST_MS;
    for (uint64_t stop = dedup->walk.offset + LOAD_PIECE;;) {
        const enum log_event event = log_walk_next(&dedup->walk, stop);
        if (event == LOG_RECORD) {
            load_one(writer, after_ms);
            continue;
        }
        if (event == LOG_GAP)
            continue;
        CRASH_POINT("writer_dedup_loading");
        if (event == LOG_END)
            break;
        attachment_beat(writer->attachment);
        const uint64_t now_ms = clock_ms();
        if (now_ms >= end_ms && now_ms >= least_ms)
            return false;
        stop = dedup->walk.offset + LOAD_PIECE;
    }
    log_walk_close(&dedup->walk);
    dedup->loading = false;
    if (dedup->short_of_memory) { /* nothing is forgotten silently: again from the beginning */
        dedup->short_of_memory = false;
        dedup_table_take_back(&dedup->table, 0);
        return false;
    }
    dedup->loaded = true;
    return true;
}

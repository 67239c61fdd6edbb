/* One step: reads records from the position on, puts each record's unit into its queue's file and its keys into the index, then
 * in this order: commit (index_log.h), queues' max offsets, position, fence, wake-ups.
 *
 *   [Q1] a queue's max_offset, release, after its units: a reader that acquires it may read them
 *   [P1] reput's position, release, after every queue's max_offset
 *   [I2] full fence between publishing and reading who waits; notifier.c and bell.h have the other halves
 *
 * A process that dies anywhere in a step leaves units that nobody was told about (they are written again, the same) and index
 * entries beyond the commit (they are rolled back). A successor begins at the smaller of the commit's and the published
 * position, because max offsets are raised after the commit. It rings everybody once, because nobody knows who was not rung.
 */
#include "actors/reput/reput_parts.h"
#include "shared/commit_words.h"
#include "base/crash_point.h"
#include "format/delay.h"
#include "format/record.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STEP_BYTES (256u << 10)  /* about a thousand messages: late enough to share a wake-up, early enough to overlap */
#define AHEAD 4u                 /* records between the current one and the one whose lines are fetched */
#define RETRY_NS 20000000u       /* between two looks for room on a full disk */
#define QUEUE_OFFSET_END (UINT64_C(1) << OFFSET_BITS)

/* The result for one record. Everything else is an errno. */
enum { STEP_GOOD = 0, STEP_MISSING = -1, STEP_BLANK = -2 };

struct reput *reput_open(struct attachment *attachment)
{
    const struct settings *settings = &attachment->control->settings;
    struct reput *reput = calloc(1, sizeof *reput);
    if (!reput)
        return NULL;
    reput->attachment = attachment;
    reput->soonest_ms = UINT64_MAX;
    reput->pace = pace_start();
    reput->stray = UINT64_MAX;
    reput->prefixes = calloc(attachment->topics->topic_capacity, sizeof *reput->prefixes);
    reput->queues = calloc(attachment->topics->queue_capacity, sizeof *reput->queues);
    reput->touched = calloc(attachment->topics->queue_capacity, sizeof *reput->touched);
    log_map_open(&reput->log, settings->store, settings->log_file_size, false);
    /* acquire: a predecessor's units and max offsets before its position [P1] */
    reput->position = atomic_load_explicit(&attachment->control->reput.value, memory_order_acquire);
    reput->store_ms = atomic_load_explicit(&attachment->control->reput_ms, memory_order_relaxed);
    reput->all = true;
    int error = reput->prefixes && reput->queues && reput->touched ? 0 : ENOMEM;
    reput->index.file.descriptor = -1;
    if (!error && !settings->untouched)
        error = index_log_open(&reput->index, settings->store, settings->index_slots, settings->index_entries,
                               &reput->position);
    if (error) {
        reput_close(reput);
        errno = error;
        return NULL;
    }
    return reput;
}

static void close_queues(struct reput *reput)
{
    const uint32_t units = reput->attachment->control->settings.queue_file_units;
    for (uint32_t slot = 0; reput->queues && slot < reput->attachment->topics->queue_capacity; slot++)
        if (reput->queues[slot].writer.data)
            consume_queue_writer_close(&reput->queues[slot].writer, units);
}

void reput_close(struct reput *reput)
{
    close_queues(reput);
    index_log_close(&reput->index);
    log_map_close(&reput->log);
    free(reput->prefixes);
    free(reput->queues);
    free(reput->touched);
    free(reput);
}

uint64_t reput_position(const struct reput *reput) { return reput->position; }

uint32_t reput_missing(const struct reput *reput, uint8_t *name, uint32_t *queue)
{
    memcpy(name, reput->missing, reput->missing_size);
    *queue = reput->missing_queue;
    return reput->missing_size;
}

void reput_pass(struct reput *reput) { reput->stray = reput->position; }

bool reput_late(struct reput *reput)
{
    const bool late = reput->late;
    reput->late = false;
    return late;
}

void reput_let_go(struct reput *reput, uint32_t slot)
{
    assert(slot < reput->attachment->topics->queue_capacity);
    if (reput->queues[slot].writer.data)
        consume_queue_writer_close(&reput->queues[slot].writer, reput->attachment->control->settings.queue_file_units);
}

void reput_stop(struct reput *reput, uint32_t error)
{
    assert(error);
    reput->stopped = error;
    /* release: the position before the reason why it ends there */
    atomic_store_explicit(&reput->attachment->control->reput.error, error, memory_order_release);
    attachment_state(reput->attachment, ACTOR_FAILED, error);
    /* A new writer may be waiting for our position. */
    bell_ring(&reput->attachment->control->writer_bell);
}

/* The topic of a record, usually the same as for the previous one. NULL if the table has no such topic or queue. */
static const struct topic_entry *resolve(struct reput *reput, const struct record_view *view)
{
    const struct topic_entry *topic = reput->topic;
    if (!topic || topic->name_size != view->topic.size || memcmp(topic->name, view->topic.data, view->topic.size) != 0) {
        const uint32_t index = topics_find(reput->attachment->topics, view->topic.data, view->topic.size);
        topic = index == TOPIC_NONE ? NULL : &reput->attachment->topics->topic[index];
    }
    if (topic && view->queue_id < topic->slot_capacity) {
        reput->topic = topic;
        return topic;
    }
    reput->missing_size = view->topic.size;
    reput->missing_queue = view->queue_id;
    memcpy(reput->missing, view->topic.data, view->topic.size);
    return NULL;
}

static int32_t prefix_of(struct reput *reput, const struct topic_entry *topic)
{
    struct topic_prefix *prefix = &reput->prefixes[topic - reput->attachment->topics->topic];
    if (!prefix->known) {
        prefix->hash = java_hash(java_hash(0, topic->name, topic->name_size), (const uint8_t *)"#", 1);
        prefix->known = true;
    }
    return prefix->hash;
}

static uint32_t count_keys(const struct known_properties *known)
{
    uint32_t n = known->unique_key.size ? 1 : 0;
    struct slice rest = known->keys, key;
    while (properties_next_word(&rest, &key))
        n++;
    return n;
}

/* UNIQ_KEY, then each word of KEYS. `room` limits them: an index file of a few entries may not hold all keys of a record. */
static void add_keys(struct reput *reput, const struct topic_entry *topic, const struct record_view *view,
                     const struct known_properties *known, uint32_t room)
{
    const int32_t prefix = prefix_of(reput, topic);
    struct slice rest = known->keys, key = known->unique_key;
    bool more = key.size || properties_next_word(&rest, &key);
    for (; more && room; room--, more = properties_next_word(&rest, &key)) {
        index_log_add(&reput->index, index_key_hash(prefix, key.data, key.size), view->physical_offset, view->store_ms);
        reput->indexed++;
    }
}

/* The rare half of writing a unit: there is no file yet, or the next file is needed, or no room is reserved. */
static __attribute__((noinline)) int put_slowly(struct reput *reput, struct queue_work *work, const struct topic_entry *topic,
                                                const struct record_view *view, const struct queue_unit *unit)
{
    const struct settings *settings = &reput->attachment->control->settings;
    const uint32_t units = settings->queue_file_units;
    char folder[STORE_FOLDER_ROOM];
    consume_queue_folder(folder, settings->store, topic->name, topic->name_size, view->queue_id);
    reput->late |= topic_deleted(topic);
    int error = consume_queue_put(&work->writer, folder, units, view->queue_offset, unit);
    if (error == ENOMEM || error == EMFILE) { /* more queues than a process may have mappings */
        close_queues(reput);
        error = consume_queue_put(&work->writer, folder, units, view->queue_offset, unit);
    }
    if (!error && view->queue_offset >= units && view->queue_offset % units == 0)
        consume_queue_date(folder, units, view->queue_offset, view->store_ms);
    return error;
}

static int put_unit(struct reput *reput, const struct topic_entry *topic, const struct record_view *view, int64_t code)
{
    const uint32_t slot = topic->first_slot + view->queue_id;
    struct queue_work *work = &reput->queues[slot];
    const struct queue_unit unit = {view->physical_offset, view->total_size, code};
    if (!consume_queue_quick(&work->writer, view->queue_offset, &unit)) {
        const int error = put_slowly(reput, work, topic, view, &unit);
        if (error)
            return error;
    }
    CRASH_POINT("reput_unit_put");
    if (!work->touched) {
        work->touched = true;
        work->first = view->queue_offset;
        reput->touched[reput->touched_count++] = slot;
    }
    work->max_offset = view->queue_offset + 1;
    work->physical_end = view->physical_offset + view->total_size;
    return 0;
}

/* When the scheduler is to look at a message with a time; or at once, if somebody waits to hear whether one is cancelled. */
static void note_soonest(struct reput *reput, int64_t code)
{
    uint64_t cancelled;
    const uint64_t when_ms = cancel_of_code(code, &cancelled) ? 0 : (uint64_t)code;
    if (when_ms < reput->soonest_ms)
        reput->soonest_ms = when_ms;
}

/* Everything that may fail comes before anything that must not be done twice. */
static int index_record(struct reput *reput, const struct record_view *view)
{
    if ((view->sys_flag & SYSFLAG_TRANSACTION) == SYSFLAG_ROLLED_BACK)
        return 0; /* no queue has it, and no key leads to it */
    const struct topic_entry *topic = resolve(reput, view);
    if (!topic) {
        if (reput->position != reput->stray)
            return STEP_MISSING;
        count(reput->attachment->page, COUNT_FAULTS, 1);
        reput->missing_size = 0;
        return 0;
    }
    struct known_properties known;
    properties_known(view->properties.data, view->properties.size, &known);

    uint32_t keys = 0;
    if ((known.keys.size || known.unique_key.size) && view->physical_offset >= reput->index.indexed) {
        keys = count_keys(&known);
        if (keys > reput->index.entries - 1)
            keys = reput->index.entries - 1;
        const int error = keys ? index_log_reserve(&reput->index, keys, view->physical_offset) : 0;
        if (error)
            return error;
    }
    if (record_queued(view->sys_flag)) {
        const int64_t code = delay_or_tags_code(view->topic, view->properties, known.tags, view->store_ms, view->prepared_offset);
        if (__builtin_expect(timer_is_topic(view->topic), 0))
            note_soonest(reput, code);
        const int error = put_unit(reput, topic, view, code);
        if (error)
            return error;
    }
    if (keys)
        add_keys(reput, topic, view, &known, keys);
    return 0;
}

/* Fetches the lines that will be read of a record to come, if those until then are of this one's size, as they often are. What
 * is between head and tail, the body, is not read. */
static inline void prefetch_like(const uint8_t *at, const struct record_view *view)
{
    const uint8_t *next = at + (uint64_t)view->total_size * AHEAD;
    const uint8_t *tail = next + (view->topic.data - at);
    __builtin_prefetch(next);
    __builtin_prefetch(next + 64);
    __builtin_prefetch(tail);
    __builtin_prefetch(tail + 64);
}

/* Reads records of one file from the position on, up to `limit`. STEP_BLANK: the file is done. */
static int index_file_part(struct reput *reput, uint64_t limit, uint64_t wrote, uint32_t *messages)
{
    const uint64_t file_size = reput->log.file_size;
    const uint64_t file_end = reput->position - reput->position % file_size + file_size;
    const uint8_t *at = log_map_at(&reput->log, reput->position);
    if (!at)
        return errno;
    const uint64_t readable_end = wrote < file_end ? wrote : file_end;
    int result = STEP_GOOD;
    while (reput->position < limit && reput->position < file_end) {
        struct record_view view;
        const enum record_fault fault = record_parse(at, readable_end - reput->position, &view);
        if (fault == RECORD_IS_BLANK) {
            if (file_end > wrote)
                return EBADMSG; /* the writer publishes the end of a file with the record after it */
            reput->position = file_end;
            return STEP_BLANK;
        }
        if (fault != RECORD_GOOD || view.physical_offset != reput->position || view.queue_offset >= QUEUE_OFFSET_END)
            return EBADMSG;
        prefetch_like(at, &view);
        result = index_record(reput, &view);
        if (result != STEP_GOOD)
            break;
        CRASH_POINT("reput_indexed");
        reput->position += view.total_size;
        reput->store_ms = view.store_ms;
        at += view.total_size;
        ++*messages;
    }
    return result;
}

/* Records why a step stopped, or that it did not. */
static void settle(struct reput *reput, int result)
{
    struct position *position = &reput->attachment->control->reput;
    const uint32_t error = result > 0 ? (uint32_t)result : 0;
    /* relaxed: reput alone writes it */
    if (error != atomic_load_explicit(&position->error, memory_order_relaxed))
        atomic_store_explicit(&position->error, error, memory_order_release);
    if (error == EBADMSG)
        reput_stop(reput, error);
}

uint32_t reput_step(struct reput *reput, uint32_t limit_bytes)
{
    struct control *control = reput->attachment->control;
    /* acquire: the records below before the position. Pairs with the writer's release [W1]. */
    const uint64_t wrote = atomic_load_explicit(&control->wrote.value, memory_order_acquire);
    const uint64_t from = reput->position;
    if (reput->stopped)
        return 0;
    const uint64_t min_offset = atomic_load_explicit(&control->min_offset.value, memory_order_acquire);
    if (reput->position < min_offset)
        reput->position = min_offset; /* retention was faster: those records are gone */
    if (reput->position >= wrote && !reput->all)
        return 0;

    uint64_t limit = reput->position + limit_bytes;
    if (limit > wrote)
        limit = wrote;
    uint32_t messages = 0;
    int result = STEP_GOOD;
    reput->missing_size = 0;
    while (reput->position < limit && (result == STEP_GOOD || result == STEP_BLANK)) {
        result = index_file_part(reput, limit, wrote, &messages);
        if (result == STEP_BLANK) {
            count(reput->attachment->page, COUNT_BLANKS, 1);
            CRASH_POINT("reput_passed_blank");
            log_map_forget(&reput->log, reput->position); /* a mapping would keep the space of a file that retention removes */
        }
    }
    if (reput->position != from || reput->all)
        reput_publish(reput);
    settle(reput, result);
    if (reput->position != from) {
        struct actor_page *page = reput->attachment->page;
        count(page, COUNT_STEPS, 1);
        count(page, COUNT_MESSAGES, messages);
        count(page, COUNT_BYTES, reput->position - from);
        count(page, COUNT_INDEXED, reput->indexed);
        reput->indexed = 0;
    }
    return messages;
}

static bool stuck(const struct reput *reput)
{
    /* relaxed: only we write it */
    return atomic_load_explicit(&reput->attachment->control->reput.error, memory_order_relaxed) != 0;
}

uint64_t reput_patience_ns(const struct reput *reput)
{
    return stuck(reput) && !reput->stopped ? RETRY_NS : BELL_LIMIT_NS;
}

bool reput_has_news(const struct reput *reput)
{
    if (stuck(reput))
        return false;
    /* acquire: as in reput_step */
    return atomic_load_explicit(&reput->attachment->control->wrote.value, memory_order_acquire) > reput->position;
}

/* Sleeps until the writer rings. */
static enum bell_wake wait_for_news(struct reput *reput)
{
    struct bell *bell = &reput->attachment->control->reput_bell;
    const uint32_t ticket = bell_announce(bell);
    if (reput_has_news(reput)) {
        bell_cancel(bell, ticket);
        return BELL_RUNG;
    }
    count(reput->attachment->page, COUNT_SLEEPS, 1);
    return bell_sleep(bell, ticket, BELL_LIMIT_NS);
}

/* Waits for room on a full disk, for which no bell rings: looks again when the writer rings, and otherwise from time to time.
 * If the error persists, only the end of the tree can end the wait. */
static enum bell_wake wait_for_room(struct reput *reput)
{
    struct bell *bell = &reput->attachment->control->reput_bell;
    if (!reput->stopped)
        count(reput->attachment->page, COUNT_FULL, 1);
    return bell_sleep(bell, bell_announce(bell), reput_patience_ns(reput));
}

void reput_tick(struct reput *reput, bool idle)
{
    if (idle)
        attachment_sweep(reput->attachment); /* not only before a sleep: as in the writer */
    attachment_beat(reput->attachment);
}

enum run_result reput_turn(struct reput *reput, bool *moved, uint32_t *messages)
{
    const uint64_t from = reput->position;
    const bool stopped = reput->stopped;
    *messages = reput_step(reput, STEP_BYTES);
    *moved = reput->position != from;
    if (reput->stopped && !stopped)
        return RUN_FAILED;
    return reput->missing_size && !stopped ? RUN_NEED : RUN_TIME;
}

enum run_result reput_run(struct reput *reput, uint32_t limit_ms)
{
    struct control *control = reput->attachment->control;
    const uint64_t end = clock_ms() + limit_ms;
    const uint64_t spin_ns = (uint64_t)control->settings.spin_us * 1000u;
    for (;;) {
        bool moved;
        uint32_t messages;
        const enum run_result result = reput_turn(reput, &moved, &messages);
        if (result != RUN_TIME)
            return result;
        enum bell_wake wake = BELL_RUNG;
        if (stuck(reput)) {
            wake = wait_for_room(reput);
        } else if (moved) {
            pace_work(&reput->pace, messages);
        } else {
            const enum pace_rest rest = pace_idle(&reput->pace, spin_ns, control_crowded(control));
            wake = rest == PACE_SLEEP ? wait_for_news(reput) : rest == PACE_SIGNAL ? BELL_SIGNAL : BELL_RUNG;
        }
        reput_tick(reput, !moved);
        if (wake == BELL_SIGNAL)
            return RUN_SIGNAL;
        if (clock_ms() >= end)
            return RUN_TIME;
    }
}

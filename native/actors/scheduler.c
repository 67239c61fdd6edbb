#include "actors/scheduler_parts.h"
#include "base/crash_point.h"
#include "shared/verdict.h"

#include <stdlib.h>
#include <string.h>

#define PORTION_BYTES (128u << 10)  /* a portion ends with the record that passes this */
#define MAPPED_BYTES (8u << 20)   /* of the log that may be read before its mappings are made anew */
#define RETRY_MS 100u             /* between two tries when the log takes no more, or a file cannot be written */

struct scheduler *scheduler_open(struct attachment *tree)
{
    const struct settings *settings = &tree->control->settings;
    struct scheduler *scheduler = calloc(1, sizeof *scheduler);
    if (!scheduler)
        return NULL;
    scheduler->tree = tree;
    scheduler->due_ms = UINT64_MAX;
    log_map_open(&scheduler->log, settings->store, settings->log_file_size, false);
    put_lane_open(&scheduler->put, tree, OWN_LANE_SCHEDULER);
    uint64_t version;
    delay_read(&tree->control->delay, &scheduler->slot, &version);
    scheduler->known = version > 0;
    return scheduler;
}

static void close_mappings(struct scheduler *scheduler)
{
    const struct settings *settings = &scheduler->tree->control->settings;
    log_map_close(&scheduler->log);
    for (uint32_t level = 0; level < DELAY_LEVELS; level++)
        consume_queue_reader_close(&scheduler->levels[level].units, settings->queue_file_units);
}

void scheduler_close(struct scheduler *scheduler)
{
    close_mappings(scheduler);
    free(scheduler);
}

void scheduler_let_go(struct scheduler *scheduler)
{
    const struct settings *settings = &scheduler->tree->control->settings;
    if (scheduler->read < MAPPED_BYTES)
        return;
    close_mappings(scheduler);
    log_map_open(&scheduler->log, settings->store, settings->log_file_size, false);
    scheduler->read = 0;
}

void scheduler_set_clocks(struct scheduler *scheduler, int64_t real_ms, int64_t monotonic_ms)
{
    scheduler->ahead_ms[0] = real_ms;
    scheduler->ahead_ms[1] = monotonic_ms;
}

bool scheduler_knows(const struct scheduler *scheduler) { return scheduler->known; }

void scheduler_kept(struct scheduler *scheduler)
{
    scheduler->kept = true;
    scheduler->needs_kept = false;
    scheduler->retry_ms = 0;
}

void scheduler_not_kept(struct scheduler *scheduler)
{
    scheduler->needs_kept = false;
    scheduler->retry_ms = clock_ms() + RETRY_MS;
}

const struct topic_entry *scheduler_topic(const struct scheduler *scheduler)
{
    const struct topics *topics = scheduler->tree->topics;
    const uint32_t index = topics_find(topics, (const uint8_t *)DELAY_TOPIC, sizeof DELAY_TOPIC - 1);
    return index == TOPIC_NONE ? NULL : &topics->topic[index];
}

/* ---- counting ------------------------------------------------------------------------------------------------------ */

/* Something was published, by us or by a predecessor, that is not counted yet. */
static bool pending(const struct scheduler *scheduler) { return put_lane_ahead(&scheduler->put, scheduler->slot.lane) > 0; }

/* Reads what the writer noted, and counts. What it refused is tried again. */
static uint32_t settle(struct scheduler *scheduler)
{
    struct put_note note;
    uint32_t appended = 0, refused = 0;
    struct ring_consumer look = put_lane_notes(&scheduler->put, scheduler->slot.lane);
    while (put_lane_next(&scheduler->put, &look, &note)) {
        assert(note.name.kind < DELAY_LEVELS);
        if (note.code == VERDICT_APPENDED) {
            delay_done(&scheduler->slot, note.name.kind, note.name.number);
            if (scheduler->slot.end < note.end)
                scheduler->slot.end = note.end;
            appended++;
        } else {
            refused++;
        }
    }
    CRASH_POINT("scheduler_read_notes");
    scheduler->slot.lane = scheduler->put.out.position;
    delay_write(&scheduler->tree->control->delay, &scheduler->slot);
    scheduler->changed = false;
    if (refused) {
        count(scheduler->tree->page, COUNT_FULL, refused);
        scheduler->retry_ms = clock_ms() + RETRY_MS;
    }
    count(scheduler->tree->page, COUNT_STEPS, 1);
    count(scheduler->tree->page, COUNT_MESSAGES, appended);
    return appended + refused;
}

bool scheduler_seen(const struct control *control, const struct lane *lane, struct delay_seen *seen)
{
    struct delay_slot slot;
    uint64_t version;
    delay_read(&control->delay, &slot, &version);
    memcpy(seen->next, slot.next, sizeof seen->next);
    seen->end = slot.end;
    return version && slot.lane == ring_tail_position(&lane->ring) && !delay_has_gap(&slot);
}

/* ---- what is due --------------------------------------------------------------------------------------------------- */

/* Remembers which messages are here, eight times within the level's delay, so that it is known later which have waited for it. */
static void look_at_queue(struct level *level, uint64_t delay_ms, uint64_t now_ms, uint64_t max)
{
    uint32_t passed = 0;
    while (passed < level->look_count && now_ms - level->looks[passed].at_ms >= delay_ms)
        level->waited = level->looks[passed++].max;
    if (passed) {
        level->look_count -= passed;
        memmove(level->looks, level->looks + passed, level->look_count * sizeof level->looks[0]);
    }
    if (level->look_count < DELAY_LOOKS &&
        (level->look_count == 0 || now_ms - level->looks[level->look_count - 1].at_ms >= delay_ms / 8)) {
        level->looks[level->look_count].at_ms = now_ms;
        level->looks[level->look_count++].max = max;
    }
}

/* By the clock, or because it has certainly waited for its delay: then the clock was set back. */
static bool is_due(struct scheduler *scheduler, uint32_t level, uint64_t offset, const struct queue_unit *unit, uint64_t now_ms)
{
    if (unit->tags_code <= (int64_t)now_ms)
        return true;
    if (offset >= scheduler->levels[level].waited)
        return false;
    const uint64_t stored_ms = scheduler_stored_ms(scheduler, unit);
    return stored_ms && (uint64_t)unit->tags_code <= stored_ms + delay_level_ms(level); /* RocketMQ's levels may be other ones */
}

/* Puts the due messages of one level into the lane. False: the portion is full. */
static bool put_level(struct scheduler *scheduler, const struct topic_entry *topic, uint32_t number, uint64_t now_ms)
{
    const struct settings *settings = &scheduler->tree->control->settings;
    const struct queue_slot *queue = topics_queue(scheduler->tree->topics, topic->first_slot + number);
    struct delay_slot *slot = &scheduler->slot;
    struct level *level = &scheduler->levels[number];
    /* acquire: the units before max_offset [Q1]; min_offset: raised before files are removed [O1] */
    const uint64_t max = atomic_load_explicit(&queue->max_offset, memory_order_acquire);
    const uint64_t min = atomic_load_explicit(&queue->min_offset, memory_order_acquire);
    if (slot->next[number] < min && min <= max) {
        count(scheduler->tree->page, COUNT_REJECTED, min - slot->next[number]); /* retention was faster */
        delay_pass(slot, number, min);
        scheduler->changed = true;
    }
    look_at_queue(level, delay_level_ms(number), clock_ms() + (uint64_t)scheduler->ahead_ms[1], max);
    const uint64_t first = slot->next[number];
    char folder[STORE_FOLDER_ROOM];
    uint64_t offset = first, units = 0;
    const uint8_t *at = NULL;
    for (; offset < max && offset - first < DELAY_WINDOW; offset++, at += CONSUME_QUEUE_UNIT, units--) {
        if (units == 0) {
            consume_queue_folder(folder, settings->store, topic->name, topic->name_size, number);
            if (!(at = consume_queue_at(&level->units, folder, settings->queue_file_units, offset, &units)))
                return true; /* short of something, or it is being removed: at the next look */
        }
        if (delay_is_done(slot, number, offset))
            continue;
        const struct queue_unit unit = queue_unit_load(at);
        if (!is_due(scheduler, number, offset, &unit, now_ms)) {
            if ((uint64_t)unit.tags_code < scheduler->due_ms)
                scheduler->due_ms = (uint64_t)unit.tags_code;
            return true;
        }
        if (!scheduler->kept) {
            scheduler->needs_kept = true;
            return false;
        }
        const enum image_result result = scheduler_put(scheduler, number, offset, &unit);
        if (result == IMAGE_LATER)
            return true;
        if (result == IMAGE_FULL)
            return false;
        if (result == IMAGE_GONE) {
            delay_done(slot, number, offset);
            count(scheduler->tree->page, COUNT_REJECTED, 1);
            scheduler->changed = true;
        } else {
            histogram_record(&scheduler->tree->page->histogram, now_ms > (uint64_t)unit.tags_code ? now_ms - (uint64_t)unit.tags_code : 0);
        }
        if (put_lane_ahead(&scheduler->put, slot->lane) >= PORTION_BYTES)
            return false;
    }
    if (offset < max)
        scheduler->due_ms = 0; /* more than a window: as soon as these are counted */
    return true;
}

/* Publishes one portion. Returns whether there was anything to do. */
static uint32_t put_portion(struct scheduler *scheduler)
{
    const struct topic_entry *topic = scheduler_topic(scheduler);
    scheduler->due_ms = UINT64_MAX;
    if (!topic)
        return 0;
    const uint64_t now_ms = clock_real_ms() + (uint64_t)scheduler->ahead_ms[0];
    /* relaxed: the number of queues only grows */
    const uint32_t queues = atomic_load_explicit(&topic->queues, memory_order_relaxed);
    const uint32_t levels = queues < DELAY_LEVELS ? queues : DELAY_LEVELS;
    for (uint32_t i = 0; i < levels; i++)
        if (!put_level(scheduler, topic, (scheduler->turn + i) % levels, now_ms))
            break;
    scheduler->turn = (scheduler->turn + 1) % levels;
    if (pending(scheduler)) {
        put_lane_publish(&scheduler->put);
    } else if (scheduler->changed) {
        delay_write(&scheduler->tree->control->delay, &scheduler->slot);
        scheduler->changed = false;
        return 1;
    }
    scheduler_let_go(scheduler);
    return pending(scheduler);
}

uint32_t scheduler_step(struct scheduler *scheduler)
{
    if (scheduler->tree->control->settings.read_only)
        return 0;
    if (!scheduler->known)
        return scheduler_load(scheduler);
    if (pending(scheduler))
        return put_lane_answered(&scheduler->put) ? settle(scheduler) : 0;
    if (scheduler->retry_ms > clock_ms())
        return 0;
    return put_portion(scheduler);
}

/* ---- loop ---------------------------------------------------------------------------------------------------------- */

/* Until the next message is due, or the next look. The shortest delay is far longer than BELL_LIMIT_NS, so a message that comes
 * meanwhile is seen before it is due, and nobody needs to ring. */
static uint64_t rest_ns(const struct scheduler *scheduler)
{
    if (scheduler->due_ms >= UINT64_MAX / 1000000u || scheduler->retry_ms > clock_ms())
        return BELL_LIMIT_NS;
    const uint64_t now_ns = clock_read_ns(CLOCK_REALTIME), due_ns = scheduler->due_ms * 1000000u;
    return due_ns <= now_ns ? 1 : due_ns - now_ns < BELL_LIMIT_NS ? due_ns - now_ns : BELL_LIMIT_NS;
}

static enum bell_wake rest(struct scheduler *scheduler)
{
    const bool awaits = scheduler->known && pending(scheduler);
    return put_lane_rest(&scheduler->put, awaits, awaits ? BELL_LIMIT_NS : rest_ns(scheduler));
}

enum run_result scheduler_run(struct scheduler *scheduler, uint32_t limit_ms)
{
    const uint64_t end = clock_ms() + limit_ms;
    for (;;) {
        const uint32_t done = scheduler_step(scheduler);
        attachment_beat(scheduler->tree);
        if (scheduler->needs_kept)
            return RUN_NEED;
        if (!done && rest(scheduler) == BELL_SIGNAL)
            return RUN_SIGNAL;
        if (clock_ms() >= end)
            return RUN_TIME;
    }
}

bool scheduler_drain(struct scheduler *scheduler, uint32_t limit_ms)
{
    const uint64_t end = clock_ms() + limit_ms;
    while (scheduler->known && pending(scheduler) && clock_ms() < end)
        if (put_lane_answered(&scheduler->put))
            settle(scheduler);
        else
            rest(scheduler);
    return !scheduler->known || !pending(scheduler);
}

/* What is due of each delay level. A level's due times rise along its queue, so only the first messages of it are looked at. */
#include "actors/scheduler/scheduler_parts.h"

#include <string.h>

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

bool scheduler_put_level(struct scheduler *scheduler, const struct topic_entry *topic, uint32_t number, uint64_t now_ms)
{
    const struct settings *settings = &scheduler->attachment->control->settings;
    const struct queue_slot *queue = topics_queue(scheduler->attachment->topics, topic->first_slot + number);
    struct delay_slot *slot = &scheduler->slot;
    struct level *level = &scheduler->levels[number];
    /* acquire: the units before max_offset [Q1]; min_offset: raised before files are removed [O1] */
    const uint64_t max = atomic_load_explicit(&queue->max_offset, memory_order_acquire);
    const uint64_t min = atomic_load_explicit(&queue->min_offset, memory_order_acquire);
    if (slot->next[number] < min && min <= max) {
        count(scheduler->attachment->page, COUNT_REJECTED, min - slot->next[number]); /* retention was faster */
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
        if (scheduler_must_keep(scheduler))
            return false;
        const enum image_result result = scheduler_put(scheduler, number, offset, &unit);
        if (result == IMAGE_LATER)
            return true;
        if (result == IMAGE_FULL)
            return false;
        if (result == IMAGE_GONE) {
            delay_done(slot, number, offset);
            count(scheduler->attachment->page, COUNT_REJECTED, 1);
            scheduler->changed = true;
        } else {
            scheduler_note_late(scheduler, unit.tags_code > 0 ? (uint64_t)unit.tags_code : 0, now_ms);
        }
        if (put_lane_ahead(&scheduler->put, slot->lane) >= PORTION_BYTES)
            return false;
    }
    if (offset < max)
        scheduler->due_ms = 0; /* more than a window: as soon as these are counted */
    return true;
}

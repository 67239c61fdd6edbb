/* What a work queue reads of its messages in the log, and which retry or dead letter one that failed becomes (retry_image.h). */
#include "actors/dispatcher/dispatcher_parts.h"
#include "actors/retry_image.h"
#include "format/delay.h"
#include <errno.h>

#define SHORT_MS 100u /* between two looks while this process is short of something */

enum unit_result dispatcher_unit(struct work_queue *queue, uint64_t offset, struct queue_unit *unit)
{
    const struct dispatcher *dispatcher = queue->dispatcher;
    const struct settings *settings = &dispatcher->attachment->control->settings;
    const struct topic_entry *topic = &dispatcher->attachment->topics->topic[queue->slot_entry->topic];
    char folder[STORE_FOLDER_ROOM];
    uint64_t units;
    consume_queue_folder(folder, settings->store, topic->name, topic->name_size, queue->slot_entry->queue_id);
    const uint8_t *at = consume_queue_at(&queue->units, folder, settings->queue_file_units, offset, &units);
    if (!at)
        return log_map_passing(errno) ? UNIT_LATER : UNIT_NONE;
    *unit = queue_unit_load(at);
    return UNIT_FOUND;
}

const uint8_t *dispatcher_record_of(struct work_queue *queue, const struct queue_unit *unit, struct record_view *view)
{
    struct dispatcher *dispatcher = queue->dispatcher;
    const struct settings *settings = &dispatcher->attachment->control->settings;
    const uint8_t *at = log_map_at(&dispatcher->log, unit->physical_offset);
    if (!at)
        return NULL;
    const uint64_t left = settings->log_file_size - unit->physical_offset % settings->log_file_size;
    errno = EBADMSG;
    if (unit->size > left || record_parse(at, unit->size, view) != RECORD_GOOD)
        return NULL;
    dispatcher->read += view->total_size;
    return at;
}

const uint8_t *dispatcher_record(struct work_queue *queue, uint64_t offset, struct queue_unit *unit, struct record_view *view)
{
    return dispatcher_unit(queue, offset, unit) == UNIT_FOUND ? dispatcher_record_of(queue, unit, view) : NULL;
}

bool dispatcher_reconsumed(struct work_queue *queue, uint64_t offset, uint32_t *tries)
{
    struct queue_unit unit;
    struct record_view view;
    *tries = 0;
    if (dispatcher_record(queue, offset, &unit, &view))
        *tries = view.reconsume_times < WORK_TRIES_MAX ? view.reconsume_times : WORK_TRIES_MAX;
    else if (log_map_passing(errno)) {
        queue->short_ms = clock_ms() + SHORT_MS;
        return false;
    }
    return true;
}

/* Why it failed, where a worker has said so. Its bytes are a client's: what would end a property becomes a blank. text: room for them. */
static void read_failure(const struct work_parting *failure, uint8_t *text, struct failed *failed)
{
    if (!failure)
        return;
    const uint32_t size = failure->size < WORK_TEXT_MAX ? failure->size : WORK_TEXT_MAX;
    uint32_t reason = size;
    for (uint32_t i = 0; i < size; i++) {
        if (failure->text[i] == PROPERTY_NAME_END && reason == size)
            reason = i;
        text[i] = failure->text[i] < ' ' || failure->text[i] == 0x7f ? ' ' : failure->text[i];
    }
    failed->reason = (struct slice){text, reason};
    if (reason + 1 < size)
        failed->digest = (struct slice){text + reason + 1, size - reason - 1};
}

enum part_result dispatcher_part(struct work_queue *queue, uint64_t offset, uint32_t tries)
{
    struct dispatcher *dispatcher = queue->dispatcher;
    const struct topics *topics = dispatcher->attachment->topics;
    const struct slice group = {(const uint8_t *)queue->group->name, queue->group->name_size};
    const bool dead = dispatcher_gives_up(queue, tries);
    struct record_view view;
    struct queue_unit unit;
    uint8_t text[WORK_TEXT_MAX];
    struct failed failed = {.view = &view, .tries = tries, .noted = true, .topic = retry_topic(topics, dead ? DEAD_PREFIX : RETRY_PREFIX, group)};
    if (!failed.topic)
        return PART_TOPICS;
    const uint8_t *at = dispatcher_record(queue, offset, &unit, &view);
    if (!at && log_map_passing(errno))
        return PART_LATER;
    if (!at || record_check(at, view.total_size, unit.physical_offset, &view) != RECORD_GOOD || view.prepared_offset == RECORD_STANDS_IN)
        return PART_NEVER;
    failed.physical_offset = unit.physical_offset;
    if (!dead) {
        /* relaxed: the number of queues only grows */
        failed.queue = (uint32_t)(offset % atomic_load_explicit(&failed.topic->queues, memory_order_relaxed));
        failed.level = RETRY_LEVEL + (tries ? tries - 1 : 0);
    }
    read_failure(dispatcher_text(dispatcher, queue->key, offset), text, &failed);
    struct retry_image image;
    const enum retry_result made = retry_make(&dispatcher->attachment->control->settings, topics, &failed, dispatcher->properties, &image);
    if (made != RETRY_MADE)
        return made == RETRY_TOPICS ? PART_TOPICS : PART_NEVER;
    image.parts.prepared_offset = retry_mark(unit.physical_offset);
    const struct put_name name = {.kind = (uint32_t)(queue->key >> 32), .number = (queue->key & 0xffff) << 48 | offset};
    return put_lane_add(&dispatcher->put, &name, &image.parts, image.topic->first_slot + image.parts.queue_id) ? PART_PUT : PART_FULL;
}

/* From a message that failed to its retry or its dead letter: body, flags, born time and host, tags, keys and the sender's properties are
 * kept; topic, queue, reconsume times and these properties are new, as RocketMQ's broker writes them:
 *
 *   RETRY_TOPIC, ORIGIN_MESSAGE_ID       of the message that was sent first
 *   RECONSUME_TIME                       how often it was handed out, as in the record's own field
 *   WAIT                                 false
 *   DELAY, REAL_TOPIC, REAL_QID          of a retry, which waits in SCHEDULE_TOPIC_XXXX for %RETRY%group
 *   FAILURE_REASON, FAILURE_DIGEST       ours: why it failed last; without them if they make it too large
 */
#include "actors/dispatcher_parts.h"
#include "format/delay.h"
#include <errno.h>
#include <stdio.h>

#define SHORT_MS 100u    /* between two looks while this process is short of something */
#define NOTED_MAX 1536u /* most bytes of all the properties above: two topics, an id, four numbers, WORK_TEXT_MAX and the names */

static const char *const noted[] = {"ATOMIC", "RECONSUME_TIME", "WAIT",           "DELAY",          "TIMER_OUT_MS", "REAL_TOPIC",
                                     "REAL_QID",       "FAILURE_REASON", "FAILURE_DIGEST", "__CRC32#", "DEDUP_ID"};

static bool is_noted(struct slice name)
{
    for (uint32_t i = 0; i < sizeof noted / sizeof noted[0]; i++)
        if (strlen(noted[i]) == name.size && memcmp(noted[i], name.data, name.size) == 0)
            return true;
    return false;
}

enum unit_result dispatcher_unit(struct work_queue *queue, uint64_t offset, struct queue_unit *unit)
{
    const struct dispatcher *dispatcher = queue->dispatcher;
    const struct settings *settings = &dispatcher->tree->control->settings;
    const struct topic_entry *topic = &dispatcher->tree->topics->topic[queue->slot_entry->topic];
    char folder[STORE_FOLDER_ROOM];
    uint64_t units;
    consume_queue_folder(folder, settings->store, topic->name, topic->name_size, queue->slot_entry->queue_id);
    const uint8_t *at = consume_queue_at(&queue->units, folder, settings->queue_file_units, offset, &units);
    if (!at)
        return log_map_passing(errno) ? UNIT_LATER : UNIT_NONE;
    *unit = queue_unit_load(at);
    return UNIT_FOUND;
}

const uint8_t *dispatcher_record(struct work_queue *queue, uint64_t offset, struct queue_unit *unit, struct record_view *view)
{
    struct dispatcher *dispatcher = queue->dispatcher;
    const struct settings *settings = &dispatcher->tree->control->settings;
    if (dispatcher_unit(queue, offset, unit) != UNIT_FOUND)
        return NULL;
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

/* A topic of the group's own, or NULL. */
static const struct topic_entry *topic_of(const struct work_group *group, const struct topics *topics, const char *prefix)
{
    uint8_t name[TOPIC_NAME_MAX];
    const uint32_t before = (uint32_t)strlen(prefix);
    memcpy(name, prefix, before);
    memcpy(name + before, group->name, group->name_size);
    const uint32_t index = topics_find(topics, name, before + group->name_size);
    return index == TOPIC_NONE || topic_deleted(&topics->topic[index]) ? NULL : &topics->topic[index];
}

struct noting {
    uint8_t *data;
    uint32_t size;
};

static void note(struct noting *to, struct slice name, struct slice value)
{
    if (!value.size || to->size + name.size + value.size + 2 > PROPERTIES_MAX)
        return;
    memcpy(to->data + to->size, name.data, name.size);
    to->size += name.size;
    to->data[to->size++] = PROPERTY_NAME_END;
    memcpy(to->data + to->size, value.data, value.size);
    to->size += value.size;
    to->data[to->size++] = PROPERTY_END;
}

static void note_text(struct noting *to, const char *name, const char *value)
{
    note(to, (struct slice){(const uint8_t *)name, (uint32_t)strlen(name)}, (struct slice){(const uint8_t *)value, (uint32_t)strlen(value)});
}

static void note_number(struct noting *to, const char *name, uint32_t number)
{
    char text[12];
    snprintf(text, sizeof text, "%u", number);
    note_text(to, name, text);
}

static struct slice own(const struct record_view *view, const char *name)
{
    return properties_get(view->properties.data, view->properties.size, name, (uint32_t)strlen(name));
}

/* RocketMQ's id of a stored message: its store host and its place, as hexadecimal digits. */
static void note_origin(struct noting *to, const struct record_view *view, uint64_t physical_offset)
{
    uint8_t id[16];
    char text[33];
    memcpy(id, view->store_host.data + view->store_host.size - 8, 8);
    store_be64(id + 8, physical_offset);
    for (uint32_t i = 0; i < sizeof id; i++)
        snprintf(text + 2 * i, 3, "%02X", id[i]);
    note_text(to, "ORIGIN_MESSAGE_ID", text);
}

/* Why it failed, where a worker has said so. Its bytes are a client's: what would end a property becomes a blank. */
static void note_failure(struct noting *to, const struct work_parting *failure)
{
    if (!failure)
        return;
    uint8_t text[WORK_TEXT_MAX];
    const uint32_t size = failure->size < WORK_TEXT_MAX ? failure->size : WORK_TEXT_MAX;
    uint32_t reason = size;
    for (uint32_t i = 0; i < size; i++) {
        if (failure->text[i] == PROPERTY_NAME_END && reason == size)
            reason = i;
        text[i] = failure->text[i] < ' ' || failure->text[i] == 0x7f ? ' ' : failure->text[i];
    }
    note(to, (struct slice){(const uint8_t *)"FAILURE_REASON", 14}, (struct slice){text, reason});
    if (reason + 1 < size)
        note(to, (struct slice){(const uint8_t *)"FAILURE_DIGEST", 14}, (struct slice){text + reason + 1, size - reason - 1});
}

/* level: of a retry; 0: a dead letter. */
static uint32_t make_properties(struct work_queue *queue, const struct record_view *view, uint64_t physical_offset, uint32_t tries,
                                uint32_t level, const struct topic_entry *real, uint32_t real_queue, const struct work_parting *failure)
{
    struct noting to = {.data = queue->dispatcher->properties};
    struct slice name, value;
    uint32_t position = 0;
    while (properties_next(view->properties.data, view->properties.size, &position, &name, &value))
        if (!is_noted(name))
            note(&to, name, value);
    if (!own(view, "RETRY_TOPIC").data)
        note(&to, (struct slice){(const uint8_t *)"RETRY_TOPIC", 11}, view->topic);
    if (!own(view, "ORIGIN_MESSAGE_ID").data)
        note_origin(&to, view, physical_offset);
    note_number(&to, "RECONSUME_TIME", tries);
    note_text(&to, "WAIT", "false");
    if (level) {
        note_number(&to, "DELAY", level);
        note(&to, (struct slice){(const uint8_t *)"REAL_TOPIC", 10}, (struct slice){real->name, real->name_size});
        note_number(&to, "REAL_QID", real_queue);
    }
    note_failure(&to, failure);
    return record_trim(to.data, to.size);
}

enum part_result dispatcher_part(struct work_queue *queue, uint64_t offset, uint32_t tries)
{
    struct dispatcher *dispatcher = queue->dispatcher;
    const struct topics *topics = dispatcher->tree->topics;
    const struct settings *settings = &dispatcher->tree->control->settings;
    struct record_view view;
    struct queue_unit unit;
    const bool dead = dispatcher_gives_up(queue, tries);
    const struct topic_entry *to = topic_of(queue->group, topics, dead ? DEAD_PREFIX : RETRY_PREFIX), *real = to;
    const uint32_t schedule = topics_find(topics, (const uint8_t *)DELAY_TOPIC, sizeof DELAY_TOPIC - 1);
    if (!to || (!dead && (schedule == TOPIC_NONE || topic_deleted(&topics->topic[schedule]))))
        return PART_TOPICS;
    const uint8_t *at = dispatcher_record(queue, offset, &unit, &view);
    if (!at && log_map_passing(errno))
        return PART_LATER;
    if (!at || record_check(at, view.total_size, unit.physical_offset, &view) != RECORD_GOOD || view.prepared_offset == RECORD_STANDS_IN)
        return PART_NEVER;
    /* relaxed: the number of queues only grows */
    uint32_t queue_id = dead ? 0 : (uint32_t)(offset % atomic_load_explicit(&real->queues, memory_order_relaxed)), level = 0;
    const uint32_t real_queue = queue_id;
    if (!dead) {
        to = &topics->topic[schedule];
        const uint32_t levels = atomic_load_explicit(&to->queues, memory_order_relaxed); /* as above */
        level = RETRY_LEVEL + (tries ? tries - 1 : 0);
        if (level > levels || level > DELAY_LEVELS)
            level = levels < DELAY_LEVELS ? levels : DELAY_LEVELS;
        queue_id = level - 1;
    }
    struct record_parts parts = {
        .topic = to->name,
        .topic_size = to->name_size,
        .body = view.body.data,
        .body_size = view.body.size,
        .queue_id = queue_id,
        .flag = view.flag,
        .sys_flag = view.sys_flag & ~(uint32_t)(SYSFLAG_BORN_IPV6 | SYSFLAG_STORE_IPV6),
        .reconsume_times = tries,
        .born_ms = view.born_ms,
        .prepared_offset = retry_mark(unit.physical_offset),
        .properties = dispatcher->properties,
    };
    memcpy(parts.born_host, view.born_host.data + view.born_host.size - 8, 8);
    memcpy(parts.store_host, settings->store_host, 8);
    const struct work_parting *failure = dispatcher_text(dispatcher, queue->key, offset);
    for (;; failure = NULL) {
        parts.properties_size = make_properties(queue, &view, unit.physical_offset, tries, level, real, real_queue, failure);
        struct record_parts later = parts; /* in the topic that it is for */
        later.topic_size = real->name_size;
        if (view.properties.size <= PROPERTIES_MAX - NOTED_MAX && parts.properties_size <= RECORD_PROPERTIES_MAX &&
            record_image_size(&parts) <= settings->message_max && record_image_size(&later) <= settings->message_max)
            break;
        if (!failure)
            return PART_NEVER;
    }
    const struct put_name name = {.kind = (uint32_t)(queue->key >> 32), .number = (queue->key & 0xffff) << 48 | offset};
    return put_lane_add(&dispatcher->put, &name, &parts, to->first_slot + queue_id) ? PART_PUT : PART_FULL;
}

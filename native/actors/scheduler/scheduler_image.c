/* From a scheduled record to the record for its topic: body, flags, born time and hosts, reconsume times and properties are kept; topic
 * and queue are those of REAL_TOPIC and REAL_QID; offsets and store timestamp are new. As in RocketMQ 4.9, DELAY, REAL_TOPIC and
 * REAL_QID stay in the properties. The prepared transaction offset says which message it was (delay_mark).
 */
#include "actors/scheduler/scheduler_parts.h"
#include "format/atomic.h"
#include "format/dedup_id.h"
#include "format/transaction.h"

#include <errno.h>
#include <string.h>

/* The record of a unit, mapped and parsed; NULL with errno. */
static const uint8_t *record_of(struct scheduler *scheduler, const struct queue_unit *unit, struct record_view *view)
{
    const uint8_t *at = log_map_at(&scheduler->log, unit->physical_offset);
    if (!at)
        return NULL;
    const uint64_t left = scheduler->log.file_size - unit->physical_offset % scheduler->log.file_size;
    errno = EBADMSG;
    return unit->size <= left && record_parse(at, unit->size, view) == RECORD_GOOD ? at : NULL;
}

uint64_t scheduler_stored_ms(struct scheduler *scheduler, const struct queue_unit *unit)
{
    struct record_view view;
    return record_of(scheduler, unit, &view) ? view.store_ms : 0;
}

/* False if it is not a number. */
static bool read_number(struct slice text, uint32_t *number)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < text.size; i++) {
        const uint32_t digit = text.data[i] - (uint32_t)'0';
        if (digit > 9 || value > UINT32_MAX)
            return false;
        value = value * 10 + digit;
    }
    *number = (uint32_t)value;
    return text.size > 0 && value <= UINT32_MAX;
}

/* The topic and queue that a scheduled message is for. NULL: there is no such topic any more, or it never was one. */
static const struct topic_entry *destination(const struct scheduler *scheduler, const struct record_view *view, uint32_t *queue)
{
    const struct topics *topics = scheduler->attachment->topics;
    const struct slice name = properties_get(view->properties.data, view->properties.size, "REAL_TOPIC", 10);
    const struct slice id = properties_get(view->properties.data, view->properties.size, "REAL_QID", 8);
    if (!name.data || name.size > TOPIC_NAME_MAX || !read_number(id, queue) || delay_is_topic(name) || timer_is_topic(name) ||
        (name.size == sizeof HALF_TOPIC - 1 && memcmp(name.data, HALF_TOPIC, name.size) == 0))
        return NULL;
    const uint32_t index = topics_find(topics, name.data, name.size);
    if (index == TOPIC_NONE || topic_deleted(&topics->topic[index]))
        return NULL;
    const struct topic_entry *topic = &topics->topic[index];
    /* relaxed: the number of queues only grows, unless another topic took the name; then any of its queues will do */
    *queue %= atomic_load_explicit(&topic->queues, memory_order_relaxed);
    return topic;
}

/* The properties without the CRC property, which the new record gets its own of, and without the mark of an atomic batch, in which the
 * new record is not. */
static void take_properties(struct scheduler *scheduler, const struct record_view *view, struct record_parts *parts)
{
    uint32_t size = view->properties.size - (record_sealed(view) ? RECORD_CRC_SIZE : 0);
    size = record_trim(view->properties.data, size);
    struct mark mark;
    const uint32_t from = mark_read(view->properties, &mark) ? mark.size : 0;
    size = size > from ? size - from : 0;
    /* Its id was that of the send, and is not that of another one. */
    const struct slice kept = dedup_rest((struct slice){view->properties.data + from, size});
    memcpy(scheduler->properties, kept.data, kept.size);
    parts->properties = scheduler->properties;
    parts->properties_size = kept.size;
}

/* True if the record is the waiting one that it is taken for. */
static bool is_source(const struct record_view *view, uint32_t kind, uint64_t offset)
{
    if (view->queue_offset != offset)
        return false;
    if (kind == KIND_TIMER)
        return timer_is_topic(view->topic) && view->prepared_offset == TIMER_WAITS;
    return delay_is_topic(view->topic) && view->queue_id == kind;
}

enum image_result scheduler_put(struct scheduler *scheduler, uint32_t kind, uint64_t offset, const struct queue_unit *unit)
{
    struct record_view view;
    const uint8_t *at = record_of(scheduler, unit, &view);
    if (!at && log_map_passing(errno))
        return IMAGE_LATER;
    if (!at || record_check(at, view.total_size, unit->physical_offset, &view) != RECORD_GOOD ||
        !is_source(&view, kind, offset) || view.prepared_offset == RECORD_STANDS_IN)
        return IMAGE_GONE;
    scheduler->read += view.total_size;
    uint32_t queue;
    const struct topic_entry *topic = destination(scheduler, &view, &queue);
    if (!topic)
        return IMAGE_GONE;
    struct record_parts parts = {
        .topic = topic->name,
        .topic_size = topic->name_size,
        .body = view.body.data,
        .body_size = view.body.size,
        .queue_id = queue,
        .flag = view.flag,
        .sys_flag = view.sys_flag & ~(uint32_t)SYSFLAG_HOSTS,
        .reconsume_times = view.reconsume_times,
        .born_ms = view.born_ms,
        .prepared_offset = kind == KIND_TIMER ? timer_mark(offset) : delay_mark(kind, offset),
        .born_host = record_host(view.born_host),
        .store_host = record_host(view.store_host),
    };
    take_properties(scheduler, &view, &parts);
    if (parts.properties_size > RECORD_PROPERTIES_MAX || record_image_size(&parts) > scheduler->attachment->control->settings.message_max)
        return IMAGE_GONE; /* only another broker's can be so large: a handler refuses them */
    const struct put_name name = {.kind = kind, .number = offset};
    return put_lane_add(&scheduler->put, &name, &parts, topic->first_slot + queue) ? IMAGE_PUT : IMAGE_FULL;
}

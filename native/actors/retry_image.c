#include "actors/retry_image.h"
#include "base/bytes.h"
#include "format/delay.h"
#include "format/retry.h"

#include <stdio.h>
#include <string.h>

#define NOTED_MAX 1536u /* most bytes of all the properties that are new: two topics, an id, four numbers, a reason and the names */

static const char *const noted[] = {"ATOMIC", "RECONSUME_TIME", "WAIT",           "DELAY",          "TIMER_OUT_MS", "REAL_TOPIC",
                                     "REAL_QID",       "FAILURE_REASON", "FAILURE_DIGEST", "__CRC32#", "DEDUP_ID"};

static bool is_noted(struct slice name)
{
    for (uint32_t i = 0; i < sizeof noted / sizeof noted[0]; i++)
        if (strlen(noted[i]) == name.size && memcmp(noted[i], name.data, name.size) == 0)
            return true;
    return false;
}

const struct topic_entry *retry_topic(const struct topics *topics, const char *prefix, struct slice group)
{
    uint8_t name[TOPIC_NAME_MAX];
    const uint32_t before = (uint32_t)strlen(prefix);
    if (group.size > TOPIC_NAME_MAX - before)
        return NULL;
    memcpy(name, prefix, before);
    memcpy(name + before, group.data, group.size);
    const uint32_t index = topics_find(topics, name, before + group.size);
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
    uint8_t id[RECORD_HOST_V6 + 8];
    char text[2 * sizeof id + 1];
    const uint32_t size = view->store_host.size;
    memcpy(id, view->store_host.data, size);
    store_be64(id + size, physical_offset);
    for (uint32_t i = 0; i < size + 8; i++)
        snprintf(text + 2 * i, 3, "%02X", id[i]);
    note_text(to, "ORIGIN_MESSAGE_ID", text);
}

static uint32_t make_properties(const struct failed *failed, const struct retry_image *image, uint8_t *properties)
{
    const struct record_view *const view = failed->view;
    struct noting to = {.data = properties};
    struct slice name, value;
    uint32_t position = 0;
    while (properties_next(view->properties.data, view->properties.size, &position, &name, &value))
        if (!is_noted(name))
            note(&to, name, value);
    if (!own(view, "RETRY_TOPIC").data)
        note(&to, (struct slice){(const uint8_t *)"RETRY_TOPIC", 11}, view->topic);
    if (!own(view, "ORIGIN_MESSAGE_ID").data && view->store_host.data)
        note_origin(&to, view, failed->physical_offset);
    if (failed->noted)
        note_number(&to, "RECONSUME_TIME", failed->tries);
    note_text(&to, "WAIT", "false");
    if (failed->level) {
        note_number(&to, "DELAY", image->parts.queue_id + 1);
        note(&to, (struct slice){(const uint8_t *)"REAL_TOPIC", 10}, (struct slice){failed->topic->name, failed->topic->name_size});
        note_number(&to, "REAL_QID", failed->queue);
    }
    note(&to, (struct slice){(const uint8_t *)"FAILURE_REASON", 14}, failed->reason);
    note(&to, (struct slice){(const uint8_t *)"FAILURE_DIGEST", 14}, failed->digest);
    return record_trim(to.data, to.size);
}

/* The topic and queue in which it is stored. False: there is no such topic. */
static bool find_place(const struct topics *topics, const struct failed *failed, struct retry_image *image)
{
    image->topic = failed->topic;
    image->parts.queue_id = failed->queue;
    if (!failed->level)
        return true;
    const uint32_t index = topics_find(topics, (const uint8_t *)DELAY_TOPIC, sizeof DELAY_TOPIC - 1);
    if (index == TOPIC_NONE || topic_deleted(&topics->topic[index]))
        return false;
    image->topic = &topics->topic[index];
    /* relaxed: the number of queues only grows */
    const uint32_t queues = atomic_load_explicit(&image->topic->queues, memory_order_relaxed);
    const uint32_t levels = queues < DELAY_LEVELS ? queues : DELAY_LEVELS;
    image->parts.queue_id = (failed->level < levels ? failed->level : levels) - 1;
    return true;
}

enum retry_result retry_make(const struct settings *settings, const struct topics *topics, const struct failed *failed, uint8_t *properties,
                             struct retry_image *image)
{
    const struct record_view *const view = failed->view;
    struct record_parts *const parts = &image->parts;
    *image = (struct retry_image){0};
    if (!find_place(topics, failed, image))
        return RETRY_TOPICS;
    parts->topic = image->topic->name;
    parts->topic_size = image->topic->name_size;
    parts->body = view->body.data;
    parts->body_size = view->body.size;
    parts->flag = view->flag;
    parts->sys_flag = view->sys_flag & ~(uint32_t)SYSFLAG_HOSTS;
    parts->reconsume_times = failed->tries;
    parts->born_ms = view->born_ms;
    parts->properties = properties;
    parts->born_host = record_host(view->born_host);
    parts->store_host = settings->store_host;
    struct failed shown = *failed;
    for (;; shown.reason = shown.digest = (struct slice){0}) {
        parts->properties_size = make_properties(&shown, image, properties);
        struct record_parts later = *parts; /* in the topic that it is for */
        later.topic_size = failed->topic->name_size;
        if (view->properties.size <= PROPERTIES_MAX - NOTED_MAX && parts->properties_size <= RECORD_PROPERTIES_MAX &&
            record_image_size(parts) <= settings->message_max && record_image_size(&later) <= settings->message_max)
            return RETRY_MADE;
        if (!shown.reason.size && !shown.digest.size)
            return RETRY_TOO_LARGE;
    }
}

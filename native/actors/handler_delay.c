/* Diverts a delayed message: it is stored in the topic SCHEDULE_TOPIC_XXXX, in the queue of its level, and names the topic and queue
 * that it is for in the properties REAL_TOPIC and REAL_QID. The scheduler puts it there when it is due (scheduler.h).
 */
#include "actors/handler_parts.h"
#include "format/delay.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define NAMES_MAX 192u /* most bytes of the three properties and the byte before them, with a topic of TOPIC_NAME_MAX */

/* Puts them behind the sender's properties, which are our copy and were judged. Returns the size of all. */
static uint32_t add_names(uint8_t *to, struct slice own, uint32_t level, const struct topic_entry *topic, uint32_t queue)
{
    char names[NAMES_MAX];
    const int size = snprintf(names, sizeof names, "DELAY\1%u\2REAL_TOPIC\1%.*s\2REAL_QID\1%u", level, (int)topic->name_size,
                              (const char *)topic->name, queue);
    assert(size > 0 && (uint32_t)size < NAMES_MAX);
    uint8_t *at = to + own.size;
    memcpy(to, own.data, own.size);
    if (own.size && at[-1] != PROPERTY_END)
        *at++ = PROPERTY_END;
    memcpy(at, names, (size_t)size);
    return (uint32_t)(at - to) + (uint32_t)size;
}

enum verdict handler_divert(struct handler *handler, const struct judged_frame *frame, const struct send_message *message,
                            const struct topic_entry **topic, uint32_t *queue, uint32_t *detail)
{
    const struct topics *topics = handler->tree->topics;
    const uint32_t index = topics_find(topics, (const uint8_t *)DELAY_TOPIC, sizeof DELAY_TOPIC - 1);
    if (index == TOPIC_NONE)
        return VERDICT_UNKNOWN_TOPIC; /* a sender that has not asked the coordinator for it */
    const struct topic_entry *schedule = &topics->topic[index];
    const uint32_t level = message->delay_level < DELAY_LEVELS ? message->delay_level : DELAY_LEVELS;
    /* relaxed: the number of queues only grows */
    const uint32_t queues = atomic_load_explicit(&schedule->queues, memory_order_relaxed);
    if (level > queues) {
        *detail = queues;
        return VERDICT_UNKNOWN_QUEUE;
    }
    const struct slice own = record_template_properties(&handler->like.template);
    if (own.size > RECORD_PROPERTIES_MAX - NAMES_MAX) {
        *detail = RECORD_PROPERTIES_MAX - NAMES_MAX;
        return VERDICT_PROPERTIES_TOO_LARGE;
    }
    struct record_parts parts = handler_parts(handler, frame, message, handler->properties);
    parts.properties_size = add_names(handler->properties, own, level, frame->topic, message->queue_id);
    const uint32_t later = record_image_size(&parts); /* in the topic that it is for */
    parts.topic = schedule->name;
    parts.topic_size = schedule->name_size;
    const uint32_t limit = handler->tree->control->settings.message_max;
    if (later > limit || record_image_size(&parts) > limit) {
        *detail = limit;
        return VERDICT_BODY_TOO_LARGE;
    }
    record_template_tail(&handler->delayed, &parts);
    record_template_header(&handler->delayed, &parts);
    *topic = schedule;
    *queue = level - 1;
    return VERDICT_APPENDED;
}

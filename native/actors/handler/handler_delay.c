/* Diverts a delayed message: it is stored in the topic SCHEDULE_TOPIC_XXXX, in the queue of its level, or in rmq_sys_wheel_timer, with
 * its time. It names the topic and queue that it is for in the properties REAL_TOPIC and REAL_QID. The scheduler puts it there when it
 * is due (scheduler.h). A record that cancels one goes to the same queue, behind it.
 */
#include "actors/handler/handler_parts.h"
#include "base/clock.h"
#include "format/delay.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAMES_MAX 192u /* most bytes of the three properties and the byte before them, with a topic of TOPIC_NAME_MAX */

/* Puts them behind the sender's properties, which are our copy and were judged. when: NULL: no such property. Returns the size of all. */
static uint32_t add_names(uint8_t *to, struct slice own, const char *when, uint64_t value, const struct topic_entry *topic, uint32_t queue)
{
    char names[NAMES_MAX];
    int size = when ? snprintf(names, sizeof names, "%s\1%" PRIu64 "\2", when, value) : 0;
    size += snprintf(names + size, sizeof names - (size_t)size, "REAL_TOPIC\1%.*s\2REAL_QID\1%u", (int)topic->name_size,
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
                            uint64_t value, const struct topic_entry **topic, uint32_t *queue, uint32_t *detail)
{
    const struct topics *topics = handler->attachment->topics;
    const bool at_time = message->delay_level == SEND_AT, cancels = message->delay_level == SEND_CANCEL;
    const char *name = at_time || cancels ? TIMER_TOPIC : DELAY_TOPIC;
    const uint32_t index = topics_find(topics, (const uint8_t *)name, sizeof DELAY_TOPIC - 1);
    if (index == TOPIC_NONE)
        return VERDICT_UNKNOWN_TOPIC; /* a sender that has not asked the coordinator for it */
    const struct topic_entry *waiting = &topics->topic[index];
    const uint32_t level = message->delay_level < DELAY_LEVELS ? message->delay_level : DELAY_LEVELS;
    const uint64_t latest_ms = clock_real_ms() + TIMER_MOST_MS; /* the library refuses more */
    *queue = at_time || cancels ? 0 : level - 1;
    /* relaxed: the number of queues only grows */
    const uint32_t queues = atomic_load_explicit(&waiting->queues, memory_order_relaxed);
    if (*queue >= queues) {
        *detail = queues;
        return VERDICT_UNKNOWN_QUEUE;
    }
    const struct slice own = record_template_properties(&handler->like.template);
    if (own.size > RECORD_PROPERTIES_MAX - NAMES_MAX) {
        *detail = RECORD_PROPERTIES_MAX - NAMES_MAX;
        return VERDICT_PROPERTIES_TOO_LARGE;
    }
    struct record_parts parts = handler_parts(handler, frame, message, handler->properties);
    const uint64_t when = !at_time ? level : value < latest_ms ? value : latest_ms;
    const char *label = at_time ? "TIMER_OUT_MS" : cancels ? NULL : "DELAY";
    parts.properties_size = add_names(handler->properties, own, label, when, frame->topic, message->queue_id);
    parts.prepared_offset = at_time ? TIMER_WAITS : cancels ? cancel_mark(value) : 0;
    const uint32_t later = record_image_size(&parts); /* in the topic that it is for */
    parts.topic = waiting->name;
    parts.topic_size = waiting->name_size;
    const uint32_t limit = handler->attachment->control->settings.message_max;
    if (later > limit || record_image_size(&parts) > limit) {
        *detail = limit;
        return VERDICT_BODY_TOO_LARGE;
    }
    record_template_tail(&handler->delayed, &parts);
    record_template_header(&handler->delayed, &parts);
    *topic = waiting;
    return VERDICT_APPENDED;
}

/* Diverts a half message: it is stored in queue 0 of RMQ_SYS_TRANS_HALF_TOPIC, names the topic and queue that it is for as RocketMQ does
 * (TRAN_MSG, PGROUP, REAL_TOPIC, REAL_QID), and waits there until it is settled (handler_settle.c).
 */
#include "actors/handler/handler_parts.h"
#include "base/bytes.h"
#include "format/transaction.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define NAMES_MAX 512u /* most bytes of the four properties and the byte before them */

/* The number of half messages from the oldest on that is not settled and is in the log, about. */
static uint64_t open_span(const struct handler *handler, const struct topic_entry *halves)
{
    const struct queue_slot *queue = topics_queue(handler->attachment->topics, halves->first_slot);
    /* relaxed, all: the limit leaves room for what is in the lanes */
    const uint64_t next = atomic_load_explicit(&queue->next_offset, memory_order_relaxed);
    const uint64_t floor = atomic_load_explicit(&handler->attachment->control->halves.floor, memory_order_relaxed);
    const uint64_t least = atomic_load_explicit(&queue->min_offset, memory_order_relaxed);
    const uint64_t oldest = least > floor ? least : floor;
    return next > oldest ? next - oldest : 0;
}

static bool is_value(struct slice text)
{
    return text.size && !memchr(text.data, PROPERTY_NAME_END, text.size) && !memchr(text.data, PROPERTY_END, text.size);
}

enum verdict handler_divert_half(struct handler *handler, const struct judged_frame *frame, const struct send_message *message,
                                 struct slice group, const struct topic_entry **topic, uint32_t *queue, uint32_t *detail)
{
    const struct topics *topics = handler->attachment->topics;
    const uint32_t index = topics_find(topics, (const uint8_t *)HALF_TOPIC, sizeof HALF_TOPIC - 1);
    if (index == TOPIC_NONE)
        return VERDICT_UNKNOWN_TOPIC; /* a sender that has not asked the coordinator for it */
    if (!is_value(group))
        return VERDICT_RESERVED;
    const struct topic_entry *halves = &topics->topic[index];
    if (open_span(handler, halves) > HALVES_OPEN_MAX) {
        *detail = HALVES_OPEN_MAX;
        return VERDICT_HALVES_FULL;
    }
    char names[NAMES_MAX];
    const int size = snprintf(names, sizeof names, "TRAN_MSG\1true\2PGROUP\1%.*s\2REAL_TOPIC\1%.*s\2REAL_QID\1%u", (int)group.size,
                              (const char *)group.data, (int)frame->topic->name_size, (const char *)frame->topic->name, message->queue_id);
    assert(size > 0 && (uint32_t)size < sizeof names);
    const struct slice own = record_template_properties(&handler->like.template);
    if (own.size > RECORD_PROPERTIES_MAX - NAMES_MAX) {
        *detail = RECORD_PROPERTIES_MAX - NAMES_MAX;
        return VERDICT_PROPERTIES_TOO_LARGE;
    }
    uint8_t *at = handler->properties + own.size;
    memcpy(handler->properties, own.data, own.size);
    if (own.size && at[-1] != PROPERTY_END)
        *at++ = PROPERTY_END;
    memcpy(at, names, (size_t)size);
    struct record_parts parts = handler_parts(handler, frame, message, handler->properties);
    parts.properties_size = (uint32_t)(at - handler->properties) + (uint32_t)size;
    const uint32_t later = record_image_size(&parts); /* in the topic that it is for */
    parts.topic = halves->name;
    parts.topic_size = halves->name_size;
    const uint32_t limit = handler->attachment->control->settings.message_max - SETTLE_ROOM;
    if (later > limit || record_image_size(&parts) > limit) {
        *detail = limit;
        return VERDICT_BODY_TOO_LARGE;
    }
    record_template_tail(&handler->delayed, &parts);
    record_template_header(&handler->delayed, &parts);
    *topic = halves;
    *queue = 0;
    return VERDICT_APPENDED;
}

/* Judges what a group gives back: the record at the place that it names becomes a retry, or a dead letter if it was tried often enough or no
 * retry is wanted. All content comes from that record, none from who gives it back. Nothing says which message of the group became it: given
 * back twice, it comes twice, as with RocketMQ. Or who gives it back says what it was: then it may be any message, like any other send.
 * Source: RocketMQ 4.9 SendMessageProcessor (consumerSendMsgBack, handleRetryAndDLQ).
 */
#include "actors/handler/handler_parts.h"
#include "actors/retry_image.h"
#include "base/bytes.h"
#include "format/delay.h"
#include "format/reserved.h"
#include "format/retry.h"
#include "format/transaction.h"

static bool is(struct slice topic, const char *name) { return topic.size == strlen(name) && memcmp(topic.data, name, topic.size) == 0; }

/* False: it is no message that a group has had, but one that waits to be one, or a note of the broker's. */
static bool is_message(const struct record_view *view)
{
    return record_queued(view->sys_flag) && view->prepared_offset != RECORD_STANDS_IN && !delay_is_topic(view->topic) &&
           !timer_is_topic(view->topic) && !is(view->topic, HALF_TOPIC) && !is(view->topic, OP_TOPIC) && !is(view->topic, COMMITS_TOPIC);
}

/* Its topic, if that has it: it was not purged, nor deleted with the topic. NULL otherwise. */
static const struct topic_entry *keeper(const struct topics *topics, const struct record_view *view)
{
    const uint32_t index = view->topic.size <= TOPIC_NAME_MAX ? topics_find(topics, view->topic.data, view->topic.size) : TOPIC_NONE;
    const struct topic_entry *const topic = index == TOPIC_NONE ? NULL : &topics->topic[index];
    /* relaxed, both: a purge at this moment may come before or after */
    if (!topic || topic_deleted(topic) || view->queue_id >= atomic_load_explicit(&topic->queues, memory_order_relaxed))
        return NULL;
    const struct queue_slot *const queue = topics_queue(topics, topic->first_slot + view->queue_id);
    return view->queue_offset >= atomic_load_explicit(&queue->min_offset, memory_order_relaxed) ? topic : NULL;
}

/* What a frame's topic must be, as for any message that is given back. */
static enum verdict check_frame(const struct judged_frame *frame, struct slice *group)
{
    if (frame->verdict != VERDICT_APPENDED && frame->verdict != VERDICT_NO_PERMISSION) /* no sender may write the group's topics, but the broker */
        return frame->verdict;
    *group = retry_after((struct slice){frame->topic->name, frame->topic->name_size}, RETRY_PREFIX);
    if (!group->data)
        return VERDICT_UNKNOWN_TOPIC;
    return frame->head.flags & SEND_DEDUP ? VERDICT_RESERVED : VERDICT_APPENDED; /* an id is that of a send */
}

/* relaxed: the number of queues only grows */
static uint32_t queues_of(const struct topic_entry *topic) { return atomic_load_explicit(&topic->queues, memory_order_relaxed); }

/* Makes the record that it becomes. */
static enum verdict make(struct handler *handler, const struct failed *failed, struct judged_message *judged)
{
    const struct settings *const settings = &handler->attachment->control->settings;
    struct retry_image image;
    if (!failed->topic)
        return VERDICT_UNKNOWN_TOPIC;
    switch (retry_make(settings, handler->attachment->topics, failed, handler->properties, &image)) {
    case RETRY_MADE:
        break;
    case RETRY_TOPICS:
        return VERDICT_UNKNOWN_TOPIC;
    case RETRY_TOO_LARGE:
        judged->detail = settings->message_max;
        return VERDICT_BODY_TOO_LARGE;
    }
    record_template_tail(&handler->delayed, &image.parts);
    record_template_header(&handler->delayed, &image.parts);
    judged->template = &handler->delayed;
    judged->topic = image.topic;
    judged->queue = image.parts.queue_id;
    judged->body = image.parts.body;
    return VERDICT_APPENDED;
}

static enum verdict judge_back(struct handler *handler, const struct judged_frame *frame, const struct send_back *back,
                               struct judged_message *judged)
{
    const struct topics *topics = handler->attachment->topics;
    struct record_view view;
    struct slice group;
    enum verdict verdict = check_frame(frame, &group);
    if (verdict == VERDICT_APPENDED)
        verdict = handler_record(handler, back->physical_offset, &view, &judged->detail);
    if (verdict != VERDICT_APPENDED)
        return verdict;
    const struct topic_entry *const topic = is_message(&view) ? keeper(topics, &view) : NULL;
    verdict = topic ? handler_place(handler, topic, &view, &judged->detail) : VERDICT_UNKNOWN_MESSAGE;
    if (verdict != VERDICT_APPENDED)
        return verdict;
    const uint32_t tried = view.reconsume_times;
    const bool dead = back->level < 0 || (int64_t)tried >= back->most;
    const struct failed failed = {
        .view = &view,
        .physical_offset = back->physical_offset,
        .topic = dead ? retry_topic(topics, DEAD_PREFIX, group) : frame->topic,
        .queue = dead ? 0 : (uint32_t)(view.queue_offset % queues_of(frame->topic)),
        .level = dead           ? 0
                 : back->level ? (uint32_t)back->level
                               : RETRY_LEVEL + (tried < DELAY_LEVELS ? tried : DELAY_LEVELS),
        .tries = tried + (tried < INT32_MAX),
    };
    return make(handler, &failed, judged);
}

struct judged_message handler_judge_back(struct handler *handler, const struct judged_frame *frame, const struct send_back *back)
{
    struct judged_message judged = {.template = &handler->delayed};
    judged.verdict = judge_back(handler, frame, back, &judged);
    return judged;
}

/* Takes from our copy of its properties, in place, those that a sender may set, and those that say what it was. False: it is not said. */
static bool take_properties(struct slice *properties, uint8_t *to)
{
    struct slice name, value;
    uint32_t position = 0, size = 0;
    while (properties_next(properties->data, properties->size, &position, &name, &value)) {
        const bool note = is(name, "RETRY_TOPIC") || is(name, "ORIGIN_MESSAGE_ID");
        const enum reserved kind = reserved_property(name);
        if (!note && (kind == RESERVED_NOTE || kind == RESERVED_WISH))
            continue;
        memmove(to + size, name.data, name.size + 1 + value.size); /* the pair stands behind what is taken */
        size += name.size + 1 + value.size;
        if (size < properties->size)
            to[size++] = PROPERTY_END;
    }
    *properties = (struct slice){to, size};
    return properties_get(to, size, "RETRY_TOPIC", 11).data;
}

static enum verdict judge_again(struct handler *handler, const struct judged_frame *frame, const struct send_message *message,
                                const uint8_t *content, struct judged_message *judged)
{
    const uint32_t size = message->properties_size - (uint32_t)sizeof(struct send_again);
    struct send_again again;
    struct slice group, properties = {handler->given, size};
    const enum verdict verdict = check_frame(frame, &group);
    if (verdict != VERDICT_APPENDED)
        return verdict;
    if (size > RECORD_PROPERTIES_MAX) {
        judged->detail = RECORD_PROPERTIES_MAX;
        return VERDICT_PROPERTIES_TOO_LARGE;
    }
    memcpy(&again, content, sizeof again);
    OWN_COPY(again);
    memcpy(handler->given, content + sizeof again, size);
    if (again.tries < 0 || !take_properties(&properties, handler->given))
        return VERDICT_RESERVED;
    const bool dead = again.tries >= again.most;
    const struct record_view view = {
        .topic = {frame->topic->name, frame->topic->name_size},
        .body = {content + message->properties_size, message->body_size},
        .properties = properties,
        .born_host = {frame->born.data, frame->born.size},
        .flag = message->flag,
        .sys_flag = record_body_flag(message->sys_flag),
        .born_ms = frame->head.born_ms,
    };
    const struct failed failed = {
        .view = &view,
        .topic = dead ? retry_topic(handler->attachment->topics, DEAD_PREFIX, group) : frame->topic,
        .queue = dead ? 0 : message->queue_id % queues_of(frame->topic),
        .level = dead || again.level < 0 ? 0 : (uint32_t)again.level,
        .tries = (uint32_t)again.tries,
    };
    return make(handler, &failed, judged);
}

struct judged_message handler_judge_again(struct handler *handler, const struct judged_frame *frame, const struct send_message *message,
                                          const uint8_t *content)
{
    struct judged_message judged = {.template = &handler->delayed};
    judged.verdict = judge_again(handler, frame, message, content, &judged);
    return judged;
}

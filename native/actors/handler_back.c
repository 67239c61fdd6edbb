/* Judges what a group gives back: the record at the place that it names becomes a retry, or a dead letter if it was tried often enough or no
 * retry is wanted. All content comes from that record, none from who gives it back. Nothing says which message of the group became it: given
 * back twice, it comes twice, as with RocketMQ. Source: RocketMQ 4.9 SendMessageProcessor (consumerSendMsgBack).
 */
#include "actors/handler_parts.h"
#include "actors/retry_image.h"
#include "format/delay.h"
#include "format/retry.h"
#include "format/transaction.h"

static bool is(struct slice topic, const char *name) { return topic.size == strlen(name) && memcmp(topic.data, name, topic.size) == 0; }

/* False: it is no message that a group has had, but one that waits to be one, or a note of the broker's. */
static bool is_message(const struct record_view *view)
{
    return record_queued(view->sys_flag) && view->prepared_offset != RECORD_STANDS_IN && !delay_is_topic(view->topic) &&
           !timer_is_topic(view->topic) && !is(view->topic, HALF_TOPIC) && !is(view->topic, OP_TOPIC) && !is(view->topic, COMMITS_TOPIC);
}

/* True if its topic has it: it was not purged, nor deleted with the topic. */
static bool is_kept(const struct topics *topics, const struct record_view *view)
{
    const uint32_t index = view->topic.size <= TOPIC_NAME_MAX ? topics_find(topics, view->topic.data, view->topic.size) : TOPIC_NONE;
    const struct topic_entry *const topic = index == TOPIC_NONE ? NULL : &topics->topic[index];
    /* relaxed, both: a purge at this moment may come before or after */
    if (!topic || topic_deleted(topic) || view->queue_id >= atomic_load_explicit(&topic->queues, memory_order_relaxed))
        return false;
    const struct queue_slot *const queue = topics_queue(topics, topic->first_slot + view->queue_id);
    return view->queue_offset >= atomic_load_explicit(&queue->min_offset, memory_order_relaxed);
}

/* Where it goes, and as what. False: there is no such topic. */
static bool decide(const struct topics *topics, const struct topic_entry *retries, struct slice group, const struct send_back *back,
                   struct failed *failed)
{
    const struct record_view *const view = failed->view;
    const uint32_t tried = view->reconsume_times;
    failed->tries = tried + (tried < INT32_MAX);
    if (back->level < 0 || (int64_t)tried >= back->most) {
        failed->topic = retry_topic(topics, DEAD_PREFIX, group);
        return failed->topic;
    }
    failed->topic = retries;
    failed->level = back->level ? (uint32_t)back->level : RETRY_LEVEL + (tried < DELAY_LEVELS ? tried : DELAY_LEVELS);
    /* relaxed: the number of queues only grows */
    failed->queue = (uint32_t)(view->queue_offset % atomic_load_explicit(&retries->queues, memory_order_relaxed));
    return true;
}

static enum verdict judge(struct handler *handler, const struct judged_frame *frame, const struct send_back *back, struct retry_image *image,
                          uint32_t *detail)
{
    const struct topics *topics = handler->tree->topics;
    struct record_view view;
    struct failed failed = {.view = &view, .physical_offset = back->physical_offset};
    if (frame->verdict != VERDICT_APPENDED && frame->verdict != VERDICT_NO_PERMISSION) /* no sender may write the group's topics, but the broker */
        return frame->verdict;
    const struct slice group = retry_after((struct slice){frame->topic->name, frame->topic->name_size}, RETRY_PREFIX);
    if (!group.data)
        return VERDICT_UNKNOWN_TOPIC;
    if (frame->head.flags & SEND_DEDUP)
        return VERDICT_RESERVED; /* an id is that of a send */
    const enum verdict found = handler_record(handler, back->physical_offset, &view, detail);
    if (found != VERDICT_APPENDED)
        return found;
    if (!is_message(&view) || !is_kept(topics, &view))
        return VERDICT_UNKNOWN_MESSAGE;
    if (!decide(topics, frame->topic, group, back, &failed))
        return VERDICT_UNKNOWN_TOPIC;
    switch (retry_make(&handler->tree->control->settings, topics, &failed, handler->properties, image)) {
    case RETRY_MADE:
        return VERDICT_APPENDED;
    case RETRY_TOPICS:
        return VERDICT_UNKNOWN_TOPIC;
    case RETRY_TOO_LARGE:
        break;
    }
    *detail = handler->tree->control->settings.message_max;
    return VERDICT_BODY_TOO_LARGE;
}

struct judged_message handler_judge_back(struct handler *handler, const struct judged_frame *frame, const struct send_back *back)
{
    struct judged_message judged = {.template = &handler->delayed};
    struct retry_image image;
    judged.verdict = judge(handler, frame, back, &image, &judged.detail);
    if (judged.verdict != VERDICT_APPENDED)
        return judged;
    record_template_tail(&handler->delayed, &image.parts);
    record_template_header(&handler->delayed, &image.parts);
    judged.topic = image.topic;
    judged.queue = image.parts.queue_id;
    judged.body = image.parts.body;
    return judged;
}

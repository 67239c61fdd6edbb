/* Decides whether a message may be stored, and knows what its record will look like but for the body.
 *
 * What concerns the topic is decided once a frame. Of the rest, what is the same as for the message before is not asked again: its
 * properties are compared with our own copy of the last ones, and if they are equal, it is our copy that is stored. So nothing that
 * a client writes while we look changes what was judged.
 */
#include "actors/handler/handler_parts.h"
#include "base/bytes.h"
#include "format/dedup_id.h"
#include "format/reserved.h"

static const struct topic_entry *resolve(struct handler *handler, const struct send_frame *frame)
{
    if (frame->topic == handler->last_topic && frame->topic_hash == handler->last_hash)
        return handler->topic;
    const struct topics *topics = handler->attachment->topics;
    if (frame->topic >= topics->topic_capacity)
        return NULL;
    const struct topic_entry *entry = &topics->topic[frame->topic];
    /* acquire: state before the rest of the entry [T1] */
    if (atomic_load_explicit(&entry->state, memory_order_acquire) != TOPIC_LIVE || entry->hash != frame->topic_hash)
        return NULL;
    handler->last_topic = frame->topic;
    handler->last_hash = frame->topic_hash;
    handler->topic = entry;
    return entry;
}

void handler_judge_frame(struct handler *handler, struct judged_frame *frame)
{
    struct alike *like = &handler->like;
    frame->queues = 0;
    if (!record_host_is(&like->born, &frame->born)) {
        like->born = frame->born;
        like->header = false;
    }
    frame->topic = resolve(handler, &frame->head);
    if (!frame->topic || topic_deleted(frame->topic)) {
        frame->verdict = VERDICT_UNKNOWN_TOPIC;
        return;
    }
    /* relaxed, both: single words that change independently */
    const bool writable = atomic_load_explicit(&frame->topic->perm, memory_order_relaxed) & PERM_WRITE;
    frame->queues = atomic_load_explicit(&frame->topic->queues, memory_order_relaxed);
    frame->verdict = handler->attachment->control->settings.read_only ? VERDICT_READ_ONLY
                     : writable                                 ? VERDICT_APPENDED
                                                                : VERDICT_NO_PERMISSION;
}

/* True if the template's topic and properties are those of this message. */
static bool tail_is(const struct alike *like, const struct topic_entry *topic, const uint8_t *properties, uint32_t size)
{
    if (like->topic != topic)
        return false;
    const struct slice ours = record_template_properties(&like->template);
    return ours.size == size && bytes_equal(ours.data, properties, size);
}

struct record_parts handler_parts(const struct handler *handler, const struct judged_frame *frame, const struct send_message *message,
                                  const uint8_t *properties)
{
    struct record_parts parts = {
        .topic = frame->topic->name,
        .topic_size = frame->topic->name_size,
        .properties = properties,
        .properties_size = message->properties_size,
        .body_size = message->body_size,
        .flag = message->flag,
        .sys_flag = record_body_flag(message->sys_flag),
        .born_ms = frame->head.born_ms,
        .born_host = frame->born,
        .store_host = handler->attachment->control->settings.store_host,
    };
    return parts;
}

static void make_tail(struct alike *like, const struct topic_entry *topic, const struct record_parts *parts)
{
    struct slice name;
    record_template_tail(&like->template, parts);
    const struct slice ours = record_template_properties(&like->template);
    const struct slice rest = dedup_rest(ours);
    like->reserved = reserved_find(rest.data, rest.size, &name);
    like->has_id = rest.size != ours.size;
    like->topic = topic;
    like->header = false;
}

/* True if the template's header is that of this message's record too. */
static bool header_is(const struct alike *like, const struct judged_frame *frame, const struct send_message *message)
{
    return like->header && like->template.body_size == message->body_size && like->flag == message->flag &&
           like->sys_flag == message->sys_flag && like->born_ms == frame->head.born_ms;
}

enum verdict handler_judge(struct handler *handler, const struct judged_frame *frame, const struct send_message *message,
                           const uint8_t *properties, uint32_t *detail)
{
    struct alike *like = &handler->like;
    *detail = 0;
    if (frame->verdict != VERDICT_APPENDED)
        return frame->verdict;
    if (message->queue_id >= frame->queues) {
        *detail = frame->queues;
        return VERDICT_UNKNOWN_QUEUE;
    }
    if (message->properties_size > RECORD_PROPERTIES_MAX) {
        *detail = RECORD_PROPERTIES_MAX;
        return VERDICT_PROPERTIES_TOO_LARGE;
    }
    if (!tail_is(like, frame->topic, properties, message->properties_size)) {
        const struct record_parts parts = handler_parts(handler, frame, message, properties);
        make_tail(like, frame->topic, &parts);
    }
    if (like->reserved || like->has_id != !!(frame->head.flags & SEND_DEDUP))
        return VERDICT_RESERVED;
    if (header_is(like, frame, message))
        return VERDICT_APPENDED;
    const uint32_t message_max = handler->attachment->control->settings.message_max;
    const struct record_parts parts = handler_parts(handler, frame, message, properties);
    if (message->body_size > message_max || record_image_size(&parts) > message_max) {
        *detail = message_max;
        return VERDICT_BODY_TOO_LARGE;
    }
    record_template_header(&like->template, &parts);
    like->flag = message->flag;
    like->sys_flag = message->sys_flag;
    like->born_ms = frame->head.born_ms;
    like->header = true;
    return VERDICT_APPENDED;
}

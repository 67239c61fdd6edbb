/* Prepares the end of a transaction: reads the half message, and puts what settles it into the lane: the message as RocketMQ's commit writes
 * it, and the operation message. Whether the half was settled before is for the writer to say, which appends both or neither
 * (writer_settle.c). All content comes from the half's record, none from whoever settles it.
 */
#include "actors/handler/handler_parts.h"
#include "base/crash_point.h"
#include "format/dedup_id.h"
#include "format/transaction.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The half's record. VERDICT_UNKNOWN_HALF: there is none at this place, or it is another. */
static enum verdict find_half(struct handler *handler, const struct topic_entry *halves, const struct send_settle *settle,
                              struct record_view *view, uint32_t *detail)
{
    enum verdict found = handler_record(handler, settle->physical_offset, view, detail);
    if (found != VERDICT_APPENDED)
        return found == VERDICT_UNKNOWN_MESSAGE ? VERDICT_UNKNOWN_HALF : found;
    static const uint8_t no_id[sizeof settle->id];
    const bool any = memcmp(settle->id, no_id, sizeof no_id) == 0;
    if (!(view->queue_offset == settle->offset && view->queue_id == 0 && view->prepared_offset != RECORD_STANDS_IN &&
           view->topic.size == sizeof HALF_TOPIC - 1 && memcmp(view->topic.data, HALF_TOPIC, view->topic.size) == 0))
        return VERDICT_UNKNOWN_HALF;
    found = handler_place(handler, halves, view, detail);
    if (found != VERDICT_APPENDED)
        return found == VERDICT_UNKNOWN_MESSAGE ? VERDICT_UNKNOWN_HALF : found;
    uint8_t id[sizeof settle->id] = {0};
    const struct slice own = properties_get(view->properties.data, view->properties.size, "UNIQ_KEY", 8);
    if (own.data)
        memcpy(id, own.data, own.size < sizeof id ? own.size : sizeof id);
    return any || memcmp(id, settle->id, sizeof id) == 0 ? VERDICT_APPENDED : VERDICT_UNKNOWN_HALF;
}

static bool read_queue(struct slice text, uint32_t *queue)
{
    struct slice rest = text;
    uint64_t number;
    if (!op_next_offset(&rest, &number) || rest.size || number > UINT32_MAX)
        return false;
    *queue = (uint32_t)number;
    return true;
}

static const struct topic_entry *live(const struct topics *topics, const uint8_t *name, uint32_t size)
{
    const uint32_t index = size <= TOPIC_NAME_MAX ? topics_find(topics, name, size) : TOPIC_NONE;
    return index == TOPIC_NONE || topic_deleted(&topics->topic[index]) ? NULL : &topics->topic[index];
}

/* Of the message that the half becomes. */
static enum verdict describe(struct handler *handler, const struct send_settle *settle, const struct record_view *view,
                             struct record_parts *parts, const struct topic_entry **topic, uint32_t *detail)
{
    const struct topics *topics = handler->attachment->topics;
    const struct slice name = properties_get(view->properties.data, view->properties.size, "REAL_TOPIC", 10);
    const struct slice id = properties_get(view->properties.data, view->properties.size, "REAL_QID", 8);
    const bool gives_up = settle->how == SETTLE_GIVE_UP;
    uint32_t queue = 0;
    *topic = gives_up ? live(topics, (const uint8_t *)GIVEN_UP_TOPIC, sizeof GIVEN_UP_TOPIC - 1)
             : name.data && read_queue(id, &queue) ? live(topics, name.data, name.size) : NULL;
    if (!*topic)
        return VERDICT_UNKNOWN_TOPIC;
    *parts = (struct record_parts){
        .topic = (*topic)->name,
        .topic_size = (*topic)->name_size,
        .body = view->body.data,
        .body_size = view->body.size,
        /* relaxed: the number of queues only grows, unless another topic took the name; then any of its queues will do */
        .queue_id = queue % atomic_load_explicit(&(*topic)->queues, memory_order_relaxed),
        .flag = view->flag,
        .sys_flag = (view->sys_flag & ~(uint32_t)(SYSFLAG_HOSTS | SYSFLAG_TRANSACTION)) |
                    (gives_up ? 0 : SYSFLAG_COMMITTED),
        .reconsume_times = view->reconsume_times,
        .born_ms = view->born_ms,
        .prepared_offset = settle->physical_offset,
        .born_host = record_host(view->born_host),
        .store_host = record_host(view->store_host),
    };
    uint32_t size = view->properties.size - (record_sealed(view) ? RECORD_CRC_SIZE : 0);
    size = record_trim(view->properties.data, size);
    const uint32_t limit = handler->attachment->control->settings.message_max - SETTLE_ROOM;
    *detail = limit;
    if (size > RECORD_PROPERTIES_MAX)
        return VERDICT_BODY_TOO_LARGE; /* only another broker's half */
    const struct slice kept = dedup_rest((struct slice){view->properties.data, size}); /* the id is the half's */
    memcpy(handler->properties, kept.data, kept.size);
    parts->properties = handler->properties;
    parts->properties_size = kept.size;
    return record_image_size(parts) > limit ? VERDICT_BODY_TOO_LARGE : VERDICT_APPENDED;
}

static struct record_parts describe_op(const struct handler *handler, const struct judged_frame *frame, char *body, size_t room,
                                       const struct topic_entry *topic, uint64_t half)
{
    struct record_parts parts = {
        .topic = topic->name,
        .topic_size = topic->name_size,
        .properties = (const uint8_t *)OP_PROPERTIES,
        .properties_size = sizeof OP_PROPERTIES - 1,
        .body = (const uint8_t *)body,
        .body_size = (uint32_t)snprintf(body, room, "%" PRIu64, half),
        .born_ms = frame->head.born_ms,
        .born_host = handler->attachment->control->settings.store_host, /* as RocketMQ's: nobody but the broker has sent it */
        .store_host = handler->attachment->control->settings.store_host,
    };
    return parts;
}

/* Writes one image of what is described. */
static void encode(struct handler *handler, const struct record_parts *parts, uint8_t *to, struct record_seal *seal)
{
    record_template_tail(&handler->delayed, parts);
    record_template_header(&handler->delayed, parts);
    record_template_fill(&handler->delayed, parts->queue_id, parts->body, to, seal);
}

enum verdict handler_judge_settle(struct handler *handler, const struct judged_frame *frame, const struct send_settle *settle,
                                  struct settling *settling, uint32_t *detail)
{
    const struct topics *topics = handler->attachment->topics;
    *detail = 0;
    if (handler->attachment->control->settings.read_only)
        return VERDICT_READ_ONLY;
    const struct topic_entry *halves = live(topics, (const uint8_t *)HALF_TOPIC, sizeof HALF_TOPIC - 1);
    const struct topic_entry *ops = live(topics, (const uint8_t *)OP_TOPIC, sizeof OP_TOPIC - 1);
    struct record_view view;
    if (!halves || !ops || settle->how < SETTLE_COMMIT || settle->how > SETTLE_GIVE_UP)
        return VERDICT_UNKNOWN_HALF;
    const enum verdict found = find_half(handler, halves, settle, &view, detail);
    if (found != VERDICT_APPENDED)
        return found;
    *settling = (struct settling){.settle = {.half = settle->offset, .half_slot = halves->first_slot, .op_slot = ops->first_slot}};
    settling->settle.how = settle->how == SETTLE_COMMIT ? HALF_COMMITTED : HALF_ROLLED_BACK;
    settling->op = describe_op(handler, frame, settling->op_body, sizeof settling->op_body, ops, settle->offset);
    settling->settle.op_size = record_image_size(&settling->op);
    if (settle->how == SETTLE_ROLLBACK)
        return VERDICT_APPENDED;
    const struct topic_entry *topic;
    const enum verdict verdict = describe(handler, settle, &view, &settling->message, &topic, detail);
    if (verdict != VERDICT_APPENDED)
        return verdict;
    settling->size = record_image_size(&settling->message);
    settling->slot = topic->first_slot + settling->message.queue_id;
    return VERDICT_APPENDED;
}

uint32_t handler_settle_size(const struct settling *settling) { return lane_settle_op_at(settling->size) + settling->settle.op_size; }

void handler_put_settle(struct handler *handler, struct settling *settling, struct lane_record *record)
{
    struct lane_settle *settle = (struct lane_settle *)(record + 1);
    if (settling->size)
        encode(handler, &settling->message, (uint8_t *)(settle + 1), &record->seal);
    encode(handler, &settling->op, (uint8_t *)settle + lane_settle_op_at(settling->size), &settling->settle.op_seal);
    *settle = settling->settle;
    record->code = VERDICT_NONE; /* the writer's */
    record->image_size = settling->size;
    record->queue_slot = settling->slot;
    record->queue_id = settling->message.queue_id;
    CRASH_POINT("handler_settle_encoded");
}

/* Takes atomic batches: every message is judged and put into the lane, and the lane is published with all of them or none.
 *
 * What is in the lane and not published is private. So if a message is refused, or the lane is full, the handler goes back to where the
 * atomic batch began, and a successor of a dead handler finds the lane without any of it. The refusals of an atomic batch are published together
 * too: a successor that judged the rest again might accept it.
 */
#include "actors/handler/handler_parts.h"
#include "base/bytes.h"
#include "base/crash_point.h"
#include "format/atomic.h"

#include <string.h>

/* An atomic batch on its way into the lane. */
struct taking {
    struct send_atomic head;
    uint32_t slot;
    uint64_t sequence; /* of the message before it */
    uint32_t index;    /* messages in the lane so far */
    uint64_t in_lane;  /* bytes that they take there, */
    uint64_t in_log;   /* and as records */
    struct judged_message refused; /* message `index`, if the result is TAKING_REFUSED */
};

enum taking_result { TAKING_PUT, TAKING_REFUSED, TAKING_STALLED, TAKING_FAULTY };

/* Accepted messages of an atomic batch of several get the mark by which recovery knows an atomic batch that is cut off. */
static void set_mark(struct handler *handler, const struct taking *taking, struct judged_message *judged)
{
    uint8_t text[ATOMIC_MARK_MAX];
    const struct slice own = record_template_properties(judged->template);
    const uint32_t size = mark_put(text, taking->index, taking->head.count);
    const uint32_t message_max = handler->attachment->control->settings.message_max;
    if (own.size + size > RECORD_PROPERTIES_MAX) {
        judged->verdict = VERDICT_PROPERTIES_TOO_LARGE;
        judged->detail = RECORD_PROPERTIES_MAX - ATOMIC_MARK_MAX;
    } else if (judged->template->size + size > message_max) {
        judged->verdict = VERDICT_BODY_TOO_LARGE;
        judged->detail = message_max;
    } else {
        record_template_mark(judged->template, text, size, &handler->marked);
        judged->template = &handler->marked;
    }
}

/* The lane must be able to hold all of it, and one file of the log. */
static void weigh(const struct handler *handler, struct taking *taking, struct judged_message *judged)
{
    const uint64_t lane = lane_batch_max(handler->lane->capacity);
    const uint64_t file = handler->attachment->control->settings.log_file_size - RECORD_BLANK_SIZE;
    taking->in_lane += ring_stride(sizeof(struct lane_record) + judged->template->size);
    taking->in_log += judged->template->size;
    if (taking->in_lane > lane || taking->in_log > file) {
        judged->verdict = VERDICT_BATCH_TOO_LARGE;
        judged->detail = (uint32_t)(lane < file ? lane : file);
    }
}

static enum taking_result put_frame(struct handler *handler, struct taking *taking, const uint8_t *payload, uint64_t size, uint64_t *at)
{
    struct judged_frame frame;
    if (!handler_read_frame(payload, size, at, &frame) || frame.head.count > taking->head.count - taking->index)
        return TAKING_FAULTY;
    handler_judge_frame(handler, &frame);
    for (uint32_t i = 0; i < frame.head.count; i++) {
        struct send_message message;
        const uint8_t *content;
        if (!handler_next_message(payload, size, at, &message, &content) || message.delay_level == SEND_HALF ||
            message.delay_level == SEND_SETTLE || message.delay_level == SEND_BACK || message.delay_level == SEND_AGAIN)
            return TAKING_FAULTY; /* no library puts transactions there, nor what is given back */
        const bool last = taking->index + 1 == taking->head.count, commits = message.delay_level == SEND_OFFSETS;
        if (taking->index > 0 || commits)
            frame.head.flags &= ~(uint32_t)SEND_DEDUP; /* the id of an atomic batch is that of its first message */
        if (commits && (!last || message.properties_size != sizeof(struct send_commits)))
            return TAKING_FAULTY;
        struct judged_message judged = commits ? handler_judge_commits(handler, taking->slot, &frame, &message, content)
                                               : handler_judge_message(handler, &frame, &message, content);
        if (judged.verdict == VERDICT_APPENDED && taking->head.count > 1)
            set_mark(handler, taking, &judged);
        if (judged.verdict == VERDICT_APPENDED)
            weigh(handler, taking, &judged);
        if (judged.verdict != VERDICT_APPENDED) {
            taking->refused = judged;
            return TAKING_REFUSED;
        }
        const bool whole = taking->head.count == 1 && frame.head.flags & SEND_DEDUP;
        const uint32_t flags = (frame.head.flags & ~LANE_FLAGS) | (last ? 0 : LANE_MORE) | (commits ? LANE_COMMITS : 0) |
                               (whole ? LANE_WHOLE : 0);
        if (!handler_put(handler, taking->slot, taking->sequence + taking->index + 1, flags, &judged))
            return TAKING_STALLED;
        taking->index++;
    }
    return TAKING_PUT;
}

static enum taking_result put(struct handler *handler, struct taking *taking, const uint8_t *payload, uint64_t size)
{
    uint64_t at = sizeof taking->head;
    for (uint32_t i = 0; i < taking->head.frames; i++) {
        const enum taking_result result = put_frame(handler, taking, payload, size, &at);
        if (result != TAKING_PUT)
            return result;
    }
    return taking->index == taking->head.count ? TAKING_PUT : TAKING_FAULTY;
}

/* One verdict for each message: its own for the one that was refused, and for the others which one that was. */
static bool put_refusals(struct handler *handler, const struct taking *taking)
{
    for (uint32_t i = 0; i < taking->head.count; i++) {
        const struct judged_message other = {.verdict = VERDICT_BATCH_REFUSED, .detail = taking->index};
        if (!handler_put(handler, taking->slot, taking->sequence + i + 1, 0, i == taking->index ? &taking->refused : &other))
            return false;
    }
    return true;
}

enum intake_result handler_take_atomic(struct handler *handler, uint32_t slot, const struct session_map *map, const uint8_t *payload,
                                       uint64_t size, uint32_t *taken)
{
    struct intake *intake = &handler->intake[slot];
    struct taking taking = {.slot = slot, .sequence = intake->sequence};
    if (size < sizeof taking.head)
        return INTAKE_FAULTY;
    memcpy(&taking.head, payload, sizeof taking.head);
    OWN_COPY(taking.head);
    const uint32_t count = taking.head.count;
    if (count == 0 || count > map->shape.window || count > lane_batch_messages(handler->lane->capacity))
        return INTAKE_FAULTY; /* no honest client: it could never be taken as a whole, or not even its refusals would fit */
    if (intake->sequence >= intake->skip) { /* otherwise a predecessor has published all of it */
        /* acquire: a slot's verdict was delivered before its sequence counts as completed */
        const uint64_t completed = atomic_load_explicit(&handler->attachment->control->sessions[slot].completed, memory_order_acquire);
        if (intake->sequence + count > completed + map->shape.window)
            return INTAKE_EMPTY; /* as in take_frame */
        const uint64_t from = handler->out.position;
        enum taking_result result = put(handler, &taking, payload, size);
        CRASH_POINT("handler_atomic_judged");
        if (result != TAKING_PUT)
            handler->out.position = from;
        if (result == TAKING_REFUSED && !put_refusals(handler, &taking)) {
            handler->out.position = from;
            result = TAKING_STALLED;
        }
        CRASH_POINT("handler_atomic_put");
        if (result == TAKING_STALLED || result == TAKING_FAULTY)
            return result == TAKING_STALLED ? INTAKE_STALLED : INTAKE_FAULTY;
        *taken += count;
    }
    intake->sequence += count;
    handler_publish(handler);
    return INTAKE_MORE;
}

/* Takes frames, and survives its own death at any instruction.
 *
 * For each session the handler keeps a note in the session table, `taken`: position in the submission ring, sequence of the
 * last message before it, and the session's epoch. The order is: lane records published, then `taken` flipped, then the ring's
 * head released to the client. So a successor finds every message either behind `taken`, or in the lane, or still in the ring,
 * and perhaps in both of the last two. It tells them apart by sequence: it scans its lane for the newest sequence of each
 * session, reads `completed` afterwards (which counts what left the lane in between), and skips what the ring shows up to the
 * larger of the two. So nothing is stored twice and nothing is left out.
 */
#include "actors/handler/handler_parts.h"
#include "base/bytes.h"
#include "base/crash_point.h"
#include <string.h>

#define PUBLISH_BYTES (32u << 10)   /* the writer may begin on what is published after this much of it */
#define SESSION_BYTES (256u << 10)  /* bytes of its ring, or of the lane, for one session before it is the next one's turn */

/* Puts the newest sequence of each session that is in the lane into intake[].skip, with its epoch. */
void handler_scan_lane(struct handler *handler)
{
    struct ring *ring = &handler->lane->ring;
    struct ring_consumer look;
    /* what the writer releases during the scan stays intact, because we are the only producer */
    ring_consumer_attach(&look, ring, handler->lane->capacity, ring_head_position(ring));
    struct ring_record header;
    uint8_t *payload;
    while (ring_peek(&look, &header, &payload) == RING_RECORD) {
        const struct lane_record *record = (const struct lane_record *)payload;
        assert(record->session_slot < SESSIONS_MAX);
        struct intake *intake = &handler->intake[record->session_slot];
        intake->epoch = record->session_epoch; /* of one slot, later records have later epochs */
        intake->skip = record->sequence;
        ring_pass(&look, &header);
    }
}

/* Publishes to the writer what is committed. */
void handler_publish(struct handler *handler)
{
    if (handler->published == handler->out.position)
        return;
    ring_publish(&handler->out);
    CRASH_POINT("handler_intake_published");
    handler->published = handler->out.position;
    if (bell_ring(&handler->attachment->control->writer_bell))
        count(handler->attachment->page, COUNT_WAKES, 1);
    CRASH_POINT("handler_intake_rang_writer");
}

/* Attaches to a session at its first sight: a fresh one, or where a predecessor left it. */
struct session_map *handler_attach(struct handler *handler, uint32_t slot)
{
    struct session_entry *entry = &handler->attachment->control->sessions[slot];
    struct session_map *map = attachment_session(handler->attachment, slot, entry->shape.epoch);
    if (!map || !map->parts.sq)
        return NULL;
    struct intake *intake = &handler->intake[slot];
    if (intake->in.ring && intake->epoch == map->epoch) {
        intake->in.ring = map->parts.sq; /* perhaps mapped again, at another address; what we took of it stays taken */
        return map;
    }

    const bool in_lane = intake->in.ring == NULL && intake->epoch == map->epoch;
    const uint64_t skip = in_lane ? intake->skip : 0;
    memset(intake, 0, sizeof *intake);
    /* acquire: the pair before its version [H1]; the lane was scanned before `completed` is read (see the head of this file) */
    const uint64_t version = atomic_load_explicit(&entry->taken_version, memory_order_acquire);
    const uint64_t completed = atomic_load_explicit(&entry->completed, memory_order_acquire);
    const bool noted = entry->taken[version & 1].epoch == map->epoch;
    ring_consumer_attach(&intake->in, map->parts.sq, map->shape.sq_capacity, noted ? entry->taken[version & 1].position : 0);
    intake->sequence = intake->frame_base = noted ? entry->taken[version & 1].sequence : 0;
    intake->skip = skip > completed ? skip : completed;
    intake->epoch = map->epoch;
    return map;
}

/* Called after the lane's publish: notes how far this session is taken, for a successor; then releases the room to the
 * client. */
void handler_settle(struct handler *handler, uint32_t slot, struct session_map *map)
{
    struct session_entry *entry = &handler->attachment->control->sessions[slot];
    struct intake *intake = &handler->intake[slot];
    const uint64_t version = atomic_load_explicit(&entry->taken_version, memory_order_relaxed); /* only we write it */
    const bool noted = entry->taken[version & 1].epoch == intake->epoch;
    if ((noted ? entry->taken[version & 1].position : 0) == intake->in.position)
        return;
    CRASH_POINT("handler_intake_settling");
    entry->taken[(version + 1) & 1].position = intake->in.position;
    entry->taken[(version + 1) & 1].sequence = intake->frame_base;
    entry->taken[(version + 1) & 1].epoch = intake->epoch;
    CRASH_POINT("handler_intake_taken_filled");
    /* release: the lane's tail and the pair before the version a successor reads. Pairs with the acquire in attach [H1]. */
    atomic_store_explicit(&entry->taken_version, version + 1, memory_order_release);
    CRASH_POINT("handler_intake_taken");
    ring_release(&intake->in, intake->in.position);
    CRASH_POINT("handler_intake_released");
    /* Of the sleepers on this bell, ring only if one waits for room. seq_cst: the room before our look at who waits for it; a
     * client raises `stalled`, announces with a full fence, then looks at the head [M2]. */
    atomic_thread_fence(memory_order_seq_cst);
    /* relaxed: ordered by the fence */
    if (atomic_load_explicit(&map->session->stalled, memory_order_relaxed) && bell_ring_client(&map->session->bell))
        count(handler->attachment->page, COUNT_WAKES, 1);
}

/* Puts what settles a half message, or a refusal, into the lane. False when the lane has no room now. */
static bool settle(struct handler *handler, uint32_t slot, const struct judged_frame *frame, const uint8_t *payload)
{
    struct intake *intake = &handler->intake[slot];
    struct send_settle asked;
    struct settling settling = {0};
    uint32_t detail = 0;
    memcpy(&asked, payload, sizeof asked);
    OWN_COPY(asked);
    const enum verdict verdict = handler_judge_settle(handler, frame, &asked, &settling, &detail);
    const uint32_t size = verdict == VERDICT_APPENDED ? handler_settle_size(&settling) : 0;
    struct lane_record *record = ring_claim(&handler->out, sizeof *record + size);
    if (!record)
        return false;
    *record = (struct lane_record){.session_slot = slot, .session_epoch = intake->epoch, .sequence = intake->sequence + 1,
                                   .flags = frame->head.flags & ~LANE_FLAGS, .code = verdict, .detail = detail};
    if (verdict == VERDICT_APPENDED)
        handler_put_settle(handler, &settling, record);
    else
        count(handler->attachment->page, COUNT_REJECTED, 1);
    ring_commit(&handler->out, sizeof *record + size, verdict == VERDICT_APPENDED ? LANE_SETTLE : LANE_REJECT);
    CRASH_POINT("handler_intake_settled");
    handler->ends++;
    return true;
}

/* Bytes before a message's properties that its delay_level asks for. */
static inline uint32_t prefix_size(uint32_t delay_level)
{
    if (__builtin_expect(delay_level < SEND_AGAIN, 1))
        return 0;
    return delay_level == SEND_AGAIN    ? (uint32_t)sizeof(struct send_again)
           : delay_level == SEND_BACK   ? (uint32_t)sizeof(struct send_back)
           : delay_level == SEND_SETTLE ? (uint32_t)sizeof(struct send_settle)
                                        : SEND_AT_SIZE;
}

/* A host that was copied out of what a client wrote. False: it is none. */
static bool take_host(const uint8_t *from, struct record_host *host)
{
    memcpy(host, from, sizeof *host);
    OWN_COPY(*host);
    if (!record_host_fits(host->size))
        return false;
    memset(host->data + host->size, 0, sizeof host->data - host->size);
    return true;
}

static inline bool read_frame(const uint8_t *payload, uint64_t size, uint64_t *at, struct judged_frame *frame)
{
    if (*at > size || size - *at < sizeof frame->head)
        return false;
    memcpy(&frame->head, payload + *at, sizeof frame->head);
    OWN_COPY(frame->head);
    *at += sizeof frame->head;
    frame->born = RECORD_HOST_LOCAL;
    if (__builtin_expect(!(frame->head.flags & SEND_BORN), 1))
        return true;
    if (size - *at < sizeof frame->born || !take_host(payload + *at, &frame->born))
        return false;
    *at += sizeof frame->born;
    return true;
}

bool handler_read_frame(const uint8_t *payload, uint64_t size, uint64_t *at, struct judged_frame *frame)
{
    return read_frame(payload, size, at, frame);
}

static inline bool next_message(const uint8_t *payload, uint64_t size, uint64_t *at, struct send_message *message, const uint8_t **content)
{
    if (*at > size || size - *at < sizeof *message)
        return false;
    memcpy(message, payload + *at, sizeof *message);
    OWN_COPY(*message);
    const uint64_t stride = send_message_stride(message->properties_size, message->body_size);
    if (stride > size - *at || message->properties_size < prefix_size(message->delay_level))
        return false;
    *content = payload + *at + sizeof *message;
    *at += stride;
    return true;
}

bool handler_next_message(const uint8_t *payload, uint64_t size, uint64_t *at, struct send_message *message, const uint8_t **content)
{
    return next_message(payload, size, at, message, content);
}

/* Also for plain sends, where they are part of the loop: a call of each for each message was seen in its cost. */
static inline struct judged_message judge_message(struct handler *handler, const struct judged_frame *frame, struct send_message *message,
                                                  const uint8_t *content)
{
    struct judged_message judged = {.template = &handler->like.template, .topic = frame->topic, .queue = message->queue_id};
    uint64_t value = 0;
    struct slice group = {0};
    uint8_t name[SEND_GROUP_MAX];
    if (__builtin_expect(message->delay_level >= SEND_HALF, 0)) {
        memcpy(&value, content, SEND_AT_SIZE);
        OWN_COPY(value);
        content += SEND_AT_SIZE;
        message->properties_size -= SEND_AT_SIZE;
        if (message->delay_level == SEND_HALF) {
            group = (struct slice){name, (uint32_t)(value < SEND_GROUP_MAX ? value : SEND_GROUP_MAX)};
            group.size = group.size < message->properties_size ? group.size : message->properties_size;
            memcpy(name, content, group.size);
            content += group.size;
            message->properties_size -= group.size;
        }
    }
    judged.body = content + message->properties_size;
    judged.verdict = handler_judge(handler, frame, message, content, &judged.detail);
    if (__builtin_expect(message->delay_level == SEND_HALF, 0) && judged.verdict == VERDICT_APPENDED) {
        judged.verdict = handler_divert_half(handler, frame, message, group, &judged.topic, &judged.queue, &judged.detail);
        judged.template = &handler->delayed;
    } else if (__builtin_expect(message->delay_level != 0, 0) && judged.verdict == VERDICT_APPENDED) {
        judged.verdict = handler_divert(handler, frame, message, value, &judged.topic, &judged.queue, &judged.detail);
        judged.template = &handler->delayed;
    }
    return judged;
}

static inline bool put(struct handler *handler, uint32_t slot, uint64_t sequence, uint32_t flags, const struct judged_message *judged)
{
    const bool accepted = judged->verdict == VERDICT_APPENDED;
    const uint32_t size = accepted ? judged->template->size : 0;
    struct lane_record *record = ring_claim(&handler->out, sizeof *record + size);
    if (!record)
        return false;
    record->session_slot = slot;
    record->session_epoch = handler->intake[slot].epoch;
    record->sequence = sequence;
    record->queue_id = judged->queue;
    record->image_size = size;
    record->flags = flags;
    record->code = judged->verdict;
    record->detail = judged->detail;
    if (accepted) {
        record->queue_slot = judged->topic->first_slot + judged->queue;
        record_template_fill(judged->template, judged->queue, judged->body, (uint8_t *)(record + 1), &record->seal);
        CRASH_POINT("handler_intake_encoded");
        ring_commit(&handler->out, sizeof *record + size, LANE_APPEND);
        CRASH_POINT("handler_intake_committed");
    } else {
        ring_commit(&handler->out, sizeof *record, LANE_REJECT);
        CRASH_POINT("handler_intake_rejected");
        count(handler->attachment->page, COUNT_REJECTED, 1);
    }
    return true;
}

struct judged_message handler_judge_message(struct handler *handler, const struct judged_frame *frame, struct send_message *message,
                                            const uint8_t *content)
{
    return judge_message(handler, frame, message, content);
}

bool handler_put(struct handler *handler, uint32_t slot, uint64_t sequence, uint32_t flags, const struct judged_message *judged)
{
    return put(handler, slot, sequence, flags, judged);
}

/* Puts one message, or its refusal, into the lane. False when the lane has no room now. */
static bool pass_on(struct handler *handler, uint32_t slot, const struct judged_frame *frame, struct send_message *message,
                    const uint8_t *content)
{
    if (__builtin_expect(message->delay_level == SEND_SETTLE, 0))
        return settle(handler, slot, frame, content);
    struct judged_message judged;
    if (__builtin_expect(message->delay_level == SEND_BACK, 0)) {
        struct send_back back;
        memcpy(&back, content, sizeof back);
        OWN_COPY(back);
        judged = handler_judge_back(handler, frame, &back);
    } else if (__builtin_expect(message->delay_level == SEND_AGAIN, 0)) {
        judged = handler_judge_again(handler, frame, message, content);
    } else {
        judged = judge_message(handler, frame, message, content);
    }
    return put(handler, slot, handler->intake[slot].sequence + 1, frame->head.flags & ~LANE_FLAGS, &judged);
}

/* Takes the rest of one frame. *taken counts messages put into the lane. */
static enum intake_result take_frame(struct handler *handler, uint32_t slot, const struct session_map *map,
                                     const uint8_t *payload, uint64_t size, uint32_t *taken)
{
    struct intake *intake = &handler->intake[slot];
    struct judged_frame frame;
    uint64_t at = 0;
    if (!read_frame(payload, size, &at, &frame))
        return INTAKE_FAULTY;
    handler_judge_frame(handler, &frame);
    const _Atomic uint64_t *completed = &handler->attachment->control->sessions[slot].completed;
    /* acquire: a slot's verdict was delivered before its sequence counts as completed */
    uint64_t window_end = atomic_load_explicit(completed, memory_order_acquire) + map->shape.window;
    if (intake->frame_taken)
        at = intake->frame_at;
    for (uint32_t i = intake->frame_taken; i < frame.head.count; i++) {
        struct send_message message;
        const uint8_t *content;
        if (!next_message(payload, size, &at, &message, &content) || message.delay_level == SEND_OFFSETS)
            return INTAKE_FAULTY; /* offsets belong to an atomic batch */
        if (intake->sequence + 1 > intake->skip) {
            if (intake->sequence >= window_end) /* acquire: as above */
                window_end = atomic_load_explicit(completed, memory_order_acquire) + map->shape.window;
            if (intake->sequence >= window_end)
                return INTAKE_EMPTY; /* more in flight than its window: no honest client; served at the next look */
            if (!pass_on(handler, slot, &frame, &message, content))
                return INTAKE_STALLED;
            ++*taken;
            if (handler->out.position - handler->published >= PUBLISH_BYTES)
                handler_publish(handler);
        }
        intake->sequence++;
        intake->frame_taken = i + 1;
        intake->frame_at = at;
    }
    return INTAKE_MORE;
}

/* Takes frames of one session until it has none left or has had its turn. A session that keeps publishing frames which put
 * nothing into the lane has its turn too. */
enum intake_result handler_take(struct handler *handler, uint32_t slot, struct session_map *map, uint32_t *taken)
{
    struct intake *intake = &handler->intake[slot];
    const uint64_t most = SESSION_BYTES < handler->step_bytes ? SESSION_BYTES : handler->step_bytes;
    const uint64_t turn = handler->out.position + most, ring_turn = intake->in.position + most;
    enum intake_result result = INTAKE_MORE;
    while (result == INTAKE_MORE && handler->out.position < turn && intake->in.position < ring_turn) {
        struct ring_record header;
        uint8_t *payload;
        const enum ring_look look = ring_peek(&intake->in, &header, &payload);
        if (look == RING_EMPTY)
            return INTAKE_EMPTY;
        if (look == RING_BROKEN || (header.type != SQ_SEND && header.type != SQ_ATOMIC))
            return INTAKE_FAULTY;
        result = (header.type == SQ_SEND ? take_frame : handler_take_atomic)(handler, slot, map, payload, header.length - RING_HEADER,
                                                                             taken);
        if (result == INTAKE_MORE) {
            ring_pass(&intake->in, &header);
            intake->frame_taken = 0;
            intake->frame_base = intake->sequence;
        }
    }
    return result;
}

/* Takes frames, and survives its own death at any instruction.
 *
 * For each session the handler keeps a note in the session table, `taken`: position in the submission ring, sequence of the
 * last message before it, and the session's epoch. The order is: lane records published, then `taken` flipped, then the ring's
 * head released to the client. So a successor finds every message either behind `taken`, or in the lane, or still in the ring,
 * and perhaps in both of the last two. It tells them apart by sequence: it scans its lane for the newest sequence of each
 * session, reads `completed` afterwards (which counts what left the lane in between), and skips what the ring shows up to the
 * larger of the two. So nothing is stored twice and nothing is left out.
 */
#include "actors/handler.h"
#include "base/bytes.h"
#include "base/crash_point.h"
#include "base/pace.h"
#include "format/reserved.h"
#include "shared/verdict.h"
#include <stdlib.h>
#include <string.h>

#define PUBLISH_BYTES (32u << 10)   /* the writer may begin on what is published after this much of it */
#define SESSION_BYTES (256u << 10)  /* bytes of its ring, or of the lane, for one session before it is the next one's turn */

/* How far one session is taken. frame_* describe a frame of which some messages are taken already: the lane was full. */
struct intake {
    struct ring_consumer in;
    uint64_t sequence; /* of the last message taken */
    uint64_t skip;     /* messages up to here were taken by a predecessor */
    uint32_t epoch;    /* 0: not attached */
    uint32_t frame_taken; /* messages of the frame at in.position that are taken */
    uint64_t frame_base;  /* sequence before that frame */
    uint64_t frame_at;    /* where in it the next message begins; untrusted and bounded, like any length from a client */
};

struct handler {
    struct attachment *tree;
    uint32_t index;
    struct lane *lane;
    struct ring_producer out;
    uint64_t published; /* position of the lane's tail that the writer knows */
    uint32_t sessions_version;
    struct pace pace;
    bool stalled;       /* the lane had no room for the next record */
    uint32_t turn;      /* the session to begin the next step with */
    uint64_t looked_ms; /* CLOCK_MONOTONIC of the last look at every session */
    uint32_t last_topic; /* the topic resolved last: the checked copy of its entry */
    uint32_t last_hash;
    const struct topic_entry *topic;
    uint64_t pending[SESSION_WORDS]; /* sessions that may have frames left */
    struct intake intake[SESSIONS_MAX];
};

enum intake_result { INTAKE_EMPTY, INTAKE_MORE, INTAKE_STALLED, INTAKE_FAULTY };

static bool ours(const struct handler *handler, uint32_t slot)
{
    return session_lane(&handler->tree->control->settings, slot) == handler->index;
}

static void all_pending(struct handler *handler)
{
    for (uint32_t slot = handler->index; slot < SESSIONS_MAX; slot += handler->tree->control->settings.lanes)
        if (handler->tree->control->sessions[slot].shape.epoch)
            handler->pending[slot / 64] |= UINT64_C(1) << (slot % 64);
}

/* Puts the newest sequence of each session that is in the lane into intake[].skip, with its epoch. */
static void scan_lane(struct handler *handler)
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

struct handler *handler_open(struct attachment *tree, uint32_t lane)
{
    assert(lane < tree->control->settings.lanes && tree->lanes[lane]);
    struct handler *handler = calloc(1, sizeof *handler);
    if (!handler)
        return NULL;
    handler->tree = tree;
    handler->index = lane;
    handler->lane = tree->lanes[lane];
    handler->last_topic = TOPIC_NONE;
    handler->pace = pace_start();
    ring_producer_attach(&handler->out, &handler->lane->ring, handler->lane->capacity);
    handler->published = handler->out.position;
    scan_lane(handler);
    /* relaxed: a flag of ours that a predecessor may have left up */
    atomic_store_explicit(&handler->lane->stalled, 0, memory_order_relaxed);
    handler->sessions_version = atomic_load_explicit(&tree->control->sessions_version, memory_order_acquire);
    all_pending(handler);
    return handler;
}

void handler_close(struct handler *handler) { free(handler); }

/* Publishes to the writer what is committed. */
static void publish(struct handler *handler)
{
    if (handler->published == handler->out.position)
        return;
    ring_publish(&handler->out);
    CRASH_POINT("handler_published");
    handler->published = handler->out.position;
    if (bell_ring(&handler->tree->control->writer_bell))
        count(handler->tree->page, COUNT_WAKES, 1);
    CRASH_POINT("handler_rang_writer");
}

/* Attaches to a session at its first sight: a fresh one, or where a predecessor left it. */
static struct session_map *attach(struct handler *handler, uint32_t slot)
{
    struct session_entry *entry = &handler->tree->control->sessions[slot];
    struct session_map *map = attachment_session(handler->tree, slot, entry->shape.epoch);
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
static void settle(struct handler *handler, uint32_t slot, struct session_map *map)
{
    struct session_entry *entry = &handler->tree->control->sessions[slot];
    struct intake *intake = &handler->intake[slot];
    const uint64_t version = atomic_load_explicit(&entry->taken_version, memory_order_relaxed); /* only we write it */
    const bool noted = entry->taken[version & 1].epoch == intake->epoch;
    if ((noted ? entry->taken[version & 1].position : 0) == intake->in.position)
        return;
    CRASH_POINT("handler_settling");
    entry->taken[(version + 1) & 1].position = intake->in.position;
    entry->taken[(version + 1) & 1].sequence = intake->frame_base;
    entry->taken[(version + 1) & 1].epoch = intake->epoch;
    CRASH_POINT("handler_taken_filled");
    /* release: the lane's tail and the pair before the version a successor reads. Pairs with the acquire in attach [H1]. */
    atomic_store_explicit(&entry->taken_version, version + 1, memory_order_release);
    CRASH_POINT("handler_taken");
    ring_release(&intake->in, intake->in.position);
    CRASH_POINT("handler_released");
    /* Of the sleepers on this bell, ring only if one waits for room. seq_cst: the room before our look at who waits for it; a
     * client raises `stalled`, announces with a full fence, then looks at the head [M2]. */
    atomic_thread_fence(memory_order_seq_cst);
    /* relaxed: ordered by the fence */
    if (atomic_load_explicit(&map->session->stalled, memory_order_relaxed) && bell_ring_client(&map->session->bell))
        count(handler->tree->page, COUNT_WAKES, 1);
}

static const struct topic_entry *resolve(struct handler *handler, const struct send_frame *frame)
{
    if (frame->topic == handler->last_topic && frame->topic_hash == handler->last_hash)
        return handler->topic;
    const struct topics *topics = handler->tree->topics;
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

/* What is wrong with a message, or VERDICT_APPENDED. */
static enum verdict judge(const struct handler *handler, const struct topic_entry *topic, const struct send_message *message,
                          const struct record_parts *parts, uint32_t *detail)
{
    const struct settings *settings = &handler->tree->control->settings;
    *detail = 0;
    if (!topic)
        return VERDICT_UNKNOWN_TOPIC;
    if (settings->read_only)
        return VERDICT_READ_ONLY;
    /* relaxed: single words that change independently */
    if (!(atomic_load_explicit(&topic->perm, memory_order_relaxed) & PERM_WRITE))
        return VERDICT_NO_PERMISSION;
    const uint32_t queues = atomic_load_explicit(&topic->queues, memory_order_relaxed);
    if (message->queue_id >= queues) {
        *detail = queues;
        return VERDICT_UNKNOWN_QUEUE;
    }
    if (message->properties_size > RECORD_PROPERTIES_MAX) {
        *detail = RECORD_PROPERTIES_MAX;
        return VERDICT_PROPERTIES_TOO_LARGE;
    }
    /* The client may still write there: a change after our copy affects its own message only, and the broker relies on none of
     * it. */
    struct slice name;
    if (reserved_find(parts->properties, parts->properties_size, &name))
        return VERDICT_RESERVED;
    if (message->body_size > settings->message_max || record_image_size(parts) > settings->message_max) {
        *detail = settings->message_max;
        return VERDICT_BODY_TOO_LARGE;
    }
    return VERDICT_APPENDED;
}

/* Puts one message, or its refusal, into the lane. False when the lane has no room now. */
static bool pass_on(struct handler *handler, uint32_t slot, const struct send_frame *frame, const struct topic_entry *topic,
                    const struct send_message *message, const uint8_t *payload)
{
    struct intake *intake = &handler->intake[slot];
    const struct settings *settings = &handler->tree->control->settings;
    struct record_parts parts = {
        .topic = topic ? topic->name : NULL,
        .topic_size = topic ? topic->name_size : 0,
        .properties = payload,
        .properties_size = message->properties_size,
        .body = payload + message->properties_size,
        .body_size = message->body_size,
        .queue_id = message->queue_id,
        .flag = message->flag,
        .sys_flag = message->sys_flag & SYSFLAG_COMPRESSED,
        .born_ms = frame->born_ms,
        .born_host = {127, 0, 0, 1},
    };
    memcpy(parts.store_host, settings->store_host, sizeof parts.store_host);
    uint32_t detail;
    const enum verdict verdict = judge(handler, topic, message, &parts, &detail);
    const uint32_t size = verdict == VERDICT_APPENDED ? record_image_size(&parts) : 0;
    struct lane_record *record = ring_claim(&handler->out, sizeof *record + size);
    if (!record)
        return false;
    record->session_slot = slot;
    record->session_epoch = intake->epoch;
    record->sequence = intake->sequence + 1;
    record->queue_id = message->queue_id;
    record->image_size = size;
    record->flags = frame->flags;
    record->code = verdict;
    record->detail = detail;
    record->physical_offset = record->queue_offset = 0; /* nobody fills a refusal's holes; the lane's old bytes are others' */
    if (verdict == VERDICT_APPENDED) {
        record->queue_slot = topic->first_slot + message->queue_id;
        record_encode(&parts, (uint8_t *)(record + 1), &record->seal);
        CRASH_POINT("handler_encoded");
        ring_commit(&handler->out, sizeof *record + size, LANE_APPEND);
        CRASH_POINT("handler_committed");
    } else {
        ring_commit(&handler->out, sizeof *record, LANE_REJECT);
        CRASH_POINT("handler_rejected");
        count(handler->tree->page, COUNT_REJECTED, 1);
    }
    return true;
}

/* Takes the rest of one frame. *taken counts messages put into the lane. */
static enum intake_result take_frame(struct handler *handler, uint32_t slot, const struct session_map *map,
                                     const uint8_t *payload, uint64_t size, uint32_t *taken)
{
    struct intake *intake = &handler->intake[slot];
    struct send_frame frame;
    if (size < sizeof frame)
        return INTAKE_FAULTY;
    memcpy(&frame, payload, sizeof frame);
    OWN_COPY(frame);
    const struct topic_entry *topic = resolve(handler, &frame);
    const _Atomic uint64_t *completed = &handler->tree->control->sessions[slot].completed;
    /* acquire: a slot's verdict was delivered before its sequence counts as completed */
    uint64_t window_end = atomic_load_explicit(completed, memory_order_acquire) + map->shape.window;
    uint64_t at = intake->frame_taken ? intake->frame_at : sizeof frame;
    for (uint32_t i = intake->frame_taken; i < frame.count; i++) {
        struct send_message message;
        if (at > size || size - at < sizeof message)
            return INTAKE_FAULTY;
        memcpy(&message, payload + at, sizeof message);
        OWN_COPY(message);
        const uint64_t stride = send_message_stride(message.properties_size, message.body_size);
        if (stride > size - at)
            return INTAKE_FAULTY;
        const uint8_t *content = payload + at + sizeof message;
        at += stride;
        if (intake->sequence + 1 > intake->skip) {
            if (intake->sequence >= window_end) /* acquire: as above */
                window_end = atomic_load_explicit(completed, memory_order_acquire) + map->shape.window;
            if (intake->sequence >= window_end)
                return INTAKE_EMPTY; /* more in flight than its window: no honest client; served at the next look */
            if (!pass_on(handler, slot, &frame, topic, &message, content))
                return INTAKE_STALLED;
            ++*taken;
            if (handler->out.position - handler->published >= PUBLISH_BYTES)
                publish(handler);
        }
        intake->sequence++;
        intake->frame_taken = i + 1;
        intake->frame_at = at;
    }
    return INTAKE_MORE;
}

/* Takes frames of one session until it has none left or has had its turn. A session that keeps publishing frames which put
 * nothing into the lane has its turn too. */
static enum intake_result take(struct handler *handler, uint32_t slot, struct session_map *map, uint32_t *taken)
{
    struct intake *intake = &handler->intake[slot];
    const uint64_t turn = handler->out.position + SESSION_BYTES, ring_turn = intake->in.position + SESSION_BYTES;
    enum intake_result result = INTAKE_MORE;
    while (result == INTAKE_MORE && handler->out.position < turn && intake->in.position < ring_turn) {
        struct ring_record header;
        uint8_t *payload;
        const enum ring_look look = ring_peek(&intake->in, &header, &payload);
        if (look == RING_EMPTY)
            return INTAKE_EMPTY;
        if (look == RING_BROKEN || header.type != SQ_SEND)
            return INTAKE_FAULTY;
        result = take_frame(handler, slot, map, payload, header.length - RING_HEADER, taken);
        if (result == INTAKE_MORE) {
            ring_pass(&intake->in, &header);
            intake->frame_taken = 0;
            intake->frame_base = intake->sequence;
        }
    }
    return result;
}

/* Moves the news bits of our lane to pending[]. */
static void collect(struct handler *handler)
{
    _Atomic uint64_t *news = handler->tree->wake->news[handler->index];
    for (uint32_t word = 0; word < SESSION_WORDS; word++) {
        /* relaxed look first, so that an idle scan does not write; seq_cst exchange: the bit is cleared before the ring's
         * tail is read (the fence below), and the client sets tail before bit [N1] */
        if (atomic_load_explicit(&news[word], memory_order_relaxed))
            handler->pending[word] |= atomic_exchange_explicit(&news[word], 0, memory_order_seq_cst);
    }
    /* seq_cst: the bits' clearing before our look at the rings; an acquiring load may pass the store half of an exchange. Pairs with
     * the fence between a client's frame and its look at the bit [N1]. */
    atomic_thread_fence(memory_order_seq_cst);
    CRASH_POINT("handler_collected");
    const uint32_t version = atomic_load_explicit(&handler->tree->control->sessions_version, memory_order_acquire);
    if (version != handler->sessions_version) {
        handler->sessions_version = version;
        all_pending(handler); /* sessions that have come or are closing */
    }
}

/* Wakes the clients of sessions whose verdicts the writer has delivered. */
static void deliver(struct handler *handler)
{
    _Atomic uint64_t *words = handler->tree->control->deliver[handler->index];
    for (uint32_t word = 0; word < SESSION_WORDS; word++) {
        /* relaxed look first, so that an idle scan does not write */
        if (!atomic_load_explicit(&words[word], memory_order_relaxed))
            continue;
        /* acquire: the verdicts before the bit. Pairs with the writer's release [D1]. */
        uint64_t bits = atomic_exchange_explicit(&words[word], 0, memory_order_acquire);
        CRASH_POINT("handler_deliver_cleared");
        for (; bits; bits &= bits - 1) {
            const uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(bits);
            struct session_map *map = attachment_session(handler->tree, slot, handler->tree->control->sessions[slot].shape.epoch);
            if (map && bell_ring_client(&map->session->bell))
                count(handler->tree->page, COUNT_WAKES, 1);
        }
    }
}

static void serve(struct handler *handler, uint32_t slot, uint32_t *taken)
{
    const uint64_t bit = UINT64_C(1) << (slot % 64);
    struct control *control = handler->tree->control;
    struct session_entry *entry = &control->sessions[slot];
    const uint32_t epoch = entry->shape.epoch;
    /* acquire: the epoch before the state, which is therefore this session's where the epoch is the same at the end. Pairs with the
     * fence in session_open_entry [E2]. */
    atomic_thread_fence(memory_order_acquire);
    /* acquire, and before the ring's tail is read: a client publishes, then ends. Looked at afterwards, the state could be that of an end
     * whose last frames came after our look at the ring. */
    const uint32_t state = atomic_load_explicit(&entry->state, memory_order_acquire);
    const bool closing = state == SESSION_CLOSING;
    if (state == SESSION_LOST && ours(handler, slot)) {
        handler->pending[slot / 64] &= ~bit;
        session_move_state(control, slot, SESSION_LOST, SESSION_FAULTY); /* we hold nothing of it: the slot may be freed */
        return;
    }
    struct session_map *map = ours(handler, slot) ? attach(handler, slot) : NULL;
    enum intake_result result = map ? take(handler, slot, map, taken) : INTAKE_EMPTY;
    publish(handler);
    if (map)
        settle(handler, slot, map);
    if (result == INTAKE_STALLED)
        handler->stalled = true;
    if (result == INTAKE_EMPTY || result == INTAKE_FAULTY)
        handler->pending[slot / 64] &= ~bit;
    if (result == INTAKE_FAULTY) {
        count(handler->tree->page, COUNT_FAULTS, 1);
        if (!session_move_state(control, slot, SESSION_READY, SESSION_FAULTY))
            session_move_state(control, slot, SESSION_CLOSING, SESSION_FAULTY);
    } else if (result == INTAKE_EMPTY && closing && ours(handler, slot) && entry->shape.sq_capacity &&
               entry->shape.epoch == epoch) {
        /* Only a session with a ring is kept for us; any other slot may be free by now, or belong to another session that is
         * closing too. */
        session_move_state(control, slot, SESSION_CLOSING, SESSION_DRAINED);
        CRASH_POINT("handler_drained");
    }
}

/* Serves the pending sessions in [from, to), until the lane is full. The next step begins with a session that got no room at
 * all, else with the one after the last: a session that can fill the lane alone must not starve those after it. */
static void serve_between(struct handler *handler, uint32_t from, uint32_t to, uint32_t *taken)
{
    for (uint32_t slot = from; slot < to && !handler->stalled; slot++) {
        const uint64_t bits = handler->pending[slot / 64] >> (slot % 64);
        if (!bits) {
            slot |= 63;
            continue;
        }
        slot += (uint32_t)__builtin_ctzll(bits);
        if (slot >= to)
            return;
        const uint32_t before = *taken;
        serve(handler, slot, taken);
        if (handler->stalled)
            handler->turn = (*taken == before ? slot : slot + 1) % SESSIONS_MAX;
    }
}

uint32_t handler_step(struct handler *handler)
{
    uint32_t taken = 0;
    attachment_sweep(handler->tree);
    deliver(handler);
    collect(handler);
    handler->stalled = false;
    const uint32_t turn = handler->turn;
    serve_between(handler, turn, SESSIONS_MAX, &taken);
    serve_between(handler, 0, turn, &taken);
    if (taken) {
        count(handler->tree->page, COUNT_STEPS, 1);
        count(handler->tree->page, COUNT_MESSAGES, taken);
        histogram_record(&handler->tree->page->histogram, taken);
    }
    return taken;
}

/* Is there anything to do that the last step did not see? Called between announcement and sleep. */
static bool has_news(struct handler *handler)
{
    const _Atomic uint64_t *news = handler->tree->wake->news[handler->index];
    const _Atomic uint64_t *words = handler->tree->control->deliver[handler->index];
    uint64_t any = 0;
    for (uint32_t word = 0; word < SESSION_WORDS; word++) {
        /* acquire, after the announcement's fence [B1] */
        any |= atomic_load_explicit(&news[word], memory_order_acquire);
        any |= atomic_load_explicit(&words[word], memory_order_acquire);
        if (!handler->stalled)
            any |= handler->pending[word];
    }
    if (handler->stalled)
        any |= handler->out.position - ring_head_position(&handler->lane->ring) < handler->lane->capacity / 2;
    /* acquire: as in collect */
    return any || handler->sessions_version !=
                      atomic_load_explicit(&handler->tree->control->sessions_version, memory_order_acquire);
}

static enum bell_wake sleep_for_news(struct handler *handler)
{
    struct bell *bell = &handler->tree->wake->handler[handler->index];
    if (handler->stalled) {
        count(handler->tree->page, COUNT_FULL, 1);
        /* relaxed: the announcement's fence below orders it before our look at the lane's head [M1] */
        atomic_store_explicit(&handler->lane->stalled, 1, memory_order_relaxed);
        CRASH_POINT("handler_stalled");
    }
    enum bell_wake wake = BELL_RUNG;
    const uint32_t ticket = bell_announce(bell);
    if (has_news(handler))
        bell_cancel(bell, ticket);
    else {
        count(handler->tree->page, COUNT_SLEEPS, 1);
        wake = bell_sleep(bell, ticket, BELL_LIMIT_NS);
    }
    /* relaxed: if the flag is still seen, the writer rings once in vain */
    atomic_store_explicit(&handler->lane->stalled, 0, memory_order_relaxed);
    return wake;
}

/* Every BELL_LIMIT_NS all sessions are looked at, because a client may have lied about its news bit, or another may have
 * cleared it. By the clock, and not after a sleep that ran out: a client that clears bits can ring as well, and a busy handler
 * never sleeps. */
static void look_at_all(struct handler *handler, uint64_t now_ms)
{
    if (now_ms - handler->looked_ms < BELL_LIMIT_NS / 1000000u)
        return;
    handler->looked_ms = now_ms;
    all_pending(handler);
}

enum run_result handler_run(struct handler *handler, uint32_t limit_ms)
{
    const uint64_t end = clock_ms() + limit_ms;
    const uint64_t spin_ns = (uint64_t)handler->tree->control->settings.spin_us * 1000u;
    for (;;) {
        const uint32_t taken = handler_step(handler);
        const enum pace_rest rest = taken ? PACE_LOOK : pace_idle(&handler->pace, spin_ns, control_crowded(handler->tree->control));
        if (taken)
            pace_work(&handler->pace, taken);
        if (rest == PACE_SIGNAL || (rest == PACE_SLEEP && sleep_for_news(handler) == BELL_SIGNAL))
            return RUN_SIGNAL;
        const uint64_t now_ms = clock_ms();
        look_at_all(handler, now_ms);
        attachment_beat(handler->tree);
        if (now_ms >= end)
            return RUN_TIME;
    }
}

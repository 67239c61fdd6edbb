/* What workers answer. A record is copied before it is looked at, because its client can change it at any time; and what it says
 * counts only for messages whose word names that very session. So a lie costs the liar its own messages.
 *
 * Order: words, then the refusals published, then `taken` of the session's entry, then the records' room given back.
 */
#include "actors/dispatcher/dispatcher_parts.h"
#include <string.h>

#define ANSWERS_A_TURN 256u
/* Messages that answers of one worker are about, in one turn. A hostile worker can name the same messages in every record of its ring. */
#define MESSAGES_A_TURN 16384u
#define ENDS_A_STEP (1u << 20) /* the same for all workers that end, and the words that are looked at to free what they had */
#define RANGE_PART 4u      /* an answer names at most so small a part of a ring's records */

static void refuse(struct work_worker *worker, struct session_map *map, const struct work_record *answer, uint64_t first, uint32_t count)
{
    worker->lapsed -= count < worker->lapsed ? count : worker->lapsed;
    const uint32_t capacity = map->shape.work_capacity;
    map->parts.hand_outs->record[worker->tail & (capacity - 1)] =
        (struct work_record){.first = first, .queue = answer->queue, .count = count, .kind = WORK_REFUSED, .tries = answer->tries,
                             .opening = answer->opening};
    worker->tail++;
}

/* True if it may be this very answer that made a message of ours what it is. What expired is free too, or elsewhere, and was not
 * acknowledged. What was nacked may be elsewhere already. */
static bool may_have_made(enum work_kind kind, uint64_t word)
{
    const bool done = work_state_of(word) == WORK_DONE, elsewhere = done && work_tick(word) == WORK_ELSEWHERE;
    return kind == WORK_ACK ? done && !elsewhere : kind == WORK_NACK ? !done || elsewhere : kind == WORK_GIVE_BACK && work_state_of(word) == WORK_FREE;
}

/* True if the answer counts for this message. again: a predecessor may have applied it. */
static bool apply_one(struct work_queue *queue, uint64_t offset, const struct work_record *answer, struct work_worker *worker, bool again,
                      const struct work_text *text, uint64_t now_ms)
{
    if (offset < queue->floor || offset >= queue->frontier)
        return false; /* what a predecessor applied last is above the floor: see dispatcher_raise */
    const uint64_t word = work_load(queue, offset);
    if (!work_is_mine(worker, word))
        return false;
    if (work_state_of(word) != WORK_HELD)
        return again && may_have_made((enum work_kind)answer->kind, word);
    const uint32_t tries = work_tries(word);
    /* It came too late, and the session has the message once more. From WORK_TRIES_MAX on, deliveries are not told apart. */
    if (tries != (answer->tries < WORK_TRIES_MAX ? answer->tries : WORK_TRIES_MAX))
        return false;
    switch ((enum work_kind)answer->kind) {
    case WORK_ACK:
        work_store(queue, offset, work_word(WORK_DONE, tries, worker->slot, worker->epoch, 0));
        worker->held--;
        break;
    case WORK_NACK:
        dispatcher_fail(queue, offset, word, tries, answer->time_ms, now_ms, text);
        break;
    case WORK_EXTEND: {
        const uint64_t time_ms = answer->time_ms < WORK_WAIT_MS_MAX ? answer->time_ms : WORK_WAIT_MS_MAX;
        work_store(queue, offset, work_word(WORK_HELD, tries, worker->slot, worker->epoch, work_tick_at(now_ms + time_ms)));
        if (now_ms + time_ms < queue->due_ms)
            queue->due_ms = now_ms + time_ms;
        break;
    }
    case WORK_GIVE_BACK:
        work_queue_free(queue, offset, word, tries ? tries - 1 : 0, 0, now_ms);
        break;
    default:
        return false;
    }
    CRASH_POINT("dispatcher_answers_applied");
    return true;
}

/* Applies one answer. deaf: nobody is there any more to hear of refusals. */
static void apply(struct work_worker *worker, struct session_map *map, const struct work_record *answer, const struct work_text *text,
                  bool again, bool deaf, uint64_t now_ms)
{
    struct work_queue *queue = dispatcher_find_queue(worker->group, answer->queue);
    const uint32_t most = map->shape.work_capacity / RANGE_PART;
    const bool known = queue && answer->opening == work_opening(queue->opening); /* else it was reset since it handed this out */
    if (!known || answer->count > most || answer->first > UINT64_MAX - most) {
        if (!deaf)
            refuse(worker, map, answer, answer->first, answer->count);
        return;
    }
    uint32_t refused = 0;
    for (uint32_t i = 0; i <= answer->count; i++) {
        const bool good = i == answer->count || apply_one(queue, answer->first + i, answer, worker, again, text, now_ms);
        if (good && refused && !deaf)
            refuse(worker, map, answer, answer->first + i - refused, refused);
        refused = good ? 0 : refused + 1;
    }
}

void dispatcher_raise(struct work_queue *queue)
{
    if (!queue->group->replays || queue->frontier - queue->floor >= WORK_WINDOW / 2)
        work_queue_raise(queue);
}

/* After it was noted: a successor that applies it again finds the words. */
static void raise_floor(const struct work_worker *worker, const struct work_record *answer)
{
    struct work_queue *queue = answer->kind == WORK_ACK ? dispatcher_find_queue(worker->group, answer->queue) : NULL;
    if (queue)
        dispatcher_raise(queue);
}

/* Records that the hand-outs' ring has room for; UINT32_MAX: the client's head cannot be. */
static uint32_t ring_room(const struct work_worker *worker, const struct session_map *map)
{
    const uint64_t used = worker->tail - work_ring_head(map->parts.hand_outs);
    return used > map->shape.work_capacity ? UINT32_MAX : map->shape.work_capacity - (uint32_t)used;
}

/* A predecessor that dies after this has its successor begin behind the answer. */
static void note_taken(struct dispatcher *dispatcher, const struct work_worker *worker)
{
    struct session_entry *entry = &dispatcher->attachment->control->sessions[worker->slot];
    const uint64_t version = atomic_load_explicit(&entry->taken_version, memory_order_relaxed); /* only we write it */
    entry->taken[(version + 1) & 1].position = worker->taken;
    entry->taken[(version + 1) & 1].sequence = 0;
    entry->taken[(version + 1) & 1].epoch = worker->epoch;
    /* release: the slot before the flip [H1] */
    atomic_store_explicit(&entry->taken_version, version + 1, memory_order_release);
}

/* Copies the next answer, and the text before it. Returns how many records they are; 0: not all of them are there yet, or never will be. */
static uint32_t gather(struct work_worker *worker, const struct session_map *map, uint64_t tail, struct work_record *answer,
                       struct work_text *text)
{
    text->size = 0;
    for (uint32_t i = 0; worker->taken + i != tail; i++) {
        memcpy(answer, &map->parts.answers->record[(worker->taken + i) & (map->shape.work_capacity - 1)], sizeof *answer);
        atomic_signal_fence(memory_order_acq_rel); /* what is checked from here on is this copy */
        if (answer->kind != WORK_TEXT)
            return i + 1;
        if (i == WORK_TEXT_PIECES) {
            worker->broken = true;
            break;
        }
        uint8_t piece[WORK_TEXT_PIECE];
        const uint32_t size = work_text_get(answer, piece);
        memcpy(text->text + text->size, piece, size);
        text->size += size;
    }
    return 0;
}

/* A text needs a place until its message is in the log. While nothing is on its way there, answers do not wait for that. */
static bool waits_for_place(struct dispatcher *dispatcher, const struct work_record *answer, struct work_text *text, bool deaf, uint64_t now_ms)
{
    if (!text->size)
        return false;
    if (answer->kind != WORK_NACK || answer->count > 1 || !dispatcher->partings) {
        text->size = 0;
        return false;
    }
    if (dispatcher_text_room(dispatcher, now_ms))
        return false;
    if (!deaf && dispatcher_hopes(dispatcher, now_ms))
        return true;
    text->size = 0;
    return false;
}

/* Takes answers of one worker, as many as fit into a turn. */
static uint32_t take(struct dispatcher *dispatcher, struct work_worker *worker, struct session_map *map, bool deaf, uint64_t now_ms)
{
    const uint32_t capacity = map->shape.work_capacity;
    struct work_ring *answers = map->parts.answers;
    const uint64_t tail = work_ring_tail(answers);
    if (worker->broken || tail == worker->taken)
        return 0;
    /* What they are about may have been reset before they were given. Then the plan says so, and comes first; as in
     * dispatcher_look_at_sessions, for a worker that is ending. */
    if (!deaf && control_work_version(dispatcher->attachment->control) != dispatcher->work_version)
        return 0;
    if (tail - worker->taken > capacity) {
        worker->broken = true;
        return 0;
    }
    const uint64_t before = worker->tail, began = worker->taken;
    uint32_t messages = 0;
    for (uint32_t i = 0; i < ANSWERS_A_TURN && messages + capacity / RANGE_PART <= MESSAGES_A_TURN && worker->taken != tail; i++) {
        /* An answer about n messages is refused in at most n / 2 + 1 pieces. */
        const uint32_t room = deaf ? capacity : ring_room(worker, map);
        if (room == UINT32_MAX) {
            worker->broken = true;
            break;
        }
        if (room < capacity / RANGE_PART / 2 + 1)
            break; /* the client must look at its hand-outs first */
        struct work_record answer;
        struct work_text text;
        const uint32_t records = gather(worker, map, tail, &answer, &text);
        worker->short_at = records ? UINT64_MAX : tail;
        worker->waits = records && waits_for_place(dispatcher, &answer, &text, deaf, now_ms);
        if (!records || worker->waits)
            break;
        apply(worker, map, &answer, &text, worker->taken < worker->replay, deaf, now_ms);
        messages += answer.count < capacity / RANGE_PART ? answer.count : capacity / RANGE_PART;
        worker->taken += records;
        if (worker->tail != before && !deaf)
            work_ring_publish(map->parts.hand_outs, worker->tail);
        CRASH_POINT("dispatcher_answers_refused");
        note_taken(dispatcher, worker);
        CRASH_POINT("dispatcher_answers_noted");
        raise_floor(worker, &answer);
    }
    if (worker->taken == began)
        return 0;
    work_ring_release(answers, worker->taken);
    CRASH_POINT("dispatcher_answers_released");
    /* seq_cst: the head before the look at who waits for it. Pairs with work_link_wait [J3], and with gateway_announce [Y2]. */
    atomic_thread_fence(memory_order_seq_cst);
    if (!deaf && (worker->tail != before || atomic_load_explicit(&map->session->stalled, memory_order_relaxed)))
        count(dispatcher->attachment->page, COUNT_WAKES, bell_ring_client(&map->session->bell) > 0);
    if (!deaf)
        dispatcher_ring_gateway(dispatcher, worker);
    return messages ? messages : 1;
}

/* Gives up a worker that wrote what cannot be: its messages are free, and its session is of no more use. */
static void give_up(struct dispatcher *dispatcher, struct work_worker *worker)
{
    for (uint32_t i = 0; i < worker->group->queue_count; i++)
        work_queue_release(worker->group->queues[i], worker);
    session_move_state(dispatcher->attachment->control, worker->slot, SESSION_READY, SESSION_FAULTY);
    count(dispatcher->attachment->page, COUNT_FAULTS, 1);
    dispatcher_forget_worker(dispatcher, worker);
}

/* True while an answer that a predecessor may have applied is in a worker's ring. */
static bool replays(struct dispatcher *dispatcher, const struct work_group *group)
{
    for (uint32_t i = 0; i < group->worker_count; i++) {
        struct work_worker *worker = group->workers[i];
        const struct session_map *map = dispatcher_session(dispatcher, worker);
        if (map && worker->taken < worker->replay && work_ring_tail(map->parts.answers) != worker->taken)
            return true;
    }
    return false;
}

uint32_t dispatcher_take_answers(struct dispatcher *dispatcher, uint64_t now_ms)
{
    uint32_t messages = 0;
    for (uint32_t g = 0; g < dispatcher->group_count; g++) {
        struct work_group *group = dispatcher->groups[g];
        if (group->replays)
            group->replays = replays(dispatcher, group);
        for (uint32_t i = 0; i < group->worker_count; i++) {
            struct work_worker *worker = group->workers[i];
            struct session_map *map = dispatcher_session(dispatcher, worker);
            if (map && !worker->ending)
                messages += take(dispatcher, worker, map, false, now_ms);
            if (worker->broken) {
                give_up(dispatcher, worker);
                i--;
            }
        }
    }
    return messages;
}

bool dispatcher_answered(struct dispatcher *dispatcher)
{
    for (uint32_t g = 0; g < dispatcher->group_count; g++)
        for (uint32_t i = 0; i < dispatcher->groups[g]->worker_count; i++) {
            struct work_worker *worker = dispatcher->groups[g]->workers[i];
            const struct session_map *map = dispatcher_session(dispatcher, worker);
            const uint64_t tail = map ? work_ring_tail(map->parts.answers) : 0;
            if (map && !worker->waits && tail != worker->taken && tail != worker->short_at &&
                ring_room(worker, map) >= map->shape.work_capacity / RANGE_PART / 2 + 1)
                return true;
        }
    return false;
}

/* Answers that a worker has given before its session began to close. False: there are more than fit into a turn. */
static bool hear_out(struct dispatcher *dispatcher, struct work_worker *worker, uint32_t *messages)
{
    struct session_map *map = dispatcher_session(dispatcher, worker);
    if (!map)
        return true;
    if (!worker->ending)
        worker->last = work_ring_tail(map->parts.answers); /* a client that goes on to answer does not keep its session */
    worker->ending = true;
    const uint64_t before = worker->taken;
    *messages += take(dispatcher, worker, map, true, clock_ms());
    const uint64_t taken = worker->taken - before;
    return taken == 0 || taken >= worker->last - before;
}

/* The end of a worker's session: what it has published still counts, and the rest is free. Returns how many words were looked at. */
static uint64_t end_worker(struct dispatcher *dispatcher, struct work_worker *worker)
{
    uint64_t words = 0;
    CRASH_POINT("dispatcher_answers_heard");
    for (uint32_t i = 0; i < worker->group->queue_count; i++) {
        words += worker->group->queues[i]->frontier - worker->group->queues[i]->floor;
        work_queue_release(worker->group->queues[i], worker);
    }
    dispatcher_forget_worker(dispatcher, worker);
    CRASH_POINT("dispatcher_answers_ended");
    return words;
}

uint32_t dispatcher_look_at_sessions(struct dispatcher *dispatcher)
{
    struct control *control = dispatcher->attachment->control;
    /* acquire, here and for each state: entries before what says that they changed. Pairs with the coordinator's release [E1]. */
    const uint32_t version = atomic_load_explicit(&control->sessions_version, memory_order_acquire);
    if (version == dispatcher->sessions_version && dispatcher->looked)
        return 0;
    uint32_t messages = 0;
    uint64_t words = 0;
    dispatcher->looked = false;
    bool all = true;
    for (uint32_t slot = 0; slot < SESSIONS_MAX; slot++) {
        const struct session_entry *entry = &control->sessions[slot];
        const uint32_t state = atomic_load_explicit(&entry->state, memory_order_acquire);
        struct work_worker *worker = dispatcher->by_slot[slot];
        const bool same = worker && state != SESSION_FREE && entry->shape.epoch == worker->epoch;
        const bool closing = state == SESSION_CLOSING && entry->shape.work_capacity > 0;
        /* A session that is closing entered its group before, and what it has answered may have been reset. If we have not heard of
         * that, the plan says it. */
        if (closing && control_work_version(control) != dispatcher->work_version)
            return messages;
        if (worker && !(same && state == SESSION_READY)) {
            if (messages + words >= ENDS_A_STEP)
                return messages;
            if (same && closing && !hear_out(dispatcher, worker, &messages)) {
                all = false;
                continue;
            }
            words += end_worker(dispatcher, worker);
        }
        if (closing)
            session_move_state(control, slot, SESSION_CLOSING, SESSION_DRAINED);
    }
    if (!all)
        return messages;
    dispatcher->sessions_version = version;
    dispatcher->looked = true;
    attachment_sweep(dispatcher->attachment);
    return messages;
}

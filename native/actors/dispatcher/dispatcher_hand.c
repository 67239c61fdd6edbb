/* Which worker gets which messages: workers take turns, and share what there is. */
#include "actors/dispatcher/dispatcher_parts.h"

uint32_t dispatcher_room(struct dispatcher *dispatcher, struct work_worker *worker, struct session_map *map)
{
    const struct session_entry *entry = &dispatcher->attachment->control->sessions[worker->slot];
    /* relaxed, both: a session that is closing now gets a little more, which it loses with the rest; and whoever wants more rings us, or
     * has announced itself before we look [J4] */
    const uint32_t wanted = atomic_load_explicit(&map->session->wanted, memory_order_relaxed);
    const uint32_t most = wanted < worker->most ? wanted : worker->most;
    if (atomic_load_explicit(&entry->state, memory_order_relaxed) != SESSION_READY || worker->held + worker->lapsed >= most)
        return 0;
    /* Half of the ring is kept for refusals. */
    const uint64_t used = worker->tail - work_ring_head(map->parts.hand_outs);
    return used < map->shape.work_capacity / 2 ? most - worker->held - worker->lapsed : 0;
}

static bool wants(const struct work_worker *worker, const struct work_queue *queue)
{
    return worker->topics >> queue->topic & 1;
}

static uint64_t available(const struct work_group *group, const struct work_worker *worker)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < group->queue_count; i++)
        if (wants(worker, group->queues[i]))
            sum += work_queue_available(group->queues[i]);
    return sum;
}

/* Chooses ranges for a worker, at most `most` messages. Returns how many ranges; they are in the note, not marked yet. */
static uint32_t choose(struct dispatcher *dispatcher, struct work_group *group, struct work_worker *worker, uint32_t most, uint32_t room,
                       uint32_t tries[WORK_NOTE_RANGES])
{
    struct work_note *note = &dispatcher->attachment->control->work_note;
    uint32_t ranges = 0;
    const uint32_t limit = room < WORK_NOTE_RANGES ? room : WORK_NOTE_RANGES;
    for (uint32_t seen = 0; seen < group->queue_count && most && ranges < limit; seen++) {
        struct work_queue *queue = group->queues[(group->queue_turn + seen) % group->queue_count];
        if (!wants(worker, queue))
            continue;
        while (most && ranges < limit) {
            uint64_t first;
            const uint32_t count = work_queue_find(queue, most, &first, &tries[ranges]);
            if (!count)
                break;
            note->range[ranges++] =
                (struct work_range){.opening = group->opening, .first = first, .queue = queue->slot, .count = count};
            most -= count;
            if (group->queue_ordered)
                break; /* they are not marked yet, and those behind them wait */
        }
    }
    group->queue_turn = (group->queue_turn + 1) % group->queue_count;
    return ranges;
}

/* Note, words, records, published, note struck out: see work_note.h. */
static uint32_t give(struct dispatcher *dispatcher, struct work_group *group, struct work_worker *worker, struct session_map *map, uint32_t most,
                     uint64_t now_ms)
{
    struct work_note *note = &dispatcher->attachment->control->work_note;
    const uint32_t capacity = map->shape.work_capacity;
    const uint64_t until_ms = now_ms + worker->visibility_ms;
    uint32_t tries[WORK_NOTE_RANGES], messages = 0;
    const uint32_t ranges = choose(dispatcher, group, worker, most, capacity / 2, tries);
    if (!ranges)
        return 0;
    note->slot = worker->slot;
    note->epoch = worker->epoch;
    note->tail = worker->tail;
    /* release: the ranges before their number, and that before the words */
    atomic_store_explicit(&note->count, ranges, memory_order_release);
    atomic_thread_fence(memory_order_release);
    CRASH_POINT("dispatcher_hand_noted");
    for (uint32_t i = 0; i < ranges; i++) {
        const struct work_range *range = &note->range[i];
        struct work_queue *queue = dispatcher_find_queue(group, range->queue);
        work_queue_hold(queue, range->first, range->count, tries[i], worker, until_ms);
        CRASH_POINT("dispatcher_hand_held");
        map->parts.hand_outs->record[worker->tail & (capacity - 1)] = (struct work_record){
            .first = range->first, .queue = range->queue, .count = range->count, .kind = WORK_HAND_OUT, .tries = (uint16_t)(tries[i] + 1),
            .opening = work_opening(queue->opening), .time_ms = until_ms};
        worker->tail++;
        messages += range->count;
    }
    CRASH_POINT("dispatcher_hand_put");
    work_ring_publish(map->parts.hand_outs, worker->tail);
    CRASH_POINT("dispatcher_hand_published");
    atomic_store_explicit(&note->count, 0, memory_order_release);
    CRASH_POINT("dispatcher_hand_struck");
    count(dispatcher->attachment->page, COUNT_WAKES, bell_ring_client(&map->session->bell) > 0);
    dispatcher_ring_gateway(dispatcher, worker);
    CRASH_POINT("dispatcher_hand_rang");
    return messages;
}

void dispatcher_ring_gateway(struct dispatcher *dispatcher, const struct work_worker *worker)
{
    struct attachment *const attachment = dispatcher->attachment;
    /* relaxed: a full fence stands between what was published and this, in bell_ring_client or `take` [Y2] */
    const uint64_t popped = atomic_load_explicit(&attachment->control->popped[worker->slot / 64], memory_order_relaxed);
    if (popped >> (worker->slot % 64) & 1)
        count(attachment->page, COUNT_WAKES, attachment_ring_gateway(attachment, 0));
}

/* True if a worker could get more than is known. */
static bool lacks(struct dispatcher *dispatcher, struct work_group *group)
{
    for (uint32_t i = 0; i < group->worker_count; i++) {
        struct session_map *map = dispatcher_session(dispatcher, group->workers[i]);
        const uint32_t room = map ? dispatcher_room(dispatcher, group->workers[i], map) : 0;
        if (room && available(group, group->workers[i]) < room)
            return true;
    }
    return false;
}

uint32_t dispatcher_hand_out(struct dispatcher *dispatcher, struct work_group *group, uint64_t now_ms)
{
    uint32_t hungry = 0, messages = 0;
    if (group->paused || !group->queue_count || control_tree_state(dispatcher->attachment->control) != TREE_RUNNING)
        return 0;
    if (group->order && (order_behind(group) || lacks(dispatcher, group)))
        dispatcher->passed += order_look(dispatcher, group);
    if (group->order && order_behind(group))
        return 0;
    for (uint32_t i = 0; i < group->worker_count; i++) {
        struct session_map *map = dispatcher_session(dispatcher, group->workers[i]);
        hungry += map && dispatcher_room(dispatcher, group->workers[i], map) > 0;
    }
    const uint32_t turn = group->worker_turn++;
    dispatcher_filter_turn(group);
    for (uint32_t i = 0; hungry && i < group->worker_count; i++) {
        struct work_worker *worker = group->workers[(turn + i) % group->worker_count];
        struct session_map *map = dispatcher_session(dispatcher, worker);
        const uint32_t room = map ? dispatcher_room(dispatcher, worker, map) : 0;
        if (!room)
            continue;
        /* An equal part of what there is, so that the first one does not get everything. */
        const uint64_t share = (available(group, worker) + hungry - 1) / hungry;
        hungry--;
        if (share)
            messages += give(dispatcher, group, worker, map, share < room ? (uint32_t)share : room, now_ms);
    }
    return messages;
}

bool dispatcher_can_hand_out(struct dispatcher *dispatcher, struct work_group *group)
{
    if (group->paused)
        return false;
    if (group->order && order_can_look(dispatcher, group) && (order_behind(group) || lacks(dispatcher, group)))
        return true;
    if (group->order && order_behind(group))
        return false;
    for (uint32_t i = 0; i < group->worker_count; i++) {
        struct session_map *map = dispatcher_session(dispatcher, group->workers[i]);
        if (map && dispatcher_room(dispatcher, group->workers[i], map) && available(group, group->workers[i]))
            return true;
    }
    return false;
}

void dispatcher_undo(struct dispatcher *dispatcher)
{
    struct work_note *note = &dispatcher->attachment->control->work_note;
    /* acquire: the note of the process before us, which is dead */
    const uint32_t ranges = atomic_load_explicit(&note->count, memory_order_acquire);
    struct work_worker *worker = ranges ? dispatcher->by_slot[note->slot % SESSIONS_MAX] : NULL;
    const struct session_map *map = worker && worker->epoch == note->epoch ? dispatcher_session(dispatcher, worker) : NULL;
    /* Without the session nobody has them in hand, and the queues are counted so. */
    if (map && worker->tail == note->tail) {
        for (uint32_t i = 0; i < ranges; i++) {
            struct work_queue *queue =
                note->range[i].opening == worker->group->opening ? dispatcher_find_queue(worker->group, note->range[i].queue) : NULL;
            for (uint32_t n = 0; queue && n < note->range[i].count; n++) {
                const uint64_t at = note->range[i].first + n;
                const uint64_t word = at >= queue->floor && at < queue->frontier ? work_load(queue, at) : 0;
                if (work_state_of(word) == WORK_HELD && work_is_mine(worker, word)) {
                    work_store(queue, at, work_word(WORK_FREE, work_tries(word) - 1, 0, 0, 0));
                    CRASH_POINT("dispatcher_hand_undone");
                }
            }
        }
    }
    atomic_store_explicit(&note->count, 0, memory_order_release);
    CRASH_POINT("dispatcher_hand_forgotten");
}

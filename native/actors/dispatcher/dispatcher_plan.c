/* Takes the plan: groups, workers and queues that it names are made or kept, the others are forgotten. */
#include "actors/dispatcher/dispatcher_parts.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static bool grow(void ***items, uint32_t count, uint32_t *room)
{
    if (count < *room)
        return true;
    const uint32_t wanted = *room ? *room * 2 : 4;
    void **more = realloc(*items, wanted * sizeof **items);
    if (!more)
        return false;
    *items = more;
    *room = wanted;
    return true;
}

struct work_queue *dispatcher_find_queue(const struct work_group *group, uint32_t slot)
{
    uint32_t low = 0, high = group->queue_count;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (group->queues[middle]->slot < slot)
            low = middle + 1;
        else
            high = middle;
    }
    return low < group->queue_count && group->queues[low]->slot == slot ? group->queues[low] : NULL;
}

struct session_map *dispatcher_session(struct dispatcher *dispatcher, struct work_worker *worker)
{
    struct session_map *map = attachment_session(dispatcher->attachment, worker->slot, worker->epoch);
    if (!map || !map->parts.answers)
        return NULL;
    if (worker->attached)
        return map;
    const struct session_entry *entry = &dispatcher->attachment->control->sessions[worker->slot];
    /* acquire: what a predecessor noted. Pairs with the release in note_taken [H1]. */
    const uint64_t version = atomic_load_explicit(&entry->taken_version, memory_order_acquire);
    const bool noted = entry->taken[version & 1].epoch == worker->epoch;
    worker->taken = noted ? entry->taken[version & 1].position : 0;
    worker->replay = worker->taken + 1; /* each answer is noted before the next one is looked at */
    /* The word is in the client's memory: if it has changed it, it spoils its own ring. */
    worker->tail = work_ring_tail(map->parts.hand_outs);
    work_ring_release(map->parts.answers, worker->taken);
    worker->attached = true;
    return map;
}

/* Whether reput is to ring us for a queue's messages. relaxed: the fence of our next announcement stands between this and the look at the
 * queue, reput's between its store of the maximum and its look at the bit [J1]. */
static void listen(const struct dispatcher *dispatcher, uint32_t slot, bool on)
{
    _Atomic uint64_t *word = &dispatcher->attachment->control->worked[slot / 64];
    const uint64_t bit = UINT64_C(1) << (slot % 64);
    if (on)
        atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
    else
        atomic_fetch_and_explicit(word, ~bit, memory_order_relaxed);
}

/* Queues of other groups may be the same: the bits are set again for those that stay. */
static void listen_again(const struct dispatcher *dispatcher)
{
    for (uint32_t g = 0; g < dispatcher->group_count; g++)
        for (uint32_t i = 0; i < dispatcher->groups[g]->queue_count; i++)
            listen(dispatcher, dispatcher->groups[g]->queues[i]->slot, true);
}

void dispatcher_begin(struct dispatcher *dispatcher, uint32_t version)
{
    dispatcher->work_version = version;
    for (uint32_t g = 0; g < dispatcher->group_count; g++) {
        struct work_group *group = dispatcher->groups[g];
        group->named = false;
        dispatcher_filter_begin(group);
        for (uint32_t i = 0; i < group->queue_count; i++)
            group->queues[i]->named = false;
        for (uint32_t i = 0; i < group->worker_count; i++)
            group->workers[i]->named = false;
    }
}

int32_t dispatcher_group(struct dispatcher *dispatcher, uint64_t opening, const char *name, bool paused, uint32_t max_tries,
                         enum work_order order)
{
    uint32_t at = 0;
    while (at < dispatcher->group_count && dispatcher->groups[at]->opening != opening)
        at++;
    if (at == dispatcher->group_count) {
        struct work_group *group = grow((void ***)&dispatcher->groups, at, &dispatcher->group_room) ? calloc(1, sizeof *group) : NULL;
        if (!group)
            return -1;
        group->opening = opening;
        group->name_size = (uint32_t)strnlen(name, TOPIC_NAME_MAX);
        memcpy(group->name, name, group->name_size);
        group->puts = group->name_size + sizeof RETRY_PREFIX - 1 <= TOPIC_NAME_MAX && !name[group->name_size];
        dispatcher->groups[dispatcher->group_count++] = group;
    }
    dispatcher->groups[at]->paused = paused;
    dispatcher->groups[at]->max_tries = max_tries;
    dispatcher->groups[at]->missing_ms = 0;
    dispatcher->groups[at]->named = true;
    dispatcher->groups[at]->queue_ordered = order == WORK_ORDER_QUEUE;
    if (!order_set(dispatcher, dispatcher->groups[at], order == WORK_ORDER_KEY))
        return -1;
    return (int32_t)at;
}

/* held: what workers have in hand of it is not in their hands any more. */
static void close_queue(const struct dispatcher *dispatcher, struct work_queue *queue, bool held)
{
    if (held)
        work_queue_forget(queue);
    listen(dispatcher, queue->slot, false);
    order_remove_queue(queue);
    consume_queue_reader_close(&queue->units, dispatcher->attachment->control->settings.queue_file_units);
    work_queue_close(queue);
    free(queue);
}

static void drop_queue(const struct dispatcher *dispatcher, struct work_group *group, struct work_queue *queue)
{
    uint32_t at = 0;
    while (group->queues[at] != queue)
        at++;
    memmove(&group->queues[at], &group->queues[at + 1], (--group->queue_count - at) * sizeof *group->queues);
    group->queue_turn = 0;
    close_queue(dispatcher, queue, true);
}

int dispatcher_queue(struct dispatcher *dispatcher, int32_t number, uint32_t slot, uint32_t topic, const char *path, uint64_t opening,
                     uint64_t offset)
{
    assert(number >= 0 && (uint32_t)number < dispatcher->group_count && topic < WORK_TOPICS_MAX);
    struct work_group *group = dispatcher->groups[number];
    struct work_queue *known = dispatcher_find_queue(group, slot);
    if (known && known->opening == opening) {
        known->named = true;
        known->topic = topic;
        return 0;
    }
    if (known)
        drop_queue(dispatcher, group, known); /* it was reset: another file has its place */
    if (slot >= dispatcher->attachment->topics->queue_capacity)
        return EINVAL;
    struct work_queue *queue =
        grow((void ***)&group->queues, group->queue_count, &group->queue_room) ? calloc(1, sizeof *queue) : NULL;
    if (!queue)
        return ENOMEM;
    queue->dispatcher = dispatcher;
    queue->group = group;
    queue->key = dispatcher_key(path);
    queue->slot = slot;
    queue->opening = opening;
    queue->topic = topic;
    queue->slot_entry = topics_queue(dispatcher->attachment->topics, slot);
    queue->named = true;
    const struct topic_entry *entry = &dispatcher->attachment->topics->topic[queue->slot_entry->topic];
    queue->retry = retry_after((struct slice){entry->name, entry->name_size}, RETRY_PREFIX).data != NULL;
    int error = work_queue_open(queue, path, opening, offset);
    if (!error && group->order && !order_add_queue(queue)) {
        work_queue_close(queue);
        error = ENOMEM;
    }
    if (error) {
        free(queue);
        return error;
    }
    uint32_t at = group->queue_count++;
    for (; at > 0 && group->queues[at - 1]->slot > slot; at--)
        group->queues[at] = group->queues[at - 1];
    group->queues[at] = queue;
    return 0;
}

int dispatcher_worker(struct dispatcher *dispatcher, int32_t number, uint32_t slot, uint32_t epoch, uint64_t topics, uint32_t most,
                      uint64_t visibility_ms)
{
    assert(number >= 0 && (uint32_t)number < dispatcher->group_count && slot < SESSIONS_MAX);
    struct work_group *group = dispatcher->groups[number];
    struct work_worker *worker = dispatcher->by_slot[slot];
    if (worker && worker->epoch == epoch && worker->group == group) {
        worker->named = true;
        worker->topics = topics;
        return 0;
    }
    if (worker) {
        for (uint32_t i = 0; i < worker->group->queue_count; i++)
            work_queue_release(worker->group->queues[i], worker);
        dispatcher_forget_worker(dispatcher, worker);
    }
    worker = grow((void ***)&group->workers, group->worker_count, &group->worker_room) ? calloc(1, sizeof *worker) : NULL;
    if (!worker)
        return ENOMEM;
    *worker = (struct work_worker){.group = group, .slot = slot, .epoch = epoch, .topics = topics, .most = most,
                                   .visibility_ms = visibility_ms, .named = true};
    group->workers[group->worker_count++] = worker;
    dispatcher->by_slot[slot] = worker;
    return 0;
}

void dispatcher_forget_worker(struct dispatcher *dispatcher, struct work_worker *worker)
{
    struct work_group *group = worker->group;
    for (uint32_t i = 0; i < group->worker_count; i++)
        if (group->workers[i] == worker) {
            group->workers[i] = group->workers[--group->worker_count];
            break;
        }
    if (dispatcher->by_slot[worker->slot] == worker)
        dispatcher->by_slot[worker->slot] = NULL;
    free(worker);
}

static void forget_unnamed(struct dispatcher *dispatcher, struct work_group *group)
{
    for (uint32_t i = 0; i < group->worker_count;) {
        struct work_worker *worker = group->workers[i];
        if (worker->named && group->named) {
            i++;
            continue;
        }
        for (uint32_t q = 0; q < group->queue_count; q++)
            work_queue_release(group->queues[q], worker);
        dispatcher_forget_worker(dispatcher, worker);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < group->queue_count; i++) {
        if (group->queues[i]->named && group->named)
            group->queues[kept++] = group->queues[i];
        else
            close_queue(dispatcher, group->queues[i], true);
    }
    group->queue_count = kept;
    group->queue_turn = 0;
}

static void free_group(struct dispatcher *dispatcher, struct work_group *group)
{
    group->queue_count = 0;
    dispatcher_filter_forget(group);
    order_set(dispatcher, group, false);
    free(group->queues);
    free(group->workers);
    free(group);
}

void dispatcher_settle(struct dispatcher *dispatcher)
{
    uint32_t kept = 0;
    for (uint32_t g = 0; g < dispatcher->group_count; g++) {
        struct work_group *group = dispatcher->groups[g];
        forget_unnamed(dispatcher, group);
        dispatcher_filter_settle(group);
        if (group->named)
            dispatcher->groups[kept++] = group;
        else
            free_group(dispatcher, group);
    }
    dispatcher->group_count = kept;
    CRASH_POINT("dispatcher_plan_taken");
    if (!dispatcher->planned) {
        dispatcher_undo(dispatcher);
        for (uint32_t g = 0; g < dispatcher->group_count; g++)
            dispatcher->groups[g]->replays = true;
    }
    dispatcher->planned = true;
    for (uint32_t g = 0; g < dispatcher->group_count; g++) {
        struct work_group *group = dispatcher->groups[g];
        for (uint32_t i = 0; i < group->queue_count; i++)
            if (group->queues[i]->fresh)
                work_queue_count(group->queues[i]);
    }
    listen_again(dispatcher);
    dispatcher->looked = false; /* a worker of the plan may have ended before we heard of it */
}

void dispatcher_close(struct dispatcher *dispatcher)
{
    dispatcher_begin(dispatcher, dispatcher->work_version);
    for (uint32_t g = 0; g < dispatcher->group_count; g++) {
        struct work_group *group = dispatcher->groups[g];
        while (group->worker_count)
            dispatcher_forget_worker(dispatcher, group->workers[0]); /* what they have in hand stays so for a successor */
        for (uint32_t i = 0; i < group->queue_count; i++)
            close_queue(dispatcher, group->queues[i], false);
        free_group(dispatcher, group);
    }
    free(dispatcher->groups);
    log_map_close(&dispatcher->log);
    if (dispatcher->partings)
        munmap(dispatcher->partings, WORK_PARTINGS_SIZE);
    free(dispatcher);
}

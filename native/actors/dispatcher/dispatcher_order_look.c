/* Looking at the messages of a key-ordered group (dispatcher_order.h), in the order of the log over all its queues. */
#include "actors/dispatcher/dispatcher_chain.h"
#include "base/hash.h"

#include <errno.h>

#define LOOKS_A_STEP 512u
#define BYTES_A_STEP (1u << 20)
#define RETRY_MS 100u

static uint64_t hash_of(const struct order *order, struct slice key)
{
    return (uint64_t)hash_bytes(order->seed[0], key.data, key.size) << 32 | hash_bytes(order->seed[1], key.data, key.size);
}

static struct slice key_of(const struct record_view *view)
{
    const struct slice sharding = properties_get(view->properties.data, view->properties.size, "__SHARDINGKEY", 13);
    return sharding.data ? sharding : properties_get(view->properties.data, view->properties.size, "KEYS", 4);
}

/* Where the messages end that can be looked at. Those that were handed out before count as there, once everything that stood in the
 * log when this process began is in its queues. */
static uint64_t end_of(const struct dispatcher *dispatcher, const struct work_queue *queue, uint64_t limit)
{
    const uint64_t end = work_queue_end(queue);
    return end < queue->frontier && limit >= dispatcher->log_end ? queue->frontier : end;
}

/* Every message below is in its queue. acquire: before the look at the queues. Pairs with reput's release [P1]. */
static uint64_t log_limit(const struct dispatcher *dispatcher)
{
    return atomic_load_explicit(&dispatcher->attachment->control->reput.value, memory_order_acquire);
}

/* Passes what is done. True if there is a message below the limit; then its place in the log is known. */
static bool has_next(struct dispatcher *dispatcher, struct work_queue *queue, uint64_t limit)
{
    const uint64_t end = end_of(dispatcher, queue, limit);
    while (queue->looked < queue->frontier && work_state_of(work_load(queue, queue->looked)) == WORK_DONE) {
        queue->looked++;
        queue->placed = false;
    }
    if (queue->looked >= end)
        return false;
    if (!queue->placed) {
        struct queue_unit unit;
        const enum unit_result result = dispatcher_unit(queue, queue->looked, &unit);
        if (result == UNIT_LATER) {
            queue->group->order->retry_ms = clock_ms() + RETRY_MS;
            return false;
        }
        queue->place = result == UNIT_FOUND ? unit.physical_offset : 0; /* nobody can read it, so it waits for nothing */
        queue->placed = true;
    }
    return queue->place < limit;
}

/* The queue whose next message stands first in the log; *until: the place of the next one of another queue. */
static struct work_queue *first_queue(struct dispatcher *dispatcher, struct work_group *group, uint64_t limit, uint64_t *until)
{
    struct work_queue *found = NULL;
    *until = limit;
    for (uint32_t i = 0; i < group->queue_count; i++) {
        struct work_queue *queue = group->queues[i];
        if (!has_next(dispatcher, queue, limit))
            continue;
        if (!found || queue->place < found->place) {
            if (found && found->place < *until)
                *until = found->place;
            found = queue;
        } else if (queue->place < *until) {
            *until = queue->place;
        }
    }
    return found;
}

/* Messages that were handed out before are behind fresh ones of other queues in the log, so these are looked at first, however many they
 * are: a window of each queue at most. */
static bool is_full(const struct dispatcher *dispatcher, const struct work_group *group)
{
    return group->order->known >= dispatcher->known_max && !order_behind(group);
}

/* False: not now. */
static bool look_at_one(struct work_queue *queue)
{
    struct order *order = queue->group->order;
    const uint64_t offset = queue->looked, word = offset < queue->frontier ? work_load(queue, offset) : 0;
    struct queue_unit unit;
    struct record_view view;
    uint64_t key;
    bool keyed = false;
    uint32_t tries = 0;
    if (offset >= queue->frontier && is_full(queue->dispatcher, queue->group))
        return false;
    const uint8_t *at = dispatcher_record(queue, offset, &unit, &view);
    if (!at && log_map_passing(errno)) {
        order->retry_ms = clock_ms() + RETRY_MS;
        return false;
    }
    if (at && word == 0 && !dispatcher_wants(queue, unit.tags_code, &view)) {
        work_queue_pass(queue, offset);
        queue->looked++;
        queue->placed = false;
        return true;
    }
    if (at) {
        const struct slice text = key_of(&view);
        keyed = text.data != NULL;
        key = keyed ? hash_of(order, text) : 0;
        tries = !queue->retry ? 0 : view.reconsume_times < WORK_TRIES_MAX ? view.reconsume_times : WORK_TRIES_MAX;
    }
    if (!chain_add(queue, offset, word, keyed ? &key : NULL, tries)) {
        order->retry_ms = clock_ms() + RETRY_MS;
        return false;
    }
    queue->looked++;
    queue->placed = false;
    CRASH_POINT("dispatcher_order_look_known");
    return true;
}

uint32_t order_look(struct dispatcher *dispatcher, struct work_group *group)
{
    const uint64_t limit = log_limit(dispatcher), read = dispatcher->read, retry_ms = group->order->retry_ms;
    uint32_t count = 0;
    if (group->order->retry_ms > clock_ms())
        return 0;
    while (count < LOOKS_A_STEP && dispatcher->read - read < BYTES_A_STEP) {
        uint64_t until;
        struct work_queue *queue = first_queue(dispatcher, group, limit, &until);
        /* A queue whose next message cannot be found now may have one of the same key that stands before the others'. */
        if (!queue || group->order->retry_ms != retry_ms)
            break;
        do {
            if (!look_at_one(queue))
                return count;
            count++;
        } while (count < LOOKS_A_STEP && dispatcher->read - read < BYTES_A_STEP && has_next(dispatcher, queue, limit) && queue->place < until);
    }
    return count;
}

bool order_can_look(const struct dispatcher *dispatcher, const struct work_group *group)
{
    const uint64_t limit = log_limit(dispatcher);
    if (group->order->retry_ms > clock_ms())
        return false;
    for (uint32_t i = 0; i < group->queue_count; i++) {
        const struct work_queue *queue = group->queues[i];
        if (queue->looked < end_of(dispatcher, queue, limit) && (!queue->placed || queue->place < limit) &&
            (queue->looked < queue->frontier || !is_full(dispatcher, group)))
            return true;
    }
    return false;
}

bool order_behind(const struct work_group *group)
{
    for (uint32_t i = 0; i < group->queue_count; i++)
        if (group->queues[i]->looked < group->queues[i]->frontier)
            return true;
    return false;
}

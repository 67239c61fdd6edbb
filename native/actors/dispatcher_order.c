#include "actors/dispatcher_parts.h"
#include "base/hash.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define NONE 0u /* nodes and chains are numbered from 1 */
#define BUCKETS 65536u
#define LOOKS_A_STEP 512u
#define BYTES_A_STEP (1u << 20)
#define NEAR 64u /* steps to the place of a message in its queue's list */
#define RETRY_MS 100u

struct node {
    struct work_queue *queue;
    uint64_t offset;
    uint32_t chain;        /* NONE: no key */
    uint32_t before, next; /* in the chain; next of a node that is unused: another one */
    uint32_t ready_before, ready_next;
    uint32_t tries;        /* of a retry: how often it was handed out before, in other records */
    bool free, held, ready;
};

struct chain {
    uint64_t key;
    uint32_t head, tail;
    uint32_t held;
    uint32_t next; /* in its bucket; of one that is unused: another one */
};

struct order {
    struct node *node;
    struct chain *chain;
    uint32_t node_room, node_top, node_unused;
    uint32_t chain_room, chain_top, chain_unused;
    uint32_t known;   /* nodes in use */
    uint32_t waiting; /* of them those that are not the first of their chain */
    uint32_t seed[2];
    uint64_t retry_ms; /* this process is short of something; not before then */
    uint32_t bucket[BUCKETS];
};

/* ---- numbers of nodes and chains ----------------------------------------------------------------------------------- */

/* Room for one more; false: no memory. */
static bool grow(void **items, uint32_t *room, uint32_t top, size_t size)
{
    if (top + 1 < *room)
        return true;
    const uint32_t wanted = *room ? *room * 2 : 1024;
    void *more = realloc(*items, wanted * size);
    if (!more)
        return false;
    *items = more;
    *room = wanted;
    return true;
}

static uint32_t new_node(struct order *order)
{
    uint32_t id = order->node_unused;
    if (id) {
        order->node_unused = order->node[id].next;
    } else {
        if (!grow((void **)&order->node, &order->node_room, order->node_top + 1, sizeof *order->node))
            return NONE;
        id = ++order->node_top;
    }
    order->known++;
    order->node[id] = (struct node){0};
    return id;
}

static uint32_t *bucket_of(struct order *order, uint64_t key) { return &order->bucket[(key ^ key >> 32) % BUCKETS]; }

static uint32_t find_chain(struct order *order, uint64_t key)
{
    uint32_t id = *bucket_of(order, key);
    while (id && order->chain[id].key != key)
        id = order->chain[id].next;
    return id;
}

static uint32_t new_chain(struct order *order, uint64_t key)
{
    uint32_t id = order->chain_unused;
    if (id) {
        order->chain_unused = order->chain[id].next;
    } else {
        if (!grow((void **)&order->chain, &order->chain_room, order->chain_top + 1, sizeof *order->chain))
            return NONE;
        id = ++order->chain_top;
    }
    uint32_t *bucket = bucket_of(order, key);
    order->chain[id] = (struct chain){.key = key, .next = *bucket};
    *bucket = id;
    return id;
}

static void free_chain(struct order *order, uint32_t id)
{
    uint32_t *at = bucket_of(order, order->chain[id].key);
    while (*at != id)
        at = &order->chain[*at].next;
    *at = order->chain[id].next;
    order->chain[id].next = order->chain_unused;
    order->chain_unused = id;
}

/* ---- what can be handed out ---------------------------------------------------------------------------------------- */

static void take_from_list(struct order *order, uint32_t id)
{
    struct node *node = &order->node[id];
    struct work_queue *queue = node->queue;
    *(node->ready_before ? &order->node[node->ready_before].ready_next : &queue->ready_head) = node->ready_next;
    *(node->ready_next ? &order->node[node->ready_next].ready_before : &queue->ready_tail) = node->ready_before;
    node->ready = false;
    queue->ready--;
}

/* About in the order of the queue: most come at its end, and what comes again, or has waited, at its beginning. */
static void put_into_list(struct order *order, uint32_t id)
{
    struct node *node = &order->node[id];
    struct work_queue *queue = node->queue;
    uint32_t before = queue->ready_tail;
    if (before && order->node[before].offset > node->offset) {
        before = NONE;
        uint32_t at = queue->ready_head;
        for (uint32_t i = 0; i < NEAR && at && order->node[at].offset < node->offset; i++) {
            before = at;
            at = order->node[at].ready_next;
        }
    }
    node->ready_before = before;
    node->ready_next = before ? order->node[before].ready_next : queue->ready_head;
    *(before ? &order->node[before].ready_next : &queue->ready_head) = id;
    *(node->ready_next ? &order->node[node->ready_next].ready_before : &queue->ready_tail) = id;
    node->ready = true;
    queue->ready++;
}

static void set_ready(struct order *order, uint32_t id, bool ready)
{
    if (order->node[id].ready == ready)
        return;
    if (ready)
        put_into_list(order, id);
    else
        take_from_list(order, id);
}

static void settle(struct order *order, uint32_t id)
{
    const struct chain *chain = &order->chain[id];
    set_ready(order, chain->head, order->node[chain->head].free && chain->held == 0);
}

/* ---- messages that come and go -------------------------------------------------------------------------------------- */

static uint32_t *place_of(const struct work_queue *queue, uint64_t offset) { return &queue->nodes[offset % WORK_WINDOW]; }

static uint32_t node_at(const struct work_queue *queue, uint64_t offset)
{
    const uint32_t id = *place_of(queue, offset);
    return id && queue->group->order->node[id].offset == offset ? id : NONE;
}

static void set_word(struct order *order, uint32_t id, uint64_t word)
{
    struct node *node = &order->node[id];
    const bool held = work_state_of(word) == WORK_HELD;
    node->free = work_state_of(word) == WORK_FREE;
    if (!node->chain) {
        set_ready(order, id, node->free);
        return;
    }
    struct chain *chain = &order->chain[node->chain];
    chain->held += held;
    chain->held -= node->held;
    node->held = held;
    if (chain->head != id)
        set_ready(order, id, false);
    settle(order, node->chain);
}

static void drop(struct order *order, uint32_t id)
{
    struct node *node = &order->node[id];
    set_ready(order, id, false);
    if (node->chain) {
        struct chain *chain = &order->chain[node->chain];
        order->waiting -= chain->head != chain->tail;
        chain->held -= node->held;
        *(node->before ? &order->node[node->before].next : &chain->head) = node->next;
        *(node->next ? &order->node[node->next].before : &chain->tail) = node->before;
        if (chain->head)
            settle(order, node->chain);
        else
            free_chain(order, node->chain);
    }
    *place_of(node->queue, node->offset) = NONE;
    node->next = order->node_unused;
    order->node_unused = id;
    order->known--;
}

/* key: NULL if it has none. False: no memory. */
static bool add(struct work_queue *queue, uint64_t offset, uint64_t word, const uint64_t *key, uint32_t tries)
{
    struct order *order = queue->group->order;
    uint32_t chain = NONE;
    const uint32_t id = new_node(order);
    if (!id)
        return false;
    if (key && !(chain = find_chain(order, *key)) && !(chain = new_chain(order, *key))) {
        order->node[id].next = order->node_unused;
        order->node_unused = id;
        order->known--;
        return false;
    }
    struct node *node = &order->node[id];
    node->queue = queue;
    node->offset = offset;
    node->chain = chain;
    node->tries = tries;
    if (chain) {
        struct chain *mine = &order->chain[chain];
        node->before = mine->tail;
        order->waiting += mine->tail != NONE;
        *(mine->tail ? &order->node[mine->tail].next : &mine->head) = id;
        mine->tail = id;
    }
    *place_of(queue, offset) = id;
    set_word(order, id, word);
    return true;
}

void order_changed(struct work_queue *queue, uint64_t offset, uint64_t word)
{
    const uint32_t id = node_at(queue, offset);
    if (!id)
        return;
    if (work_state_of(word) == WORK_DONE)
        drop(queue->group->order, id);
    else
        set_word(queue->group->order, id, word);
}

void order_raised(struct work_queue *queue, uint64_t from)
{
    for (uint64_t at = from; at < queue->floor && at < queue->looked; at++) {
        const uint32_t id = node_at(queue, at);
        if (id)
            drop(queue->group->order, id);
    }
    if (queue->looked < queue->floor) {
        queue->looked = queue->floor;
        queue->placed = false;
    }
}

bool order_waits(const struct work_group *group) { return group->order && group->order->waiting > 0; }

bool order_is_free(const struct work_queue *queue, uint64_t offset)
{
    const uint32_t id = node_at(queue, offset);
    return id && !queue->group->order->node[id].chain;
}

uint32_t order_find(struct work_queue *queue, uint32_t most, uint64_t *first, uint32_t *tries)
{
    struct order *order = queue->group->order;
    uint32_t count = 0;
    for (uint32_t id = queue->ready_head; id && count < most; id = queue->ready_head) {
        const struct node *node = &order->node[id];
        const uint32_t before = work_tries(work_load(queue, node->offset)), mine = before ? before : node->tries;
        if (count && (node->offset != *first + count || mine != *tries))
            break;
        if (!count) {
            *first = node->offset;
            *tries = mine;
        }
        take_from_list(order, id);
        count++;
    }
    return count;
}

/* ---- looking at messages -------------------------------------------------------------------------------------------- */

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
    return atomic_load_explicit(&dispatcher->tree->control->reput.value, memory_order_acquire);
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
    if (!add(queue, offset, word, keyed ? &key : NULL, tries)) {
        order->retry_ms = clock_ms() + RETRY_MS;
        return false;
    }
    queue->looked++;
    queue->placed = false;
    CRASH_POINT("dispatcher_order_known");
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

/* ---- groups and queues ---------------------------------------------------------------------------------------------- */

bool order_add_queue(struct work_queue *queue)
{
    queue->nodes = calloc(WORK_WINDOW, sizeof *queue->nodes);
    queue->looked = queue->floor;
    queue->placed = false;
    queue->ready_head = queue->ready_tail = NONE;
    queue->ready = 0;
    return queue->nodes != NULL;
}

void order_look_again(struct work_queue *queue)
{
    for (uint64_t at = queue->floor; at < queue->looked; at++) {
        const uint32_t id = node_at(queue, at);
        if (id)
            drop(queue->group->order, id);
    }
    queue->looked = queue->floor;
    queue->placed = false;
}

void order_remove_queue(struct work_queue *queue)
{
    if (!queue->nodes)
        return;
    order_look_again(queue);
    free(queue->nodes);
    queue->nodes = NULL;
}

static struct order *make(void)
{
    struct order *order = calloc(1, sizeof *order);
    if (order && getrandom(order->seed, sizeof order->seed, GRND_NONBLOCK) != sizeof order->seed) {
        order->seed[0] = (uint32_t)clock_ns();
        order->seed[1] = ~order->seed[0];
    }
    return order;
}

bool order_set(struct dispatcher *dispatcher, struct work_group *group, bool wanted)
{
    assert(!wanted || dispatcher->known_max > 0);
    if (wanted == (group->order != NULL))
        return true;
    if (wanted) {
        group->order = make();
        bool made = group->order != NULL;
        for (uint32_t i = 0; i < group->queue_count && made; i++)
            made = order_add_queue(group->queues[i]);
        return made;
    }
    for (uint32_t i = 0; i < group->queue_count; i++) {
        order_remove_queue(group->queues[i]);
        group->queues[i]->fresh = true; /* what is free was not counted */
    }
    free(group->order->node);
    free(group->order->chain);
    free(group->order);
    group->order = NULL;
    return true;
}

#include "actors/dispatcher/dispatcher_chain.h"

#include <stdlib.h>

#define NEAR 64u /* steps to the place of a message in its queue's list */

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

void chain_take(struct order *order, uint32_t id)
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
        chain_take(order, id);
}

static void settle(struct order *order, uint32_t id)
{
    const struct chain *chain = &order->chain[id];
    set_ready(order, chain->head, order->node[chain->head].free && chain->held == 0);
}

/* ---- messages that come and go -------------------------------------------------------------------------------------- */

void chain_set(struct order *order, uint32_t id, uint64_t word)
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

void chain_drop(struct order *order, uint32_t id)
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
    *chain_place(node->queue, node->offset) = NONE;
    node->next = order->node_unused;
    order->node_unused = id;
    order->known--;
}

bool chain_add(struct work_queue *queue, uint64_t offset, uint64_t word, const uint64_t *key, uint32_t tries)
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
    *chain_place(queue, offset) = id;
    chain_set(order, id, word);
    return true;
}

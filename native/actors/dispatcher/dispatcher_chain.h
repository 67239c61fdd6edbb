/* The nodes and chains of a key-ordered group (dispatcher_order.h): the messages that were looked at and are not done, which of them
 * have a key in common, and which can be handed out. Nodes and chains have numbers, because their arrays move when they grow.
 */
#ifndef ORBITMQ_DISPATCHER_CHAIN_H
#define ORBITMQ_DISPATCHER_CHAIN_H

#include "actors/dispatcher/dispatcher_parts.h"

#define NONE 0u /* nodes and chains are numbered from 1 */
#define BUCKETS 65536u

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

/* Where a queue keeps the number of a message's node. */
static inline uint32_t *chain_place(const struct work_queue *queue, uint64_t offset) { return &queue->nodes[offset % WORK_WINDOW]; }

/* The node of a message, or NONE. */
static inline uint32_t chain_node(const struct work_queue *queue, uint64_t offset)
{
    const uint32_t id = *chain_place(queue, offset);
    return id && queue->group->order->node[id].offset == offset ? id : NONE;
}

/* A message becomes a node, the last one of its key. key: NULL if it has none. False: no memory. */
bool chain_add(struct work_queue *queue, uint64_t offset, uint64_t word, const uint64_t *key, uint32_t tries);
/* Its word has changed, and it is not done. */
void chain_set(struct order *order, uint32_t id, uint64_t word);
/* It is a node no more. */
void chain_drop(struct order *order, uint32_t id);
/* It is handed out: not in its queue's list any more. */
void chain_take(struct order *order, uint32_t id);

#endif

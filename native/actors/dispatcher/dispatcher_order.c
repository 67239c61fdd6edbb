#include "actors/dispatcher/dispatcher_chain.h"

#include <stdlib.h>
#include <sys/random.h>

/* ---- messages that come and go -------------------------------------------------------------------------------------- */

void order_changed(struct work_queue *queue, uint64_t offset, uint64_t word)
{
    const uint32_t id = chain_node(queue, offset);
    if (!id)
        return;
    if (work_state_of(word) == WORK_DONE)
        chain_drop(queue->group->order, id);
    else
        chain_set(queue->group->order, id, word);
}

void order_raised(struct work_queue *queue, uint64_t from)
{
    for (uint64_t at = from; at < queue->floor && at < queue->looked; at++) {
        const uint32_t id = chain_node(queue, at);
        if (id)
            chain_drop(queue->group->order, id);
    }
    if (queue->looked < queue->floor) {
        queue->looked = queue->floor;
        queue->placed = false;
    }
}

bool order_waits(const struct work_group *group) { return group->order && group->order->waiting > 0; }

bool order_is_free(const struct work_queue *queue, uint64_t offset)
{
    const uint32_t id = chain_node(queue, offset);
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
        chain_take(order, id);
        count++;
    }
    return count;
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
        const uint32_t id = chain_node(queue, at);
        if (id)
            chain_drop(queue->group->order, id);
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

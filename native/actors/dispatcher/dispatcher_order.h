/* The order of a group whose workers get the messages of one key one after the other ("key-ordered").
 *
 * A message's key is its sharding key (property __SHARDINGKEY), else its KEYS. Every message of the group that is not done and was
 * looked at is a node. Nodes of one key are a chain, in the order of the log, over all queues of the group: its first node may be handed
 * out if it is free and no other one of the chain is in hand. A message that fails stays where it is, so those behind it wait. A message
 * without a key is in no chain.
 *
 * All this is in the dispatcher's own memory. A successor looks at the messages again, from the floors on, by the words and the log,
 * and hands out nothing of the group until it has passed all that was handed out before it.
 *
 * Keys are compared by 64 bits of a hash whose beginning nobody else knows: two keys that share one wait for each other, no more.
 */
#ifndef ORBITMQ_DISPATCHER_ORDER_H
#define ORBITMQ_DISPATCHER_ORDER_H

#include <stdbool.h>
#include <stdint.h>

struct dispatcher;
struct work_group;
struct work_queue;
struct order;

/* The group becomes key-ordered, or is not any more. It has no workers then. False: no memory. */
bool order_set(struct dispatcher *dispatcher, struct work_group *group, bool wanted);
/* A queue of such a group. False: no memory. */
bool order_add_queue(struct work_queue *queue);
void order_remove_queue(struct work_queue *queue);

/* A message's word has changed. */
void order_changed(struct work_queue *queue, uint64_t offset, uint64_t word);
/* Its messages are looked at again, from the floor on. */
void order_look_again(struct work_queue *queue);
/* Its messages below the floor are gone. */
void order_raised(struct work_queue *queue, uint64_t from);
/* True if others wait behind a message of the group. */
bool order_waits(const struct work_group *group);
/* True if the message has no key, so that none waits behind it. */
bool order_is_free(const struct work_queue *queue, uint64_t offset);

/* Looks at further messages, a bounded number. Returns how many. */
uint32_t order_look(struct dispatcher *dispatcher, struct work_group *group);
/* True if there are messages that can be looked at now. */
bool order_can_look(const struct dispatcher *dispatcher, const struct work_group *group);
/* True if not all that was handed out before is known yet. */
bool order_behind(const struct work_group *group);

/* As work_queue_find. */
uint32_t order_find(struct work_queue *queue, uint32_t most, uint64_t *first, uint32_t *tries);

#endif

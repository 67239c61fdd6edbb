/* Numbers for queues, from 0 on in the order in which they are first seen: an array of names that grows, found through open
 * addressing by topic and queue id. Users keep what they know about a queue in an array of their own, by its number. */
#ifndef ORBITMQ_QUEUE_TABLE_H
#define ORBITMQ_QUEUE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#define QUEUE_NONE UINT32_MAX

struct queue_name {
    uint32_t queue_id;
    uint8_t topic_size;
    uint8_t topic[127];
};

struct queue_table {
    struct queue_name *names; /* room for half of size */
    uint32_t *places;         /* a queue's number + 1, 0: free */
    uint32_t size;            /* a power of two, and always at least twice the queues */
    uint32_t count;
    uint32_t last;            /* the number found last, which is usually asked for again */
};

/* Returns 0 or ENOMEM. */
int queue_table_open(struct queue_table *table);
void queue_table_close(struct queue_table *table);

/* The queue's number; a new one if it was not seen before. topic_size is at most 127. QUEUE_NONE: no memory; nothing has
 * changed. */
uint32_t queue_table_number(struct queue_table *table, const uint8_t *topic, uint32_t topic_size, uint32_t queue_id);

#endif

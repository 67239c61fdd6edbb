#include "format/queue_table.h"
#include "base/hash.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_FIRST 1024u

int queue_table_open(struct queue_table *table)
{
    *table = (struct queue_table){.size = TABLE_FIRST};
    table->places = calloc(table->size, sizeof *table->places);
    table->names = malloc(table->size / 2 * sizeof *table->names);
    if (table->places && table->names)
        return 0;
    queue_table_close(table);
    return ENOMEM;
}

void queue_table_close(struct queue_table *table)
{
    free(table->places);
    free(table->names);
    *table = (struct queue_table){0};
}

/* The names come from the log, not from an adversary that can measure time. */
static uint32_t hash_queue(const uint8_t *topic, uint32_t size, uint32_t queue_id)
{
    const uint32_t hash = hash_bytes(HASH_BEGIN ^ queue_id * 2654435761u, topic, size);
    return hash ^ hash >> 16;
}

static inline bool is_called(const struct queue_name *name, const uint8_t *topic, uint32_t size, uint32_t queue_id)
{
    return name->queue_id == queue_id && name->topic_size == size && memcmp(name->topic, topic, size) == 0;
}

static uint32_t *find_place(const struct queue_table *table, const uint8_t *topic, uint32_t size, uint32_t queue_id)
{
    for (uint32_t at = hash_queue(topic, size, queue_id);; at++) {
        uint32_t *place = &table->places[at & (table->size - 1)];
        if (!*place || is_called(&table->names[*place - 1], topic, size, queue_id))
            return place;
    }
}

static bool grow(struct queue_table *table)
{
    uint32_t *places = calloc((size_t)table->size * 2, sizeof *places);
    struct queue_name *names = realloc(table->names, (size_t)table->size * sizeof *names);
    if (names)
        table->names = names;
    if (!places || !names) {
        free(places);
        return false;
    }
    free(table->places);
    table->places = places;
    table->size *= 2;
    for (uint32_t i = 0; i < table->count; i++) {
        const struct queue_name *name = &table->names[i];
        *find_place(table, name->topic, name->topic_size, name->queue_id) = i + 1;
    }
    return true;
}

uint32_t queue_table_number(struct queue_table *table, const uint8_t *topic, uint32_t topic_size, uint32_t queue_id)
{
    assert(topic_size < sizeof table->names->topic + 1);
    if (table->last < table->count && is_called(&table->names[table->last], topic, topic_size, queue_id))
        return table->last;
    uint32_t *place = find_place(table, topic, topic_size, queue_id);
    if (!*place) {
        if (table->count == table->size / 2) {
            if (!grow(table))
                return QUEUE_NONE;
            place = find_place(table, topic, topic_size, queue_id);
        }
        struct queue_name *name = &table->names[table->count];
        *name = (struct queue_name){.queue_id = queue_id, .topic_size = (uint8_t)topic_size};
        memcpy(name->topic, topic, topic_size);
        *place = ++table->count;
    }
    return table->last = *place - 1;
}

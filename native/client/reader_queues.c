/* Which queues a reader reads, its position in each, and which messages it wants. */
#include "client/reader_place.h"
#include <errno.h>
#include <stdlib.h>

/* The index of a topic's name. There are few topics and many queues, and queues of one topic come together. */
static int64_t name_index(struct reader *reader, const uint8_t *text, uint32_t size)
{
    for (uint32_t i = reader->name_count; i-- > 0;)
        if (reader->names[i].size == size && memcmp(reader->names[i].text, text, size) == 0)
            return i;
    if (reader_grow((void **)&reader->names, &reader->name_room, reader->name_count + 1, sizeof *reader->names))
        return -1;
    struct reader_name *name = &reader->names[reader->name_count];
    memset(name, 0, sizeof *name);
    name->size = size;
    memcpy(name->text, text, size);
    return reader->name_count++;
}

static int64_t add(struct reader *reader, const uint8_t *topic, uint32_t topic_size, struct reader_cursor cursor)
{
    const int64_t name = name_index(reader, topic, topic_size);
    if (name < 0 || reader_grow((void **)&reader->cursors, &reader->cursor_room, reader->cursor_count + 1, sizeof cursor)) {
        errno = ENOMEM;
        return -1;
    }
    cursor.name = (uint32_t)name;
    reader->cursors[reader->cursor_count++] = cursor;
    reader->left = reader->cursor_count;
    return reader->cursor_count - 1;
}

int64_t reader_add(struct reader *reader, uint32_t slot, uint64_t position)
{
    const struct topics *topics = reader->topics;
    /* acquire: the slot's topic and number were written before the count was raised. Pairs with the release in topics_add [T2]. */
    if (!topics || slot >= atomic_load_explicit(&topics->queue_count, memory_order_acquire)) {
        errno = EINVAL;
        return -1;
    }
    const struct queue_slot *queue = topics_queue(topics, slot);
    const struct topic_entry *topic = &topics->topic[queue->topic & (topics->topic_capacity - 1)];
    /* acquire: state before the rest of the entry. Pairs with the release in topics_add [T1]. */
    if (atomic_load_explicit(&topic->state, memory_order_acquire) != TOPIC_LIVE) {
        errno = EINVAL;
        return -1;
    }
    return add(reader, topic->name, topic->name_size,
               (struct reader_cursor){.queue = queue, .position = position, .queue_id = queue->queue_id});
}

int64_t reader_add_offline(struct reader *reader, const uint8_t *topic, uint32_t topic_size, uint32_t queue_id,
                           uint64_t begin, uint64_t end)
{
    if (topic_size == 0 || topic_size > TOPIC_NAME_MAX || begin > end) {
        errno = EINVAL;
        return -1;
    }
    return add(reader, topic, topic_size,
               (struct reader_cursor){.position = begin, .begin = begin, .end = end, .queue_id = queue_id});
}

void reader_clear(struct reader *reader)
{
    for (uint32_t i = 0; i < reader->cursor_count; i++)
        consume_queue_reader_close(&reader->cursors[i].file, reader->queue_file_units);
    reader->cursor_count = reader->name_count = 0;
    reader->next = reader->left = 0;
}

void reader_seek(struct reader *reader, uint32_t index, uint64_t position)
{
    assert(index < reader->cursor_count);
    reader->cursors[index].position = position;
    reader->left = reader->cursor_count;
}

void reader_pause(struct reader *reader, uint32_t index, bool paused)
{
    assert(index < reader->cursor_count);
    reader->cursors[index].paused = paused;
    reader->left = reader->cursor_count;
}

int reader_filter(struct reader *reader, const struct slice *tags, uint32_t count)
{
    return tag_filter_set(&reader->tags, tags, count);
}

void reader_filter_sql(struct reader *reader, struct sql_program *program)
{
    sql_free(reader->sql);
    reader->sql = program;
}

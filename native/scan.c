/* The scan's loop, and its table of queues: an array that grows, found through open addressing by topic and queue id. */
#include "scan.h"

#include "log_map.h"
#include "record.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_FIRST 1024u /* a power of two, and always more than twice the queues */
#define FILES_KEPT 4u     /* mappings behind the scan; more would only fill the page tables */

struct scan {
    struct log_map map;
    struct scan_state state;
    struct scan_queue *queues;
    uint32_t *table; /* index of a queue + 1, 0: free */
    uint32_t table_size;
};

struct scan *scan_open(const char *store, uint64_t file_size, uint64_t from)
{
    struct scan *scan = calloc(1, sizeof *scan);
    if (!scan)
        return NULL;
    scan->table_size = TABLE_FIRST;
    scan->table = calloc(scan->table_size, sizeof *scan->table);
    scan->queues = malloc(scan->table_size / 2 * sizeof *scan->queues);
    if (!scan->table || !scan->queues) {
        free(scan->table);
        free(scan->queues);
        free(scan);
        errno = ENOMEM;
        return NULL;
    }
    log_map_open(&scan->map, store, file_size, false);
    scan->state.offset = from;
    return scan;
}

void scan_close(struct scan *scan)
{
    log_map_close(&scan->map);
    free(scan->table);
    free(scan->queues);
    free(scan);
}

/* FNV-1a; the names come from the log, not from an adversary with a clock. */
static uint32_t hash_queue(const uint8_t *topic, uint32_t size, uint32_t queue_id)
{
    uint32_t hash = 2166136261u ^ queue_id * 2654435761u;
    for (uint32_t i = 0; i < size; i++)
        hash = (hash ^ topic[i]) * 16777619u;
    return hash ^ hash >> 16;
}

static uint32_t *find_place(const struct scan *scan, const uint8_t *topic, uint32_t size, uint32_t queue_id)
{
    uint32_t at = hash_queue(topic, size, queue_id);
    for (;; at++) {
        uint32_t *place = &scan->table[at & (scan->table_size - 1)];
        if (!*place)
            return place;
        const struct scan_queue *queue = &scan->queues[*place - 1];
        if (queue->queue_id == queue_id && queue->topic_size == size && memcmp(queue->topic, topic, size) == 0)
            return place;
    }
}

/* Twice the table and the array. False: no memory; nothing has changed. */
static bool grow(struct scan *scan)
{
    uint32_t *table = calloc((size_t)scan->table_size * 2, sizeof *table);
    struct scan_queue *queues = realloc(scan->queues, (size_t)scan->table_size * sizeof *queues);
    if (queues)
        scan->queues = queues;
    if (!table || !queues) {
        free(table);
        return false;
    }
    free(scan->table);
    scan->table = table;
    scan->table_size *= 2;
    for (uint32_t i = 0; i < scan->state.queue_count; i++) {
        const struct scan_queue *queue = &scan->queues[i];
        *find_place(scan, queue->topic, queue->topic_size, queue->queue_id) = i + 1;
    }
    return true;
}

static bool note_queue(struct scan *scan, const struct record_view *view)
{
    if (!record_queued(view->sys_flag))
        return true;
    uint32_t *place = find_place(scan, view->topic.data, view->topic.size, view->queue_id);
    if (!*place) {
        if (scan->state.queue_count == scan->table_size / 2) {
            if (!grow(scan))
                return false;
            place = find_place(scan, view->topic.data, view->topic.size, view->queue_id);
        }
        struct scan_queue *queue = &scan->queues[scan->state.queue_count];
        *queue = (struct scan_queue){.queue_id = view->queue_id, .topic_size = (uint8_t)view->topic.size};
        memcpy(queue->topic, view->topic.data, view->topic.size);
        *place = ++scan->state.queue_count;
    }
    struct scan_queue *queue = &scan->queues[*place - 1];
    if (view->queue_offset >= queue->next_offset)
        queue->next_offset = view->queue_offset + 1;
    return true;
}

static enum scan_result end(struct scan *scan, enum record_fault fault)
{
    scan->state.fault = fault;
    return SCAN_END;
}

static enum scan_result fail(struct scan *scan, int error)
{
    scan->state.error = (uint32_t)error;
    return SCAN_FAILED;
}

enum scan_result scan_step(struct scan *scan, uint64_t limit_bytes)
{
    struct scan_state *state = &scan->state;
    const uint64_t file_size = scan->map.file_size;
    const uint64_t stop = state->offset + limit_bytes;
    while (state->offset < stop) {
        const uint8_t *at = log_map_at(&scan->map, state->offset);
        if (!at)
            return errno == ENOENT ? end(scan, RECORD_END) : fail(scan, errno);
        const uint64_t left = file_size - state->offset % file_size;
        struct record_view view;
        const enum record_fault fault = record_check(at, left, state->offset, &view);
        if (fault == RECORD_IS_BLANK) {
            if (view.total_size != left)
                return end(scan, RECORD_BAD_SIZE);
            state->offset += left;
            state->blanks++;
            if (state->offset > FILES_KEPT * file_size)
                log_map_forget(&scan->map, state->offset - FILES_KEPT * file_size);
            continue;
        }
        if (fault != RECORD_GOOD)
            return end(scan, fault);
        /* A writer leaves room for the blank marker, or no reader would find the next file. */
        if (view.total_size + RECORD_BLANK_SIZE > left)
            return end(scan, RECORD_BAD_SIZE);
        if (!note_queue(scan, &view))
            return fail(scan, ENOMEM);
        state->last_ms = view.store_ms;
        state->last_offset = state->offset;
        state->offset += view.total_size;
        state->records++;
    }
    return SCAN_MORE;
}

void scan_look(const struct scan *scan, struct scan_state *state)
{
    *state = scan->state;
}

uint32_t scan_queues(const struct scan *scan, uint32_t first, uint32_t most, struct scan_queue *queues)
{
    if (first >= scan->state.queue_count)
        return 0;
    const uint32_t left = scan->state.queue_count - first;
    const uint32_t count = left < most ? left : most;
    memcpy(queues, scan->queues + first, count * sizeof *queues);
    return count;
}

/* The file orbitmq/retries (work_partings.h), and what the log knows after a death of the whole tree. */
#include "actors/dispatcher/dispatcher_parts.h"
#include "base/file_map.h"
#include "base/hash.h"
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#define LOAD_BYTES (4u << 20) /* of the log in one step */
#define SWEEP_MS 100u         /* between two looks for texts that are of no use */

/* Of the last two parts of the path of a queue's file, which are group, topic and queue. */
uint64_t dispatcher_key(const char *path)
{
    const char *from = path + strlen(path);
    for (uint32_t slashes = 0; from > path; from--)
        if (from[-1] == '/' && ++slashes == 2)
            break;
    const uint32_t size = (uint32_t)strlen(from);
    const uint64_t high = hash_bytes(HASH_BEGIN, (const uint8_t *)from, size);
    const uint64_t key = high << 32 | hash_bytes(hash_bytes(HASH_BEGIN, (const uint8_t *)"2", 1), (const uint8_t *)from, size);
    return key ? key : 1;
}

/* ---- the file ------------------------------------------------------------------------------------------------------ */

int dispatcher_partings(struct dispatcher *dispatcher, const char *path)
{
    const struct control *control = dispatcher->attachment->control;
    if (dispatcher->partings)
        return 0;
    if (control->settings.own_lanes <= OWN_LANE_DISPATCHER || control->settings.read_only)
        return EROFS;
    struct work_partings *partings = file_map(path, WORK_PARTINGS_SIZE);
    if (!partings)
        return errno;
    put_lane_open(&dispatcher->put, dispatcher->attachment, OWN_LANE_DISPATCHER);
    if (partings->magic != WORK_PARTINGS_MAGIC || memcmp(partings->boot, dispatcher->boot, sizeof partings->boot) != 0) {
        memset(partings, 0, sizeof *partings);
        memcpy(partings->boot, dispatcher->boot, sizeof partings->boot);
        partings->magic = WORK_PARTINGS_MAGIC;
    }
    if (partings->generation == control->header.generation) {
        dispatcher->loaded = true;
        /* Nothing is under way: what the log says of earlier messages may not be read once the group was set back. relaxed: our
         * predecessor, which is dead */
        if (put_lane_ahead(&dispatcher->put, atomic_load_explicit(&partings->counted, memory_order_relaxed)) == 0)
            atomic_store_explicit(&partings->from, 0, memory_order_relaxed);
    } else {
        /* acquire: the log's bytes before the position [W1]. relaxed: our predecessor, which is dead */
        dispatcher->load_end = atomic_load_explicit(&control->wrote.value, memory_order_acquire);
        dispatcher->load_at = atomic_load_explicit(&partings->from, memory_order_relaxed);
        if (dispatcher->load_at == 0)
            dispatcher->load_at = dispatcher->load_end;
        const uint64_t min = atomic_load_explicit(&control->min_offset.value, memory_order_acquire);
        if (dispatcher->load_at < min)
            dispatcher->load_at = min;
    }
    dispatcher->partings = partings;
    return 0;
}

struct work_parting *dispatcher_text(const struct dispatcher *dispatcher, uint64_t key, uint64_t offset)
{
    for (uint32_t i = 0; i < WORK_PARTINGS; i++) {
        struct work_parting *slot = &dispatcher->partings->slot[i];
        /* relaxed, here and below: only this process has it; stored last, for a successor */
        if (atomic_load_explicit(&slot->key, memory_order_relaxed) == key && slot->offset == offset)
            return slot;
    }
    return NULL;
}

/* True if the message is to be put elsewhere, and its queue is worked on. */
static bool is_of_use(const struct dispatcher *dispatcher, uint64_t key, uint64_t offset)
{
    for (uint32_t g = 0; g < dispatcher->group_count; g++)
        for (uint32_t i = 0; i < dispatcher->groups[g]->queue_count; i++) {
            const struct work_queue *queue = dispatcher->groups[g]->queues[i];
            if (queue->key == key)
                return offset >= queue->floor && offset < queue->frontier && work_state_of(work_load(queue, offset)) == WORK_PARTING;
        }
    return false;
}

bool dispatcher_text_room(struct dispatcher *dispatcher, uint64_t now_ms)
{
    struct work_parting *slot = dispatcher->partings->slot;
    for (uint32_t i = 0; i < WORK_PARTINGS; i++)
        if (atomic_load_explicit(&slot[i].key, memory_order_relaxed) == 0)
            return true;
    /* Retention, the end of a topic or a death has left texts behind; those of groups without workers make room too. */
    bool room = false;
    if (now_ms < dispatcher->sweep_ms)
        return false;
    dispatcher->sweep_ms = now_ms + SWEEP_MS;
    for (uint32_t i = 0; i < WORK_PARTINGS; i++)
        if (!is_of_use(dispatcher, atomic_load_explicit(&slot[i].key, memory_order_relaxed), slot[i].offset)) {
            atomic_store_explicit(&slot[i].key, 0, memory_order_release);
            room = true;
        }
    return room;
}

void dispatcher_text_keep(struct dispatcher *dispatcher, uint64_t key, uint64_t offset, const struct work_text *text)
{
    struct work_parting *slot = dispatcher_text(dispatcher, key, offset);
    for (uint32_t i = 0; !slot && i < WORK_PARTINGS; i++)
        if (atomic_load_explicit(&dispatcher->partings->slot[i].key, memory_order_relaxed) == 0)
            slot = &dispatcher->partings->slot[i];
    if (!slot)
        return;
    atomic_store_explicit(&slot->key, 0, memory_order_relaxed);
    slot->offset = offset;
    slot->size = text->size;
    memcpy(slot->text, text->text, text->size);
    /* release: the text before it */
    atomic_store_explicit(&slot->key, key, memory_order_release);
}

void dispatcher_text_free(struct dispatcher *dispatcher, uint64_t key, uint64_t offset)
{
    struct work_parting *slot = dispatcher->partings ? dispatcher_text(dispatcher, key, offset) : NULL;
    if (slot)
        atomic_store_explicit(&slot->key, 0, memory_order_release);
}

/* ---- the log ------------------------------------------------------------------------------------------------------- */

struct slice dispatcher_group_of(const struct record_view *view)
{
    const struct slice dead = retry_after(view->topic, DEAD_PREFIX);
    if (dead.data)
        return dead;
    return retry_after(properties_get(view->properties.data, view->properties.size, "REAL_TOPIC", 10), RETRY_PREFIX);
}

static void land(struct dispatcher *dispatcher, struct slice group, const char *path, uint64_t offset)
{
    struct work_queue *queue = dispatcher_find_key(dispatcher, dispatcher_key(path), group);
    if (queue) {
        work_queue_land(queue, offset);
        dispatcher_text_free(dispatcher, queue->key, offset);
        return;
    }
    void *memory = file_map(path, WORK_FILE_SIZE);
    if (!memory)
        return; /* nobody remembers the group's work */
    struct work_file *file = memory;
    _Atomic uint64_t *word = (_Atomic uint64_t *)(void *)((uint8_t *)memory + WORK_WORDS_AT) + offset % WORK_WINDOW;
    /* relaxed: only this process changes words, and this queue's are open nowhere else */
    const uint64_t value = atomic_load_explicit(word, memory_order_relaxed);
    if (file->magic == WORK_MAGIC && offset >= work_file_floor(file) && offset < work_file_frontier(file) &&
        work_state_of(value) == WORK_PARTING)
        atomic_store_explicit(word, work_word(WORK_DONE, work_tries(value), work_slot(value), work_epoch(value), WORK_ELSEWHERE), memory_order_relaxed);
    munmap(memory, WORK_FILE_SIZE);
    dispatcher_text_free(dispatcher, dispatcher_key(path), offset);
}

void dispatcher_landed(struct dispatcher *dispatcher, const struct record_view *view)
{
    uint64_t physical_offset;
    struct record_view source;
    const struct slice group = dispatcher_group_of(view);
    if (!retry_of_mark(view->prepared_offset, &physical_offset) || !group.data)
        return;
    const uint8_t *at = log_map_at(&dispatcher->log, physical_offset);
    const uint64_t left = dispatcher->log.file_size - physical_offset % dispatcher->log.file_size;
    if (!at || record_parse(at, left, &source) != RECORD_GOOD)
        return; /* retention has removed it, and with it the word */
    char path[STORE_FILE_ROOM + 2 * TOPIC_NAME_MAX];
    snprintf(path, sizeof path, "%s/orbitmq/workers/%.*s/%.*s.%u", dispatcher->attachment->control->settings.store,
             (int)group.size, (const char *)group.data, (int)source.topic.size, (const char *)source.topic.data, source.queue_id);
    land(dispatcher, group, path, source.queue_offset);
}

bool dispatcher_load(struct dispatcher *dispatcher)
{
    if (!dispatcher->partings || dispatcher->loaded)
        return true;
    const uint64_t file_size = dispatcher->log.file_size, from = dispatcher->load_at;
    while (dispatcher->load_at < dispatcher->load_end && dispatcher->load_at - from < LOAD_BYTES) {
        const uint64_t file_end = dispatcher->load_at - dispatcher->load_at % file_size + file_size;
        const uint64_t end = dispatcher->load_end < file_end ? dispatcher->load_end : file_end;
        const uint8_t *at = log_map_at(&dispatcher->log, dispatcher->load_at);
        const int error = at ? 0 : errno;
        struct record_view view;
        while (at && dispatcher->load_at < end && dispatcher->load_at - from < LOAD_BYTES) {
            if (record_parse(at, end - dispatcher->load_at, &view) != RECORD_GOOD) {
                at = NULL;
                break;
            }
            dispatcher_landed(dispatcher, &view);
            at += view.total_size;
            dispatcher->load_at += view.total_size;
        }
        if (!at && log_map_passing(error))
            return false; /* at the next look */
        if (!at)
            dispatcher->load_at = file_end; /* its end, or retention has removed it */
    }
    if (dispatcher->load_at < dispatcher->load_end)
        return false;
    CRASH_POINT("dispatcher_kept_loaded");
    /* release, both: the words before them, and they before what says that they are of this tree */
    atomic_store_explicit(&dispatcher->partings->counted, dispatcher->put.out.position, memory_order_release);
    atomic_store_explicit(&dispatcher->partings->from, 0, memory_order_release);
    CRASH_POINT("dispatcher_kept_begun");
    atomic_signal_fence(memory_order_release);
    dispatcher->partings->generation = dispatcher->attachment->control->header.generation;
    dispatcher->loaded = true;
    return true;
}

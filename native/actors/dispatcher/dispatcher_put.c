/* Failed messages. A message with tries left is delivered again: in place, after a time that its worker has named, or as a retry, a
 * record in SCHEDULE_TOPIC_XXXX for the group's retry topic. A message without tries left becomes a dead letter. Each is in the log once:
 *
 *   word says WORK_PARTING     the intent. Nothing else happens to the message any more
 *   `from`, then published     a portion in a lane of our own (put_lane.h); names say which messages
 *   words say WORK_DONE        the writer has appended them; then `counted`, then `from` 0 (work_partings.h)
 *
 * Killed between: our successor reads `counted`, waits until the writer has taken what was published, and reads the notes from there on;
 * a word that is done already stays so. After a death of the whole tree the log is read from `from` on, and each record names the one
 * that it was made of (dispatcher_kept.c). What the log refused is put again later, by its word.
 */
#include "actors/dispatcher/dispatcher_parts.h"
#include "format/delay.h"
#include "shared/verdict.h"

#define PORTION_BYTES (128u << 10) /* a portion ends with the record that passes this */
#define MAPPED_BYTES (8u << 20)    /* of the log that may be read before its mappings are made anew */
#define LOOK_BYTES (16u << 10)     /* so many read bytes does a message cost besides that cannot be put elsewhere */
#define RETRY_MS 100u              /* between two tries when the log takes no more */
#define TOPICS_MS 200u             /* between two questions for a group's topics */
#define HOPE_MS 5000u              /* so long after the first one they are expected to come */
#define OFFSET_BITS 48u
#define KEY_BITS UINT64_C(0xffffffff0000ffff) /* of a queue's key: as many as a name has room for */

/* RocketMQ's levels, as long as the message was tried again. */
static uint64_t back_off_ms(uint32_t tries)
{
    const uint32_t level = RETRY_LEVEL + (tries ? tries - 1 : 0);
    return delay_level_ms((level < DELAY_LEVELS ? level : DELAY_LEVELS) - 1);
}

void dispatcher_fail(struct work_queue *queue, uint64_t offset, uint64_t word, uint32_t tries, uint64_t delay_ms, uint64_t now_ms,
                     const struct work_text *text)
{
    struct dispatcher *dispatcher = queue->dispatcher;
    const bool puts = dispatcher->partings && queue->group->puts;
    /* Others of its key or its queue wait behind it, so it comes again in place. */
    const bool waited_for = queue->group->queue_ordered || (queue->nodes && !order_is_free(queue, offset));
    const bool stays = delay_ms != WORK_BACK_OFF || waited_for;
    if (!puts || (stays && !dispatcher_gives_up(queue, tries))) {
        work_queue_free(queue, offset, word, tries, delay_ms == WORK_BACK_OFF ? back_off_ms(tries) : delay_ms, now_ms);
        return;
    }
    if (text && text->size)
        dispatcher_text_keep(dispatcher, queue->key, offset, text);
    CRASH_POINT("dispatcher_put_meant");
    work_queue_part(queue, offset, word, tries);
}

/* ---- counting ------------------------------------------------------------------------------------------------------ */

struct work_queue *dispatcher_find_key(const struct dispatcher *dispatcher, uint64_t key, struct slice name)
{
    for (uint32_t g = 0; g < dispatcher->group_count; g++) {
        const struct work_group *group = dispatcher->groups[g];
        if (group->name_size != name.size || memcmp(group->name, name.data, name.size) != 0)
            continue;
        for (uint32_t i = 0; i < group->queue_count; i++)
            if ((group->queues[i]->key & KEY_BITS) == (key & KEY_BITS))
                return group->queues[i];
    }
    return NULL;
}

static uint32_t settle(struct dispatcher *dispatcher, uint64_t now_ms)
{
    struct work_partings *partings = dispatcher->partings;
    struct put_note note;
    struct record_view view;
    uint32_t landed = 0, refused = 0;
    struct work_queue *queue = NULL;
    struct ring_consumer look = put_lane_notes(&dispatcher->put, atomic_load_explicit(&partings->counted, memory_order_relaxed));
    while (put_lane_next(&dispatcher->put, &look, &note)) {
        if (note.code != VERDICT_APPENDED) {
            refused++;
            continue;
        }
        landed++;
        const enum record_fault fault = record_parse(note.image, note.image_size, &view);
        assert(fault == RECORD_GOOD && view.properties.size >= RECORD_CRC_SIZE); /* we made it, and no client can write there */
        view.properties.size -= RECORD_CRC_SIZE; /* only the log has it; here is what the lane held before */
        const struct slice group = dispatcher_group_of(&view);
        queue = dispatcher_find_key(dispatcher, (uint64_t)note.name.kind << 32 | note.name.number >> OFFSET_BITS, group);
        const uint64_t offset = note.name.number & ((UINT64_C(1) << OFFSET_BITS) - 1);
        if (queue) {
            work_queue_land(queue, offset);
            dispatcher_text_free(dispatcher, queue->key, offset);
        } else {
            dispatcher_landed(dispatcher, &view); /* its group has no workers any more */
        }
        CRASH_POINT("dispatcher_put_landed");
    }
    /* release, both: after the words, for a successor */
    atomic_store_explicit(&partings->counted, dispatcher->put.out.position, memory_order_release);
    CRASH_POINT("dispatcher_put_counted");
    atomic_store_explicit(&partings->from, 0, memory_order_release);
    CRASH_POINT("dispatcher_put_over");
    if (refused) {
        count(dispatcher->attachment->page, COUNT_FULL, refused);
        dispatcher->put_retry_ms = now_ms + RETRY_MS;
    }
    return landed + refused;
}

/* ---- putting ------------------------------------------------------------------------------------------------------- */

static void ask_for_topics(struct work_group *group, uint64_t now_ms)
{
    struct dispatcher *dispatcher = group->queues[0]->dispatcher;
    if (!group->missing_since_ms)
        group->missing_since_ms = now_ms;
    if (dispatcher->missing[0])
        return; /* one question at a time */
    group->missing_ms = now_ms + TOPICS_MS;
    memcpy(dispatcher->missing, group->name, sizeof group->name);
}

/* It cannot be put elsewhere: it comes again in place, after the longest time. */
static void stay(struct work_queue *queue, uint64_t offset, uint64_t word, uint64_t now_ms)
{
    dispatcher_text_free(queue->dispatcher, queue->key, offset);
    work_queue_free(queue, offset, word, work_tries(word), back_off_ms(work_tries(word)), now_ms);
    queue->parting--;
    count(queue->dispatcher->attachment->page, COUNT_REJECTED, 1);
}

/* False: the portion is full, or the step has read enough. */
static bool put_queue(struct work_queue *queue, uint64_t now_ms)
{
    struct dispatcher *dispatcher = queue->dispatcher;
    bool missing[2] = {false, false}; /* the topic for retries, for dead letters */
    if (queue->part_hint < queue->floor)
        queue->part_hint = queue->floor;
    while (queue->part_hint < queue->frontier && work_state_of(work_load(queue, queue->part_hint)) != WORK_PARTING)
        queue->part_hint++;
    for (uint64_t at = queue->part_hint; queue->parting && at < queue->frontier; at++) {
        const uint64_t word = work_load(queue, at);
        if (work_state_of(word) != WORK_PARTING || missing[dispatcher_gives_up(queue, work_tries(word))])
            continue;
        const enum part_result result = dispatcher_part(queue, at, work_tries(word));
        if (result == PART_LATER || (result == PART_FULL && !dispatcher_putting(dispatcher)))
            dispatcher->put_retry_ms = now_ms + RETRY_MS;
        if (result == PART_LATER || result == PART_FULL)
            return false;
        if (result == PART_TOPICS) {
            missing[dispatcher_gives_up(queue, work_tries(word))] = true;
            ask_for_topics(queue->group, now_ms);
        }
        if (result == PART_PUT)
            queue->group->missing_since_ms = 0;
        if (result == PART_NEVER) {
            stay(queue, at, word, now_ms);
            dispatcher->read += LOOK_BYTES; /* its file may be gone, and the next one's too */
        }
        if (dispatcher->put.out.position - atomic_load_explicit(&dispatcher->partings->counted, memory_order_relaxed) >= PORTION_BYTES ||
            dispatcher->read >= MAPPED_BYTES) /* a step is bounded by what it reads, too: this may be all in vain */
            return false;
    }
    return true;
}

static bool put_group(struct work_group *group, uint64_t now_ms)
{
    const bool waits = group->missing_ms > now_ms;
    for (uint32_t i = 0; i < group->queue_count && !waits; i++)
        if (group->queues[i]->parting && !put_queue(group->queues[i], now_ms))
            return false;
    return true;
}

/* Mappings keep pages in memory. */
static void let_go(struct dispatcher *dispatcher)
{
    const struct settings *settings = &dispatcher->attachment->control->settings;
    if (dispatcher->read < MAPPED_BYTES)
        return;
    log_map_close(&dispatcher->log);
    for (uint32_t g = 0; g < dispatcher->group_count; g++)
        for (uint32_t i = 0; i < dispatcher->groups[g]->queue_count; i++)
            consume_queue_reader_close(&dispatcher->groups[g]->queues[i]->units, settings->queue_file_units);
    log_map_open(&dispatcher->log, settings->store, settings->log_file_size, false);
    dispatcher->read = 0;
}

bool dispatcher_has_to_put(const struct dispatcher *dispatcher, uint64_t now_ms)
{
    if (!dispatcher->partings || dispatcher_putting(dispatcher) || dispatcher->put_retry_ms > now_ms)
        return false;
    for (uint32_t g = 0; g < dispatcher->group_count; g++)
        for (uint32_t i = 0; i < dispatcher->groups[g]->queue_count; i++)
            if (dispatcher->groups[g]->queues[i]->parting && dispatcher->groups[g]->missing_ms <= now_ms)
                return true;
    return false;
}

bool dispatcher_hopes(const struct dispatcher *dispatcher, uint64_t now_ms)
{
    for (uint32_t g = 0; g < dispatcher->group_count; g++) {
        const uint64_t since_ms = dispatcher->groups[g]->missing_since_ms;
        if (since_ms && now_ms - since_ms < HOPE_MS)
            return true;
    }
    return dispatcher_putting(dispatcher) || dispatcher_has_to_put(dispatcher, now_ms);
}

uint32_t dispatcher_put(struct dispatcher *dispatcher, uint64_t now_ms)
{
    if (dispatcher_putting(dispatcher))
        return put_lane_answered(&dispatcher->put) ? settle(dispatcher, now_ms) : 0;
    let_go(dispatcher);
    if (!dispatcher_has_to_put(dispatcher, now_ms))
        return 0;
    for (uint32_t i = 0; i < dispatcher->group_count; i++)
        if (!put_group(dispatcher->groups[(dispatcher->put_turn + i) % dispatcher->group_count], now_ms))
            break;
    dispatcher->put_turn++;
    if (!dispatcher_putting(dispatcher))
        return 0;
    /* acquire: the log's end, behind which the writer puts them. release: before they are published */
    atomic_store_explicit(&dispatcher->partings->from, atomic_load_explicit(&dispatcher->attachment->control->wrote.value, memory_order_acquire),
                          memory_order_release);
    CRASH_POINT("dispatcher_put_marked");
    put_lane_publish(&dispatcher->put);
    CRASH_POINT("dispatcher_put_published");
    return 1;
}

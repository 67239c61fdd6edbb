/* Whether a record of the log is one that the writer put there, or bytes of a body that look like one: a sender may foresee where its body
 * will lie, and write a whole record with the right place and CRCs into it. The unit of the record's queue leads to a real one. Before reput
 * has come so far, the records from its position on do, which is a boundary between two.
 */
#include "actors/handler/handler_parts.h"
#include "base/bytes.h"

#include <errno.h>

#define WALK_MOST (1u << 17) /* records passed over at once: some milliseconds, and far more than reput is ever behind while it works */

static enum verdict not_mapped(uint32_t *detail)
{
    *detail = (uint32_t)errno;
    return log_map_passing(errno) ? VERDICT_STORE_FULL : VERDICT_UNKNOWN_MESSAGE;
}

static enum verdict look_at_unit(struct handler *handler, const struct topic_entry *topic, const struct record_view *view, uint32_t *detail)
{
    const struct settings *const settings = &handler->attachment->control->settings;
    const uint32_t slot = topic->first_slot + view->queue_id, buried = topics_buried(handler->attachment->topics);
    if (handler->unit_slot != slot || handler->unit_buried != buried) { /* since then, a file of this name may be another */
        consume_queue_reader_close(&handler->units, settings->queue_file_units);
        handler->unit_slot = slot;
        handler->unit_buried = buried;
    }
    char folder[STORE_FOLDER_ROOM];
    uint64_t count;
    consume_queue_folder(folder, settings->store, topic->name, topic->name_size, view->queue_id);
    const uint8_t *const at = consume_queue_at(&handler->units, folder, settings->queue_file_units, view->queue_offset, &count);
    if (!at)
        return not_mapped(detail);
    const struct queue_unit unit = queue_unit_load(at);
    return unit.physical_offset == view->physical_offset && unit.size == view->total_size ? VERDICT_APPENDED : VERDICT_UNKNOWN_MESSAGE;
}

/* Bytes to the next record; 0: nothing that the writer writes. */
static uint64_t step(const uint8_t *at, uint64_t left)
{
    if (left < RECORD_BLANK_SIZE)
        return 0;
    const uint32_t size = load_be32(at), magic = load_be32(at + 4);
    if (magic == RECORD_BLANK)
        return left;
    return magic == RECORD_MAGIC && size >= RECORD_FIXED && size <= left ? size : 0;
}

/* from: a boundary. to: below the wrote position. */
static enum verdict walk(struct handler *handler, uint64_t from, uint64_t to, uint32_t *detail)
{
    uint64_t at = handler->walked >= from && handler->walked <= to ? handler->walked : from;
    for (uint32_t passed = 0; at < to && passed < WALK_MOST; passed++) {
        const uint8_t *const record = log_map_at(&handler->log, at);
        if (!record)
            return not_mapped(detail);
        const uint64_t size = step(record, handler->log.file_size - at % handler->log.file_size);
        if (!size)
            return VERDICT_UNKNOWN_MESSAGE;
        at += size;
    }
    handler->walked = at; /* the next one is likely behind it */
    *detail = WALK_MOST;
    return at < to ? VERDICT_BEHIND : at == to ? VERDICT_APPENDED : VERDICT_UNKNOWN_MESSAGE;
}

enum verdict handler_place(struct handler *handler, const struct topic_entry *topic, const struct record_view *view, uint32_t *detail)
{
    const struct control *const control = handler->attachment->control;
    const struct queue_slot *const queue = topics_queue(handler->attachment->topics, topic->first_slot + view->queue_id);
    /* acquire: the maxima that were published before it [P1]; so it is read first */
    const uint64_t reput = atomic_load_explicit(&control->reput.value, memory_order_acquire);
    /* acquire: the units before their number. Pairs with reput's release [Q1]. */
    if (view->queue_offset < atomic_load_explicit(&queue->max_offset, memory_order_acquire))
        return look_at_unit(handler, topic, view, detail);
    if (view->physical_offset < reput)
        return VERDICT_UNKNOWN_MESSAGE;
    /* relaxed: as in handler_record */
    const uint64_t begin = atomic_load_explicit(&control->min_offset.value, memory_order_relaxed);
    return walk(handler, reput > begin ? reput : begin, view->physical_offset, detail);
}

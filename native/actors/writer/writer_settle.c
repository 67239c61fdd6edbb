/* Settles half messages. The writer orders everything, so it says which of two ends of a transaction comes first: that one is appended, the
 * message and the operation message together, and any other is refused.
 *
 * What was settled is in the control block (halves.h). A state is put there after the commit of its write group. A writer that is killed before
 * has not put it there, and its successor applies the lane record again. If it is killed after the commit, its successor finds the record in
 * the lane still, with the verdict in it, and puts the state there before it goes on (writer_settled_over). Until the commit, the group's own
 * list says what it settles.
 */
#include "actors/writer/writer_parts.h"
#include "base/crash_point.h"
#include "format/consume_queue.h"
#include "format/transaction.h"
#include "shared/verdict.h"

#include <errno.h>
#include <string.h>

static struct lane_settle *settle_of(struct lane_record *record) { return (struct lane_settle *)(record + 1); }

static enum half_state state_of(const struct writer *writer, uint64_t half)
{
    for (uint32_t i = 0; i < writer->settled_count; i++)
        if (writer->settled[i].half == half)
            return writer->settled[i].how;
    return halves_state(&writer->attachment->control->halves, half);
}

/* The answer to one that settles nothing. */
static void answer(struct writer *writer, struct write_group *group, uint32_t lane, struct lane_record *record, enum verdict verdict,
                   uint32_t detail)
{
    const struct completion completion = {.code = verdict, .detail = detail};
    record->code = verdict;
    writer_answer(writer, lane, record, &completion);
    write_group_refuse(group, verdict);
}

/* Appends one image at the end of the log; returns its queue offset. */
static uint64_t append(struct writer *writer, const uint8_t *image, uint32_t size, const struct record_seal *seal, uint32_t queue_slot)
{
    struct queue_slot *queue = topics_queue(writer->attachment->topics, queue_slot);
    uint8_t *to = writer->file + (writer->wrote - writer->file_start);
    /* relaxed: as in writer.c */
    const uint64_t offset = atomic_load_explicit(&queue->next_offset, memory_order_relaxed);
    memcpy(to, image, size);
    record_finish(to, size, seal, offset, writer->wrote, writer->store_ms);
    atomic_store_explicit(&queue->next_offset, offset + 1, memory_order_relaxed);
    writer->wrote += size;
    CRASH_POINT("writer_settle_appended");
    return offset;
}

bool writer_settle(struct writer *writer, struct write_group *group, uint32_t lane, struct lane_record *record)
{
    struct lane_settle *settle = settle_of(record);
    struct halves *halves = &writer->attachment->control->halves;
    if (writer->settled_count == WRITER_SETTLED_MAX)
        return false; /* the group ends here */
    const uint64_t next =
        atomic_load_explicit(&topics_queue(writer->attachment->topics, settle->half_slot)->next_offset, memory_order_relaxed); /* our own */
    halves_extend(halves, next);
    writer->half_slot = settle->half_slot;
    if (settle->half >= next) {
        answer(writer, group, lane, record, VERDICT_UNKNOWN_HALF, 0);
        return true;
    }
    const enum half_state before = state_of(writer, settle->half);
    if (before != HALF_OPEN) {
        answer(writer, group, lane, record, VERDICT_SETTLED, before);
        return true;
    }
    uint32_t detail = 0;
    const enum writer_room room = writer_admit(writer, group, lane, record, record->image_size + settle->op_size, &detail);
    if (room != WRITER_ROOM) {
        record->code = VERDICT_STORE_FAILED; /* only that it is not VERDICT_APPENDED matters to a successor */
        return room == WRITER_REFUSED;
    }
    if (!writer_end_small(writer)) { /* in the log's order */
        answer(writer, group, lane, record, VERDICT_STORE_FAILED,
               atomic_load_explicit(&writer->attachment->control->wrote.error, memory_order_relaxed)); /* our own */
        return true;
    }
    struct completion done = {.physical_offset = writer->wrote, .size = record->image_size, .queue_id = record->queue_id,
                              .code = VERDICT_APPENDED};
    if (record->image_size)
        done.queue_offset = append(writer, (const uint8_t *)(settle + 1), record->image_size, &record->seal, record->queue_slot);
    else
        done.size = settle->op_size;
    const uint64_t op = append(writer, (const uint8_t *)settle + lane_settle_op_at(record->image_size), settle->op_size,
                               &settle->op_seal, settle->op_slot);
    if (!record->image_size)
        done.queue_offset = op;
    group->bytes += record->image_size + settle->op_size;
    writer->settled[writer->settled_count].half = settle->half;
    writer->settled[writer->settled_count++].how = settle->how;
    if (group->small)
        record->placed = LANE_UNPLACED;
    record->code = VERDICT_APPENDED;
    CRASH_POINT("writer_settle_noted");
    writer_answer(writer, lane, record, &done);
    if (record->flags & SEND_FLUSH)
        writer_ask(writer, group, record->session_slot);
    return true;
}

void writer_settled(struct writer *writer)
{
    struct halves *halves = &writer->attachment->control->halves;
    for (uint32_t i = 0; i < writer->settled_count; i++) {
        halves_settle(halves, writer->settled[i].half, writer->settled[i].how);
        CRASH_POINT("writer_settle_told");
    }
    if (writer->settled_count)
        /* relaxed: it only grows */
        halves_raise_floor(halves, atomic_load_explicit(&topics_queue(writer->attachment->topics, writer->half_slot)->min_offset,
                                                        memory_order_relaxed));
    writer->settled_count = 0;
}

void writer_settled_over(struct writer *writer, struct lane_record *record)
{
    const struct lane_settle *settle = settle_of(record);
    if (record->code != VERDICT_APPENDED)
        return;
    halves_settle(&writer->attachment->control->halves, settle->half, settle->how);
    CRASH_POINT("writer_settle_told_over");
}

/* ---- at the start of a tree ---- */

void writer_halves_begin(struct writer *writer, uint64_t floor, uint64_t next) { halves_begin(&writer->attachment->control->halves, floor, next); }

bool writer_read_ops(struct writer *writer, const uint8_t *units, uint32_t count)
{
    struct halves *halves = &writer->attachment->control->halves;
    const uint64_t known = atomic_load_explicit(&halves->known, memory_order_relaxed); /* our own, both */
    const uint64_t floor = atomic_load_explicit(&halves->floor, memory_order_relaxed);
    struct log_map map; /* not the writer's, in which the file that it appends to stays mapped */
    log_map_open(&map, writer->attachment->control->settings.store, writer->file_size, false);
    int error = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct queue_unit unit = queue_unit_load(units + (uint64_t)i * CONSUME_QUEUE_UNIT);
        const uint8_t *at = log_map_at(&map, unit.physical_offset);
        if (!at && log_map_passing(errno)) { /* it may settle a half, which would be open */
            error = errno;
            break;
        }
        const uint64_t left = writer->file_size - unit.physical_offset % writer->file_size;
        struct record_view view;
        if (!at || unit.size > left || record_parse(at, unit.size, &view) != RECORD_GOOD)
            continue;
        uint64_t half;
        for (struct slice rest = view.body; op_next_offset(&rest, &half);)
            if (half >= floor && half < known)
                halves_settle(halves, half, HALF_SETTLED);
    }
    log_map_close(&map);
    attachment_beat(writer->attachment);
    errno = error;
    return !error;
}

void writer_halves_ready(struct writer *writer)
{
    struct halves *halves = &writer->attachment->control->halves;
    halves_raise_floor(halves, 0);
    atomic_store_explicit(&halves->ready, 1, memory_order_release); /* release: all of it before; for a successor, and for who looks */
}

/* One write group: apply, commit, deliver, free. What a death in each phase leaves, and what the successor does about it:
 *
 *   apply    Records are copied to the log behind `wrote`, and their verdicts into the slots of their sessions. Nobody reads
 *            behind `wrote`, nor a slot behind `completed`. The successor zeroes behind `wrote` (stale well-formed records
 *            would come back in a later recovery) and applies the same lane records again, slots included: `applied` in the
 *            commit record has not moved.
 *   commit   One store flips the commit record: the new end of the log, and how far each lane is in it. Before it, the
 *            group has not happened; after it, it has.
 *   deliver  `completed` rises for each session. The successor raises it for what lies between a lane's freed and applied
 *            positions, whose slots are filled since before the commit; it leaves the slots alone.
 *   free     The lane's head moves to applied.
 *
 * Queue offsets are counted in the queue slots while applying, so after a death they may be ahead of the log. The successor
 * takes them from reput's published maxima, once reput has indexed all that was committed.
 */
#include "base/crash_point.h"
#include "shared/verdict.h"
#include "actors/writer/writer_parts.h"
#include <stdlib.h>
#include <string.h>

struct writer *writer_open(struct attachment *attachment)
{
    struct writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return NULL;
    const struct settings *settings = &attachment->control->settings;
    writer->attachment = attachment;
    writer->file_size = settings->log_file_size;
    writer->to.slot = SESSIONS_MAX;
    writer->pace = pace_start();
    small_write_open(&writer->small);
    writer->failed_at = UINT64_MAX;
    log_map_open(&writer->map, settings->store, settings->log_file_size, true);
    const struct commit_slot last = commit_read(&attachment->control->commit);
    writer->wrote = last.wrote;
    writer->store_ms = last.store_ms;
    if (!writer_dedup_open(writer) || !writer_commits_open(writer)) {
        writer_close(writer);
        return NULL;
    }
    for (uint32_t i = 0; i < settings->lanes; i++) {
        struct ring *ring = &attachment->lanes[i]->ring;
        /* acquire: what our predecessor freed */
        ring_consumer_attach(&writer->lanes[i], ring, attachment->lanes[i]->capacity,
                             atomic_load_explicit(&ring->head.position, memory_order_acquire));
    }
    return writer;
}

void writer_close(struct writer *writer)
{
    small_write_close(&writer->small);
    log_map_close(&writer->map);
    writer_dedup_close(writer);
    writer_commits_close(writer);
    free(writer);
}

/* ---- apply --------------------------------------------------------------------------------------------------------- */

static bool awaits_disk(const struct writer *writer, const struct lane_record *record)
{
    return (record->flags & SEND_FLUSH) || writer->attachment->control->settings.flush_every_message;
}

/* Why no room can be made, as the verdict for the sender; VERDICT_NONE if waiting will help. */
static enum verdict refusal(const struct writer *writer, bool awaits, uint32_t *detail)
{
    const struct control *control = writer->attachment->control;
    /* acquire: as they were stored, by ourselves and by the flush service; only the numbers are used */
    const uint32_t log_error = atomic_load_explicit(&control->wrote.error, memory_order_acquire);
    const uint32_t flush_error = atomic_load_explicit(&control->flushed.error, memory_order_acquire);
    if (log_error) {
        *detail = log_error;
        return VERDICT_STORE_FAILED;
    }
    if (flush_error && (!control->settings.go_on_unsynced || awaits)) {
        *detail = flush_error;
        return VERDICT_SYNC_FAILED;
    }
    return VERDICT_NONE;
}

void writer_ask(struct writer *writer, struct write_group *group, uint32_t slot)
{
    const uint64_t bit = UINT64_C(1) << (slot % 64);
    uint64_t *word = &writer->asked[slot / 64];
    group->flush = true;
    group->askers += !(*word & bit);
    *word |= bit;
}

/* Refuses a record for a reason of the disk's. */
static void reject(struct writer *writer, struct write_group *group, uint32_t lane, struct lane_record *record,
                   enum verdict verdict, uint32_t detail)
{
    if (group->small)
        record->placed = LANE_UNPLACED;
    const struct completion answer = {.queue_id = record->queue_id, .code = verdict, .detail = detail};
    writer_answer(writer, lane, record, &answer);
    write_group_refuse(group, verdict);
}

/* Answers a message that was stored before, with the place of that. */
static void answer_duplicate(struct writer *writer, struct write_group *group, uint32_t lane, struct lane_record *record,
                             const struct completion *first)
{
    if (group->small) { /* for take_back() */
        record->code = VERDICT_DUPLICATE;
        record->placed = first->physical_offset;
    }
    writer_answer(writer, lane, record, first);
    group->duplicates++;
    if (record->flags & SEND_FLUSH)
        writer_ask(writer, group, record->session_slot);
    CRASH_POINT("writer_id_answered");
}

/* Answers a message with an id, if there is nothing to append. */
static __attribute__((noinline)) bool judge_id(struct writer *writer, struct write_group *group, uint32_t lane, struct lane_record *record)
{
    struct completion answer = {.queue_id = record->queue_id};
    if (group->small)
        record->code = VERDICT_APPENDED; /* a predecessor may have noted something else */
    const enum verdict verdict = writer_dedup_judge(writer, record, &answer);
    if (verdict == VERDICT_NONE)
        return false;
    if (verdict != VERDICT_DUPLICATE) {
        reject(writer, group, lane, record, verdict, answer.detail);
        return true;
    }
    answer_duplicate(writer, group, lane, record, &answer);
    return true;
}

/* Whether so many bytes can be appended now; the reason of a refusal is in *verdict and *detail. */
static inline enum writer_room admit(struct writer *writer, struct write_group *group, bool awaits, uint32_t size, enum verdict *verdict,
                              uint32_t *detail)
{
    *verdict = refusal(writer, awaits, detail);
    if (*verdict == VERDICT_NONE && !writer_make_room(writer, size)) {
        *verdict = refusal(writer, awaits, detail);
        if (*verdict == VERDICT_NONE)
            *detail = writer->short_of
                          ? (uint32_t)writer->short_of
                          : atomic_load_explicit(&writer->attachment->control->allocated.error, memory_order_acquire);
        if (*verdict == VERDICT_NONE && *detail == 0) {
            group->waits = true;
            return WRITER_WAITS;
        }
        *verdict = *verdict ? *verdict : VERDICT_STORE_FULL;
    }
    return *verdict == VERDICT_NONE ? WRITER_ROOM : WRITER_REFUSED;
}

enum writer_room writer_admit(struct writer *writer, struct write_group *group, uint32_t lane, struct lane_record *record, uint32_t size,
                              uint32_t *detail)
{
    enum verdict verdict;
    const enum writer_room room = admit(writer, group, awaits_disk(writer, record), size, &verdict, detail);
    if (room == WRITER_REFUSED)
        reject(writer, group, lane, record, verdict, *detail);
    return room;
}

/* What is appended together: one record, or those of an atomic batch. */
struct unit {
    uint32_t size;      /* of the images */
    uint32_t records;
    bool awaits_disk;
    const struct lane_record *first;
    struct lane_record *commits; /* the record of offsets, its last; NULL: it has none */
};

static struct unit measure(const struct writer *writer, const struct ring_consumer *in)
{
    struct ring_consumer look = *in;
    struct ring_record header;
    uint8_t *payload;
    struct unit unit = {0};
    bool more = true;
    while (more && ring_peek(&look, &header, &payload) == RING_RECORD) {
        struct lane_record *record = (struct lane_record *)payload;
        if (!unit.first)
            unit.first = record;
        if (record->flags & LANE_COMMITS)
            unit.commits = record;
        unit.size += record->image_size;
        unit.records++;
        unit.awaits_disk |= awaits_disk(writer, record);
        more = record->flags & LANE_MORE;
        ring_pass(&look, &header);
    }
    return unit;
}

/* Copies one image to the end of the log, where there is room for it, and fills its holes; for a small write, fills the holes first.
 * Answers its sender. False: the disk has refused what was written before it, or its atomic batch. */
static inline bool append(struct writer *writer, struct write_group *group, uint32_t lane, struct lane_record *record)
{
    struct queue_slot *queue = topics_queue(writer->attachment->topics, record->queue_slot);
    /* relaxed: only the writer reads it back; other processes show it */
    const uint64_t queue_offset = atomic_load_explicit(&queue->next_offset, memory_order_relaxed);
    const uint64_t at = writer->wrote - writer->file_start;
    const bool small = group->small && awaits_disk(writer, record);
    /* In the log's order, so that nothing is written behind a record that the disk refuses. */
    if (!(small && small_write_takes(&writer->small, at)) && !writer_end_small(writer))
        return false;
    uint8_t *to = small ? (uint8_t *)(record + 1) : writer->file + at;
    if (!small) {
        memcpy(to, record + 1, record->image_size);
        CRASH_POINT("writer_copied");
    }
    record_finish(to, record->image_size, &record->seal, queue_offset, writer->wrote, writer->store_ms);
    CRASH_POINT("writer_finished");
    if (small)
        small_write_add(&writer->small, at, to, record->image_size);
    atomic_store_explicit(&queue->next_offset, queue_offset + 1, memory_order_relaxed);
    CRASH_POINT("writer_counted");
    if (group->small)
        record->placed = writer->wrote; /* otherwise the lane is only read: its lines stay the handler's */
    const struct completion answer = {writer->wrote, queue_offset, record->image_size, record->queue_id, VERDICT_APPENDED, 0};
    writer_answer(writer, lane, record, &answer);
    if (__builtin_expect(record->flags & SEND_DEDUP, 0))
        writer_dedup_note(writer, writer->wrote);
    writer->wrote += record->image_size;
    group->bytes += record->image_size;
    if (record->flags & SEND_FLUSH)
        writer_ask(writer, group, record->session_slot);
    return true;
}

/* Why none of an atomic batch is appended: one message is refused, and the others because of it; or the disk takes none. */
struct unit_refusal {
    enum verdict verdict; /* VERDICT_NONE: all are appended; VERDICT_DUPLICATE: they were before */
    uint32_t detail;
    uint32_t index;       /* of the message; ALL_OF_UNIT */
};
#define ALL_OF_UNIT UINT32_MAX

/* Answers message i of an atomic batch, of which none is appended. */
static void refuse_part(struct writer *writer, struct write_group *group, uint32_t lane, struct lane_record *record, uint32_t i,
                        const struct unit_refusal *why)
{
    if (why->verdict == VERDICT_DUPLICATE)
        answer_duplicate(writer, group, lane, record, &writer->dedup.places[i]);
    else if (why->index == ALL_OF_UNIT || why->index == i)
        reject(writer, group, lane, record, why->verdict, why->detail);
    else
        reject(writer, group, lane, record, VERDICT_BATCH_REFUSED, why->index);
}

/* Appends one record, or refuses it. False: the group must end here and wait. */
static inline bool apply(struct writer *writer, struct write_group *group, uint32_t lane, struct lane_record *record)
{
    const bool awaits = awaits_disk(writer, record);
    enum verdict verdict;
    uint32_t detail = 0;
    if (__builtin_expect(record->flags & SEND_DEDUP, 0) && refusal(writer, awaits, &detail) == VERDICT_NONE &&
        judge_id(writer, group, lane, record))
        return true;
    if (admit(writer, group, awaits, record->image_size, &verdict, &detail) == WRITER_WAITS)
        return false;
    if (verdict == VERDICT_NONE && !append(writer, group, lane, record))
        verdict = refusal(writer, awaits, &detail);
    if (verdict != VERDICT_NONE)
        reject(writer, group, lane, record, verdict, detail);
    return true;
}

/* Whether an atomic batch is to be appended: its id, the room for it, and its offsets are judged. False: the group must end here and wait. */
static bool judge_unit(struct writer *writer, struct write_group *group, const struct unit *unit, struct unit_refusal *why)
{
    const struct lane_record *first = unit->first;
    *why = (struct unit_refusal){.verdict = VERDICT_NONE, .index = ALL_OF_UNIT};
    if (__builtin_expect(first->flags & SEND_DEDUP, 0) && refusal(writer, unit->awaits_disk, &why->detail) == VERDICT_NONE) {
        struct completion answer = {0};
        why->verdict = writer_dedup_judge_batch(writer, first, unit->records, &answer);
        why->detail = answer.detail;
        if (why->verdict == VERDICT_DEDUP_FULL || why->verdict == VERDICT_BATCH_DIFFERS)
            why->index = 0;
        if (why->verdict != VERDICT_NONE)
            return true;
    }
    if (unit->commits && writer_commits_full(writer))
        return false;
    if (admit(writer, group, unit->awaits_disk, unit->size, &why->verdict, &why->detail) == WRITER_WAITS)
        return false;
    if (unit->commits && why->verdict == VERDICT_NONE) {
        const enum verdict fenced = writer_commits_judge(writer, unit->commits, &why->detail);
        if (fenced != VERDICT_APPENDED) {
            why->verdict = fenced;
            why->index = unit->records - 1;
        }
    }
    return true;
}

/* The same for all records of an atomic batch, which go to one file of the log; passes all but the last. */
static __attribute__((noinline)) bool apply_batch(struct writer *writer, struct write_group *group, uint32_t lane)
{
    struct ring_consumer *in = &writer->lanes[lane];
    const struct unit unit = measure(writer, in);
    struct unit_refusal why;
    if (!judge_unit(writer, group, &unit, &why))
        return false;
    struct ring_record header;
    uint8_t *payload;
    for (uint32_t i = 0; i < unit.records && ring_peek(in, &header, &payload) == RING_RECORD; i++) {
        struct lane_record *record = (struct lane_record *)payload;
        if (group->small)
            record->code = VERDICT_APPENDED; /* a predecessor may have noted something else */
        if (why.verdict == VERDICT_NONE && !append(writer, group, lane, record))
            why.verdict = refusal(writer, unit.awaits_disk, &why.detail); /* take_back() takes the records before it back */
        if (why.verdict != VERDICT_NONE)
            refuse_part(writer, group, lane, record, i, &why);
        else if (record == unit.commits)
            writer_commits_note(writer, record, writer->wrote);
        CRASH_POINT("writer_batch_part");
        if (i + 1 == unit.records)
            break;
        group->messages++;
        ring_pass(in, &header);
    }
    return true;
}

/* Answers a record that the handler has refused. */
static void pass_on(struct writer *writer, struct write_group *group, uint32_t lane, struct lane_record *record)
{
    const struct completion answer = {.queue_id = record->queue_id, .code = record->code, .detail = record->detail};
    writer_answer(writer, lane, record, &answer);
    write_group_refuse(group, answer.code);
}

static void apply_lane(struct writer *writer, struct write_group *group, uint32_t lane)
{
    struct ring_consumer *in = &writer->lanes[lane];
    struct ring_record header;
    uint8_t *payload;
    while (group->bytes < WRITER_GROUP_BYTES && ring_peek(in, &header, &payload) == RING_RECORD) {
        struct lane_record *record = (struct lane_record *)payload;
        if (__builtin_expect(header.type == LANE_APPEND, 1)) {
            if (__builtin_expect(record->flags & LANE_FLAGS, 0)) {
                if (!apply_batch(writer, group, lane))
                    return;
                (void)ring_peek(in, &header, &payload); /* its last record */
            } else if (!apply(writer, group, lane, record)) {
                return;
            }
        } else if (header.type == LANE_REJECT) {
            pass_on(writer, group, lane, record);
        } else if (!writer_settle(writer, group, lane, record)) {
            return;
        }
        group->messages++;
        ring_pass(in, &header);
    }
}

/* The records that this group has taken from a lane. */
static bool next_taken(const struct writer *writer, uint32_t lane, struct ring_consumer *look, struct ring_record *header,
                       struct lane_record **record)
{
    uint8_t *payload;
    if (look->position >= writer->lanes[lane].position || ring_peek(look, header, &payload) != RING_RECORD ||
        look->position >= writer->lanes[lane].position)
        return false;
    *record = (struct lane_record *)payload;
    return true;
}

/* If a small write has failed in the middle of an atomic batch, as much as if it had failed at its beginning. */
static void spare_no_batch(struct writer *writer, uint32_t lane, uint64_t from)
{
    struct ring_consumer look;
    ring_consumer_attach(&look, &writer->attachment->lanes[lane]->ring, writer->attachment->lanes[lane]->capacity, from);
    struct ring_record header;
    struct lane_record *record;
    uint64_t first = LANE_UNPLACED; /* where the atomic batch begins */
    for (; next_taken(writer, lane, &look, &header, &record); ring_pass(&look, &header)) {
        if (header.type != LANE_APPEND)
            continue;
        if (first == LANE_UNPLACED)
            first = record->placed;
        const bool whole = record->placed != LANE_UNPLACED && record->placed < writer->failed_at;
        if (!whole && first < writer->failed_at)
            writer->failed_at = first;
        if (!(record->flags & LANE_MORE))
            first = LANE_UNPLACED;
    }
}

/* A small write has failed. The records of this group from there on, which nobody reads yet, are taken back, and their senders
 * refused. Nothing is appended any more, so if a part of a record or of an atomic batch was written, the next recovery cuts it. */
static void take_back(struct writer *writer, struct write_group *group, const uint64_t from[])
{
    const struct attachment *attachment = writer->attachment;
    for (uint32_t lane = 0; lane < attachment->control->settings.lanes; lane++)
        spare_no_batch(writer, lane, from[lane]);
    for (uint32_t lane = 0; lane < attachment->control->settings.lanes; lane++) {
        struct ring_consumer look;
        ring_consumer_attach(&look, &attachment->lanes[lane]->ring, attachment->lanes[lane]->capacity, from[lane]);
        struct ring_record header;
        struct lane_record *record;
        for (; next_taken(writer, lane, &look, &header, &record); ring_pass(&look, &header)) {
            if (header.type != LANE_APPEND || record->placed == LANE_UNPLACED || record->placed < writer->failed_at)
                continue;
            if (record->code == VERDICT_DUPLICATE) {
                group->duplicates--; /* of one that is taken back too */
            } else {
                struct queue_slot *queue = topics_queue(attachment->topics, record->queue_slot);
                /* relaxed: as in append() */
                atomic_fetch_sub_explicit(&queue->next_offset, 1, memory_order_relaxed);
                group->bytes -= record->image_size;
            }
            reject(writer, group, lane, record, VERDICT_STORE_FAILED,
                   atomic_load_explicit(&attachment->control->wrote.error, memory_order_relaxed)); /* relaxed: our own */
        }
    }
    dedup_table_take_back(&writer->dedup.table, writer->failed_at);
    writer_commits_take_back(writer);
    writer->wrote = writer->failed_at;
}

/* ---- one write group ----------------------------------------------------------------------------------------------- */

static void commit(struct writer *writer, struct write_group *group)
{
    struct control *control = writer->attachment->control;
    struct commit_slot slot = {.wrote = writer->wrote, .store_ms = writer->store_ms};
    for (uint32_t i = 0; i < control->settings.lanes; i++)
        slot.applied[i] = writer->lanes[i].position;
    commit_write(&control->commit, &slot);
    CRASH_POINT("writer_committed");
    if (group->bytes == 0 && !group->flush) /* only duplicates may wait for the disk without adding anything */
        return;
    /* release: the log's bytes before the position that lets others read them [W1] */
    atomic_store_explicit(&control->wrote.value, writer->wrote, memory_order_release);
    CRASH_POINT("writer_published");
    atomic_store_explicit(&control->wrote_ms, writer->store_ms, memory_order_release);
    /* relaxed: only we write it, and it comes before the request that it belongs to */
    if (group->askers)
        atomic_store_explicit(&control->flush_askers,
                              atomic_load_explicit(&control->flush_askers, memory_order_relaxed) + group->askers,
                              memory_order_relaxed);
    if (group->flush || control->settings.flush_every_message)
        atomic_store_explicit(&control->flush_wanted, writer->wrote, memory_order_release);
    CRASH_POINT("writer_flush_wanted");
}

void writer_free_lanes(struct writer *writer)
{
    struct attachment *attachment = writer->attachment;
    for (uint32_t i = 0; i < attachment->control->settings.lanes; i++) {
        ring_release(&writer->lanes[i], writer->lanes[i].position);
        CRASH_POINT("writer_lane_freed");
    }
}

void writer_wake_followers(struct writer *writer, const struct write_group *group)
{
    struct attachment *attachment = writer->attachment;
    uint32_t wakes = 0;
    /* seq_cst: the lanes' heads before our look at who waits for room; a handler raises `stalled`, announces with a full
     * fence, then looks at the head [M1] */
    atomic_thread_fence(memory_order_seq_cst);
    if (group->bytes || group->flush) {
        wakes += bell_ring(&attachment->control->reput_bell);
        CRASH_POINT("writer_reput_rung");
        if (group->flush || attachment->control->settings.flush_every_message)
            wakes += bell_ring(&attachment->wake->flush);
    }
    for (uint32_t i = 0; i < attachment->control->settings.lanes; i++) {
        if (group->wake[i] || atomic_load_explicit(&attachment->lanes[i]->stalled, memory_order_relaxed))
            wakes += bell_ring(&attachment->wake->handler[i]);
        CRASH_POINT("writer_handler_rung");
    }
    count(attachment->page, COUNT_WAKES, wakes);
}

/* How many there are in all lanes, about. */
static uint64_t waiting_bytes(const struct writer *writer)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < writer->attachment->control->settings.lanes; i++)
        /* relaxed: what else comes meanwhile affects only speed */
        bytes += atomic_load_explicit(&writer->attachment->lanes[i]->ring.tail.position, memory_order_relaxed) - writer->lanes[i].position;
    return bytes;
}

static __attribute__((noinline)) void count_rejected(struct actor_page *page, const struct write_group *group)
{
    static_assert(VERDICTS <= REFUSALS, "the page has room for every verdict");
    count(page, COUNT_REJECTED, group->rejected);
    for (uint32_t verdict = 0; verdict < VERDICTS; verdict++)
        if (group->refused[verdict])
            count_refused(page, verdict, group->refused[verdict]);
}

uint32_t writer_step(struct writer *writer)
{
    struct attachment *attachment = writer->attachment;
    struct write_group group = {0};
    uint64_t from[LANES_MAX];
    const uint32_t lanes = attachment->control->settings.lanes;
    const uint64_t now = clock_real_ms();
    if (now > writer->store_ms)
        writer->store_ms = now; /* never back, whatever the clock does */
    /* relaxed: a send that waits for the disk and came since is counted for the next sync, a little sooner or later */
    const uint64_t flushed = atomic_load_explicit(&attachment->control->flushed.value, memory_order_relaxed);
    if (flushed != writer->asked_at) {
        writer->asked_at = flushed;
        memset(writer->asked, 0, sizeof writer->asked);
    }
    group.small = waiting_bytes(writer) <= SMALL_WRITE_BYTES;
    for (uint32_t i = 0; i < lanes; i++) {
        const uint32_t lane = (writer->first_lane + i) % lanes;
        from[lane] = writer->lanes[lane].position;
        apply_lane(writer, &group, lane);
    }
    writer_end_small(writer);
    if (writer->failed_at != UINT64_MAX)
        take_back(writer, &group, from);
    writer->failed_at = UINT64_MAX;
    writer->first_lane = (writer->first_lane + 1) % lanes;
    writer->waits = group.waits;
    if (group.messages == 0)
        return 0;

    CRASH_POINT("writer_applied");
    commit(writer, &group);
    writer_settled(writer);
    writer_committed(writer);
    for (uint32_t i = 0; i < lanes; i++)
        if (from[i] != writer->lanes[i].position)
            writer_deliver(writer, &group, i);
    writer_free_lanes(writer);
    writer_wake_followers(writer, &group);
    writer_look_ahead(writer);

    count(attachment->page, COUNT_STEPS, 1);
    count(attachment->page, COUNT_MESSAGES, group.messages - group.rejected - group.duplicates);
    if (group.rejected)
        count_rejected(attachment->page, &group);
    count(attachment->page, COUNT_DUPLICATES, group.duplicates);
    count(attachment->page, COUNT_BYTES, group.bytes);
    histogram_record(&attachment->page->histogram, group.messages);
    return group.messages;
}

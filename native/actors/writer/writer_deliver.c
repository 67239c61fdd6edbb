/* Puts verdicts into the sessions' slots, and says how many there are. */
#include "base/crash_point.h"
#include "shared/verdict.h"
#include "actors/writer/writer_parts.h"
#include <assert.h>

/* The broker's count is raised before the client's, so that a client that saw a verdict finds its window open. If a writer is
 * killed between the two, the client's count is behind. That is why a successor raises it again for every session in the lane,
 * even if all of its verdicts count as delivered. If we could not map the session, `session` is NULL, and its messages count all
 * the same: they leave the lane, and its handler's successor, which may find them in the ring still, would take them again. */
static void raise_completed(struct session_entry *entry, struct session *session, uint64_t sequence)
{
    /* relaxed: only the writer raises it */
    const uint64_t done = atomic_load_explicit(&entry->completed, memory_order_relaxed);
    if (sequence < done)
        sequence = done;
    /* release: verdicts before their count, for a successor or handler, and for the client [S1] */
    atomic_store_explicit(&entry->completed, sequence, memory_order_release);
    CRASH_POINT("writer_deliver_counted");
    if (session)
        atomic_store_explicit(&session->completed, sequence, memory_order_release);
    CRASH_POINT("writer_deliver_completed");
}

/* Finds the session of a record that another session's follows. */
static __attribute__((noinline)) void address(struct writer *writer, uint32_t lane, const struct lane_record *record)
{
    struct attachment *attachment = writer->attachment;
    const uint32_t slot = record->session_slot, epoch = record->session_epoch;
    const bool own = lane >= handler_lanes(&attachment->control->settings); /* see note() */
    writer->to = (struct addressee){.slot = slot, .epoch = epoch, .gone = own || attachment->control->sessions[slot].shape.epoch != epoch};
    /* Our mapping may outlive the session. `completed` in the entry is then that of the next session, whose handler would take
     * it for a count of its own messages and drop as many. */
    if (writer->to.gone)
        return;
    if (writer->answered[slot].epoch != epoch) {
        writer->answered[slot].epoch = epoch;
        writer->answered[slot].sequence = 0;
    }
    writer->touched[lane][slot / 64] |= UINT64_C(1) << (slot % 64);
    const struct session_map *map = attachment_session(attachment, slot, epoch);
    if (!map) {
        /* Nobody would ever answer its client. Short of memory or descriptors, we tell it that the session is lost. */
        session_move_state(attachment->control, slot, SESSION_READY, SESSION_LOST);
        return;
    }
    writer->to.slots = map->parts.slots;
    writer->to.window = map->shape.window;
}

/* True if somebody is there to be told of this record's verdict. */
static inline bool answers(struct writer *writer, uint32_t lane, const struct lane_record *record)
{
    if (record->session_slot != writer->to.slot || record->session_epoch != writer->to.epoch)
        address(writer, lane, record);
    if (writer->to.gone)
        return false;
    if (writer->answered[record->session_slot].sequence < record->sequence)
        writer->answered[record->session_slot].sequence = record->sequence;
    return writer->to.slots != NULL;
}

/* An actor of the broker reads what became of its records in its lane, which stays as it is until it has: put_lane.h. */
static __attribute__((noinline)) void note(struct lane_record *record, const struct completion *verdict)
{
    record->code = verdict->code;
    record->detail = verdict->detail;
    if (verdict->code == VERDICT_APPENDED)
        record->placed = verdict->physical_offset;
    CRASH_POINT("writer_deliver_noted");
}

void writer_answer(struct writer *writer, uint32_t lane, struct lane_record *record, const struct completion *verdict)
{
    if (!answers(writer, lane, record)) {
        if (lane >= handler_lanes(&writer->attachment->control->settings))
            note(record, verdict);
        return;
    }
    writer->to.slots[(record->sequence - 1) & (writer->to.window - 1)] = *verdict;
    CRASH_POINT("writer_deliver_put");
}

void writer_answered(struct writer *writer, uint32_t lane, uint64_t applied)
{
    struct ring_consumer look = writer->lanes[lane];
    struct ring_record header;
    uint8_t *payload;
    while (look.position < applied) {
        const enum ring_look found = ring_peek(&look, &header, &payload);
        if (look.position >= applied)
            break; /* what followed was padding */
        assert(found == RING_RECORD);
        answers(writer, lane, (const struct lane_record *)payload);
        if (header.type == LANE_SETTLE)
            writer_settled_over(writer, (struct lane_record *)payload);
        ring_pass(&look, &header);
    }
}

void writer_deliver(struct writer *writer, struct write_group *group, uint32_t lane)
{
    struct attachment *attachment = writer->attachment;
    uint64_t *touched = writer->touched[lane];
    for (uint32_t word = 0; word < SESSION_WORDS; word++)
        for (uint64_t bits = touched[word]; bits; bits &= bits - 1) {
            const uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(bits);
            const uint32_t epoch = writer->answered[slot].epoch;
            struct session_entry *entry = &attachment->control->sessions[slot];
            struct session_map *map = &attachment->sessions[slot];
            if (entry->shape.epoch == epoch) /* else it is gone by now, as in address() */
                raise_completed(entry, map->epoch == epoch ? map->session : NULL, writer->answered[slot].sequence);
        }
    writer->to.slot = SESSIONS_MAX; /* look again in the next group whether it is there */

    /* seq_cst: `completed` before our look at who sleeps; a client announces, fences, then looks at `completed` [B1, B2] */
    atomic_thread_fence(memory_order_seq_cst);
    for (uint32_t word = 0; word < SESSION_WORDS; word++) {
        uint64_t sleepers = 0;
        for (uint64_t bits = touched[word]; bits; bits &= bits - 1) {
            const uint32_t at = word * 64 + (uint32_t)__builtin_ctzll(bits);
            const struct session_map *map = &attachment->sessions[at];
            if (map->epoch && atomic_load_explicit(&map->session->bell.asleep, memory_order_relaxed))
                sleepers |= bits & -bits;
        }
        touched[word] = 0;
        /* release: verdicts before the bit [D1] */
        if (sleepers)
            atomic_fetch_or_explicit(&attachment->control->deliver[lane][word], sleepers, memory_order_release);
        group->wake[lane] |= sleepers;
    }
    CRASH_POINT("writer_deliver_done");
}

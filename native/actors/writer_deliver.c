/* Puts verdicts into the sessions' slots. */
#include "base/crash_point.h"
#include "shared/verdict.h"
#include "actors/writer_parts.h"
#include <assert.h>

/* The broker's count is raised before the client's, so that a client that saw a verdict finds its window open. If a writer is
 * killed between the two, the client's count is behind. That is why a successor raises it again for every session in the lane,
 * even if all of its verdicts count as delivered. */
static void raise_completed(struct writer *writer, uint64_t sequence)
{
    struct session_map *map = writer->session;
    const uint32_t slot = writer->session_slot;
    /* release: verdicts before their count, for a successor or handler, and for the client [S1] */
    atomic_store_explicit(&writer->tree->control->sessions[slot].completed, sequence, memory_order_release);
    CRASH_POINT("writer_deliver_counted");
    atomic_store_explicit(&map->session->completed, sequence, memory_order_release);
    CRASH_POINT("writer_deliver_completed");
}

/* The mapping for the verdicts of this session, or NULL if the session is gone. */
static struct session_map *addressee(struct attachment *tree, uint32_t slot, uint32_t epoch)
{
    struct session_entry *entry = &tree->control->sessions[slot];
    /* Our mapping may outlive the session. `completed` in the entry is then that of the next session, whose handler would take
     * it for a count of its own messages and drop as many. */
    if (entry->shape.epoch != epoch)
        return NULL;
    struct session_map *map = attachment_session(tree, slot, epoch);
    /* Nobody would ever answer its client. Short of memory or descriptors, we tell it that the session is lost. */
    if (!map)
        session_move_state(tree->control, slot, SESSION_READY, SESSION_LOST);
    return map;
}

void writer_deliver_lane(struct writer *writer, struct write_group *group, uint32_t lane, uint64_t from, uint64_t applied)
{
    struct attachment *tree = writer->tree;
    struct ring_consumer look;
    ring_consumer_attach(&look, &tree->lanes[lane]->ring, tree->lanes[lane]->capacity, from);
    uint64_t sequence = 0, done = 0;
    uint32_t slot = SESSIONS_MAX, epoch = 0;
    uint64_t touched[SESSION_WORDS] = {0};
    struct ring_record header;
    uint8_t *payload;
    while (look.position < applied) {
        const enum ring_look found = ring_peek(&look, &header, &payload);
        if (look.position >= applied)
            break; /* what followed was padding */
        assert(found == RING_RECORD);
        const struct lane_record *record = (const struct lane_record *)payload;
        if (record->session_slot != slot || record->session_epoch != epoch) {
            if (writer->session && sequence)
                raise_completed(writer, sequence > done ? sequence : done);
            slot = record->session_slot;
            epoch = record->session_epoch;
            writer->session = addressee(tree, slot, epoch);
            writer->session_slot = slot;
            sequence = 0;
            done = writer->session ? atomic_load_explicit(&tree->control->sessions[slot].completed, memory_order_relaxed)
                                   : UINT64_MAX; /* relaxed: only the writer raises it */
            touched[slot / 64] |= UINT64_C(1) << (slot % 64);
        }
        if (writer->session && writer->session->parts.slots) {
            sequence = record->sequence;
            if (sequence > done) {
                struct completion *to = &writer->session->parts.slots[(sequence - 1) & (writer->session->shape.window - 1)];
                *to = (struct completion){record->physical_offset, record->queue_offset, record->image_size,
                                          record->queue_id, record->code, record->detail};
                CRASH_POINT("writer_deliver_put");
            }
        }
        ring_pass(&look, &header);
    }
    if (writer->session && sequence)
        raise_completed(writer, sequence > done ? sequence : done);

    /* seq_cst: `completed` before our look at who sleeps; a client announces, fences, then looks at `completed` [B1, B2] */
    atomic_thread_fence(memory_order_seq_cst);
    for (uint32_t word = 0; word < SESSION_WORDS; word++) {
        uint64_t sleepers = 0;
        for (uint64_t bits = touched[word]; bits; bits &= bits - 1) {
            const uint32_t at = word * 64 + (uint32_t)__builtin_ctzll(bits);
            const struct session_map *map = &tree->sessions[at];
            if (map->epoch && atomic_load_explicit(&map->session->bell.asleep, memory_order_relaxed))
                sleepers |= bits & -bits;
        }
        /* release: verdicts before the bit [D1] */
        if (sleepers)
            atomic_fetch_or_explicit(&tree->control->deliver[lane][word], sleepers, memory_order_release);
        group->wake[lane] |= sleepers;
    }
    CRASH_POINT("writer_deliver_done");
}

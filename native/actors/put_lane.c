#include "actors/put_lane.h"
#include "base/crash_point.h"
#include "format/record_template.h"

#include <assert.h>

void put_lane_open(struct put_lane *put, struct attachment *attachment, enum own_lane own)
{
    const struct settings *settings = &attachment->control->settings;
    assert((uint32_t)own < settings->own_lanes);
    put->attachment = attachment;
    put->index = own_lane(settings, own);
    put->lane = attachment->lanes[put->index];
    assert(put->lane);
    ring_producer_attach(&put->out, &put->lane->ring, put->lane->capacity);
}

bool put_lane_add(struct put_lane *put, const struct put_name *name, const struct record_parts *parts, uint32_t queue_slot)
{
    const uint32_t size = record_image_size(parts);
    struct lane_record *record = ring_claim(&put->out, sizeof *record + size);
    if (!record)
        return false;
    *record = (struct lane_record){
        .session_slot = name->kind,
        .sequence = name->number,
        .queue_slot = queue_slot,
        .queue_id = parts->queue_id,
        .image_size = size,
        .placed = LANE_UNPLACED,
    };
    record_encode(parts, (uint8_t *)(record + 1), &record->seal);
    CRASH_POINT("put_lane_encoded");
    ring_commit(&put->out, sizeof *record + size, LANE_APPEND);
    CRASH_POINT("put_lane_committed");
    return true;
}

void put_lane_publish(struct put_lane *put)
{
    CRASH_POINT("put_lane_filled");
    ring_publish(&put->out);
    CRASH_POINT("put_lane_published");
    struct control *control = put->attachment->control;
    if (bell_ring(control->settings.together ? &put->attachment->wake->handler[0] : &control->writer_bell))
        count(put->attachment->page, COUNT_WAKES, 1);
    CRASH_POINT("put_lane_rang_writer");
}

bool put_lane_answered(const struct put_lane *put)
{
    /* acquire, in there: the notes before the writer's head [R2] */
    return ring_head_position(&put->lane->ring) == put->out.position;
}

struct ring_consumer put_lane_notes(const struct put_lane *put, uint64_t counted)
{
    struct ring_consumer look;
    ring_consumer_attach(&look, &put->lane->ring, put->lane->capacity, counted);
    return look;
}

bool put_lane_next(const struct put_lane *put, struct ring_consumer *look, struct put_note *note)
{
    struct ring_record header;
    uint8_t *payload;
    if (look->position >= put->out.position || ring_peek(look, &header, &payload) != RING_RECORD)
        return false;
    const struct lane_record *record = (const struct lane_record *)payload;
    *note = (struct put_note){
        .name = {.kind = record->session_slot, .number = record->sequence},
        .code = record->code,
        .end = record->placed + record->image_size,
        .image = (const uint8_t *)(record + 1),
        .image_size = record->image_size,
    };
    ring_pass(look, &header);
    return true;
}

enum bell_wake put_lane_rest(struct put_lane *put, bool awaits, uint64_t limit_ns, bool (*news)(const void *), const void *of)
{
    struct bell *bell = &put->attachment->wake->handler[put->index];
    if (awaits)
        /* relaxed: the announcement's fence below orders it before our look at the lane's head [M1] */
        atomic_store_explicit(&put->lane->stalled, 1, memory_order_relaxed);
    CRASH_POINT("put_lane_resting");
    enum bell_wake wake = BELL_RUNG;
    const uint32_t ticket = bell_announce(bell);
    if ((awaits && put_lane_answered(put)) || (news && news(of)))
        bell_cancel(bell, ticket);
    else {
        count(put->attachment->page, COUNT_SLEEPS, 1);
        wake = bell_sleep(bell, ticket, limit_ns);
    }
    /* relaxed: if the flag is still seen, the writer rings once in vain */
    atomic_store_explicit(&put->lane->stalled, 0, memory_order_relaxed);
    return wake;
}

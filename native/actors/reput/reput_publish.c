/* Shows readers what a step has written: reput.c has the order. */
#include "actors/reput/reput_parts.h"
#include "base/crash_point.h"

static void ring_audience(struct reput *reput, uint32_t slot, uint32_t *wakes, uint32_t *dirty)
{
    struct attachment *attachment = reput->attachment;
    /* relaxed: the full fence before orders it after what was published [I2] */
    const uint64_t audience = atomic_load_explicit(&topics_queue(attachment->topics, slot)->audience, memory_order_relaxed);
    if (audience == PULL_HOLD_NONE)
        return;
    if (audience != PULL_HOLD_MANY) {
        const struct session_map *map = attachment_session(attachment, (uint32_t)audience - 1, (uint32_t)(audience >> 32));
        if (map) {
            *wakes += bell_ring_client(&map->session->bell) > 0;
            return;
        } /* gone, or not possible for us to map: the notifier knows better */
    }
    /* release: max_offset before the bit. Pairs with the acquire in the notifier's fan_out [I3]. */
    atomic_fetch_or_explicit(&attachment->control->dirty[slot / 64], UINT64_C(1) << (slot % 64), memory_order_release);
    CRASH_POINT("reput_publish_dirtied");
    ++*dirty;
}

/* True if the dispatcher hands out from this queue (worked), or a gateway holds requests for it (held). relaxed: the full fence before
 * orders it after what was published [J1, Y1] */
static bool is_named(const _Atomic uint64_t *words, uint32_t slot)
{
    return atomic_load_explicit(&words[slot / 64], memory_order_relaxed) >> (slot % 64) & 1;
}

/* Adds to `found` those of the gateways that hold requests for the queue. */
static uint32_t find_holders(const struct control *control, uint32_t holding, uint32_t slot, uint32_t found)
{
    for (uint32_t left = holding & ~found; left; left &= left - 1) {
        const uint32_t gateway = (uint32_t)__builtin_ctz(left);
        if (is_named(control->held[gateway], slot))
            found |= 1u << gateway;
    }
    return found;
}

static void wake_audiences(struct reput *reput)
{
    bool worked = reput->all;
    struct attachment *attachment = reput->attachment;
    uint32_t wakes = 0, dirty = 0;
    atomic_thread_fence(memory_order_seq_cst); /* [I2, J1, K2, Y1] */
    /* relaxed: the fence orders it, as the bits that it stands for [Y1] */
    const uint32_t holding = atomic_load_explicit(&attachment->control->holding, memory_order_relaxed) &
                             ((1u << GATEWAYS_MAX) - 1);
    uint32_t holders = reput->all ? holding : 0;
    if (reput->all) {
        const uint32_t queues = atomic_load_explicit(&attachment->topics->queue_count, memory_order_acquire);
        for (uint32_t slot = 0; slot < queues; slot++)
            ring_audience(reput, slot, &wakes, &dirty);
        reput->all = false;
    } else {
        for (uint32_t i = 0; i < reput->touched_count; i++) {
            ring_audience(reput, reput->touched[i], &wakes, &dirty);
            worked = worked || is_named(attachment->control->worked, reput->touched[i]);
            holders = find_holders(attachment->control, holding, reput->touched[i], holders);
        }
    }
    if (worked)
        wakes += bell_ring(&attachment->wake->dispatcher);
    for (; holders; holders &= holders - 1)
        wakes += attachment_ring_gateway(attachment, (uint32_t)__builtin_ctz(holders));
    if (dirty)
        wakes += bell_ring(&attachment->wake->notifier);
    /* relaxed: the fence above orders it after max_offset; the scheduler stores it, announces, and looks at max_offset [K2] */
    if (reput->soonest_ms < atomic_load_explicit(&attachment->control->delay_wakes_ms, memory_order_relaxed))
        wakes += bell_ring(&attachment->wake->handler[own_lane(&attachment->control->settings, OWN_LANE_SCHEDULER)]);
    reput->soonest_ms = UINT64_MAX;
    if (wakes)
        count(attachment->page, COUNT_WAKES, wakes);
    if (dirty)
        count(attachment->page, COUNT_DIRTY, dirty);
}

static void publish_queue(struct reput *reput, uint32_t slot)
{
    struct queue_slot *queue = topics_queue(reput->attachment->topics, slot);
    struct queue_work *work = &reput->queues[slot];
    work->touched = false;
    /* relaxed: reput alone writes this line */
    const uint64_t old = atomic_load_explicit(&queue->max_offset, memory_order_relaxed);
    if (work->max_offset <= old)
        return; /* read again after a takeover */
    /* The queue was empty, and its numbers continue from its last life; perhaps beyond what a power cut has left of its fillers. */
    if (work->first > old && atomic_load_explicit(&queue->min_offset, memory_order_relaxed) == old)
        atomic_store_explicit(&queue->min_offset, work->first, memory_order_relaxed);
    atomic_store_explicit(&queue->physical_end, work->physical_end, memory_order_relaxed);
    CRASH_POINT("reput_publish_queue_half");
    /* release: units before max_offset [Q1] */
    atomic_store_explicit(&queue->max_offset, work->max_offset, memory_order_release);
    CRASH_POINT("reput_publish_queue");
}

void reput_publish(struct reput *reput)
{
    struct control *control = reput->attachment->control;
    if (!control->settings.untouched)
        index_log_commit(&reput->index, reput->position);
    CRASH_POINT("reput_publish_committed");
    for (uint32_t i = 0; i < reput->touched_count; i++)
        publish_queue(reput, reput->touched[i]);
    /* relaxed read: reput alone writes it. After a takeover it may be ahead of us; it never falls. */
    if (reput->position > atomic_load_explicit(&control->reput.value, memory_order_relaxed)) {
        /* release: max offsets before the position [P1] */
        atomic_store_explicit(&control->reput.value, reput->position, memory_order_release);
        CRASH_POINT("reput_publish_position");
        atomic_store_explicit(&control->reput_ms, reput->store_ms, memory_order_release);
        CRASH_POINT("reput_publish_stamped");
        if (bell_ring(&reput->attachment->wake->reput))
            count(reput->attachment->page, COUNT_WAKES, 1);
    }
    wake_audiences(reput);
    CRASH_POINT("reput_publish_woke");
    reput->touched_count = 0;
}

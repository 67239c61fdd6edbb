#include "shared/session_call.h"

uint64_t session_called_ns(const struct session *session)
{
    /* relaxed: a time, compared with ours; no other data depends on it */
    return atomic_load_explicit(&session->called_ns, memory_order_relaxed);
}

uint32_t session_wanted(const struct session *session)
{
    /* relaxed: a number to be shown */
    return atomic_load_explicit(&session->wanted, memory_order_relaxed);
}

void session_ring(struct session *session) { bell_ring_client(&session->bell); }

void session_call_handler(struct control *control, struct wake *wake, uint32_t slot)
{
    assert(slot < SESSIONS_MAX);
    const uint32_t lane = session_lane(&control->settings, slot);
    /* release: the session's state before its news bit; pairs with the acquire where the handler takes the bit */
    atomic_fetch_or_explicit(&wake->news[lane][slot / 64], UINT64_C(1) << (slot % 64), memory_order_release);
    bell_ring(&wake->handler[lane]);
}

void session_call_notifier(struct wake *wake, uint32_t slot)
{
    assert(slot < SESSIONS_MAX);
    /* release: as above; pairs with the acquire where the notifier takes the bit */
    atomic_fetch_or_explicit(&wake->interests[slot / 64], UINT64_C(1) << (slot % 64), memory_order_release);
    bell_ring(&wake->notifier);
}

/* An older value could only make a wait too short, so it is taken after the session's DRAINED state, which the handler stores
 * after it has published. */
uint64_t lane_published(const struct lane *lane) { return ring_tail_position(&lane->ring); }

/* The writer's deliveries lie before its release. */
uint64_t lane_freed(const struct lane *lane) { return ring_head_position(&lane->ring); }

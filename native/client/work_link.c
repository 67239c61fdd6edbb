#include "client/work_link.h"
#include "base/crash_point.h"
#include <poll.h>
#include <stdlib.h>

#define QUIET_MAX 128u /* answers for which the dispatcher is not rung; it takes twice as many in one look (ANSWERS_A_TURN) */

struct work_link *work_link_open(uintptr_t session, uintptr_t control, uintptr_t wake, int supervisor, const struct session_shape *shape)
{
    assert(work_ring_good(shape->work_capacity));
    struct work_link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->session = (struct session *)session;
    link->control = (const struct control *)control;
    link->wake = (struct wake *)wake;
    link->supervisor = supervisor;
    link->capacity = shape->work_capacity;
    link->slot = shape->slot;
    link->epoch = shape->epoch;
    session_parts(link->session, shape, &link->parts);
    return link;
}

void work_link_close(struct work_link *link) { free(link); }

/* relaxed, here and where it is stored: a hint for threads that sleep; whoever takes records holds the caller's lock */
static uint64_t handed(const struct work_link *link) { return atomic_load_explicit(&link->handed, memory_order_relaxed); }

uint32_t work_link_take(struct work_link *link, struct work_record *records, uint32_t most)
{
    const uint64_t tail = work_ring_tail(link->parts.hand_outs);
    uint64_t at = handed(link);
    uint32_t count = 0;
    while (at != tail && count < most)
        records[count++] = link->parts.hand_outs->record[at++ & (link->capacity - 1)];
    if (count) {
        atomic_store_explicit(&link->handed, at, memory_order_relaxed);
        CRASH_POINT("work_link_took");
        work_ring_release(link->parts.hand_outs, at);
    }
    return count;
}

uint64_t work_link_applied(const struct work_link *link) { return work_ring_head(link->parts.answers); }

bool work_link_answer(struct work_link *link, uint32_t kind, uint32_t queue, uint32_t opening, uint64_t first, uint32_t count, uint32_t tries,
                      uint64_t time_ms)
{
    if (link->answered - work_link_applied(link) >= link->capacity)
        return false;
    link->parts.answers->record[link->answered & (link->capacity - 1)] =
        (struct work_record){.first = first, .queue = queue, .count = count, .kind = (uint16_t)kind, .tries = (uint16_t)tries,
                             .opening = opening, .time_ms = time_ms};
    link->answered++;
    link->acked += kind == WORK_ACK ? count : 0;
    link->pressing |= kind != WORK_ACK;
    CRASH_POINT("work_link_answered");
    return true;
}

bool work_link_nack(struct work_link *link, uint32_t queue, uint32_t opening, uint64_t offset, uint32_t tries, uint64_t time_ms, const uint8_t *text,
                    uint32_t size)
{
    assert(size <= WORK_TEXT_MAX);
    const uint32_t pieces = (size + WORK_TEXT_PIECE - 1) / WORK_TEXT_PIECE;
    if (link->answered - work_link_applied(link) + pieces >= link->capacity)
        return false;
    for (uint32_t i = 0; i < pieces; i++) {
        const uint32_t at = i * WORK_TEXT_PIECE, left = size - at;
        link->parts.answers->record[link->answered++ & (link->capacity - 1)] =
            work_text_put(text + at, left < WORK_TEXT_PIECE ? left : WORK_TEXT_PIECE);
        CRASH_POINT("work_link_texted");
    }
    return work_link_answer(link, WORK_NACK, queue, opening, offset, 1, tries, time_ms);
}

void work_link_tell(struct work_link *link)
{
    /* relaxed, here and wherever these two are used: whoever stores an older value than another thread costs a needless ring. Our own
     * answers are published before, and those of another thread before its look at who waits [J6]. */
    const uint64_t published = atomic_load_explicit(&link->published, memory_order_relaxed);
    if (atomic_load_explicit(&link->told, memory_order_relaxed) == published)
        return;
    atomic_store_explicit(&link->told, published, memory_order_relaxed);
    bell_ring(&link->wake->dispatcher);
}

uint64_t work_link_untold(const struct work_link *link)
{
    /* relaxed, both: shown */
    return atomic_load_explicit(&link->published, memory_order_relaxed) - atomic_load_explicit(&link->told, memory_order_relaxed);
}

/* Acknowledgements alone are in no hurry while this session has others in its hands: a ring is a system call where the dispatcher
 * sleeps, ours and its time for one job. Half of what this session wants is left for the time that the dispatcher needs to hand out more. */
static bool enough(const struct work_link *link)
{
    /* relaxed: only we write the first */
    return link->pressing || 2 * link->acked >= atomic_load_explicit(&link->session->wanted, memory_order_relaxed) ||
           link->answered - atomic_load_explicit(&link->told, memory_order_relaxed) >= QUIET_MAX;
}

/* True if somebody waits for answers of this session: another thread of it, or, says the dispatcher, another worker. */
static bool waited_for(const struct work_link *link)
{
    /* seq_cst: the answers before the looks. Pairs with the announcement of the dispatcher, before which it says whether it heeds
     * them, and after which it looks for answers [J5]; and with that of our thread, likewise [J6]. */
    atomic_thread_fence(memory_order_seq_cst);
    /* relaxed, both: the fences order them */
    return atomic_load_explicit(&link->waiting, memory_order_relaxed) ||
           atomic_load_explicit(&link->control->sessions[link->slot].heeded, memory_order_relaxed);
}

void work_link_publish(struct work_link *link)
{
    work_ring_publish(link->parts.answers, link->answered);
    atomic_store_explicit(&link->published, link->answered, memory_order_relaxed);
    CRASH_POINT("work_link_published");
    if (!enough(link) && !waited_for(link))
        return;
    link->acked = 0;
    link->pressing = false;
    work_link_tell(link);
}

void work_link_want(struct work_link *link, uint32_t most)
{
    /* relaxed: only we write it, and bell_ring fences before it looks for sleepers. Pairs with dispatcher_room after the
     * announcement of the dispatcher [J4]. */
    const uint32_t before = atomic_load_explicit(&link->session->wanted, memory_order_relaxed);
    if (most == before)
        return;
    atomic_store_explicit(&link->session->wanted, most, memory_order_relaxed);
    if (most > before)
        bell_ring(&link->wake->dispatcher);
}

bool work_link_alive(const struct work_link *link)
{
    /* relaxed, all: a reader of an old value looks again within BELL_LIMIT_NS */
    const uint32_t state = atomic_load_explicit(&link->control->tree_state, memory_order_relaxed);
    const struct session_entry *entry = &link->control->sessions[link->slot];
    if (state == TREE_STOPPING || state == TREE_STOPPED || entry->shape.epoch != link->epoch ||
        atomic_load_explicit(&entry->state, memory_order_relaxed) != SESSION_READY)
        return false;
    struct pollfd watched = {.fd = link->supervisor, .events = POLLIN};
    return link->supervisor < 0 || poll(&watched, 1, 0) <= 0;
}

static bool news(const struct work_link *link, uint64_t applied)
{
    return work_ring_tail(link->parts.hand_outs) != handed(link) || work_link_applied(link) >= applied;
}

enum work_link_result work_link_wait(struct work_link *link, uint64_t applied, uint64_t limit_ns)
{
    if (news(link, applied))
        return WORK_LINK_NEWS;
    struct bell *bell = &link->session->bell;
    const bool answers = applied != UINT64_MAX;
    /* relaxed: the announcement's fence orders it before the look at the head. The dispatcher rings for the head only where it is
     * raised: pairs with the fence in `take` of dispatcher_answers.c [J3]. */
    if (answers)
        atomic_fetch_add_explicit(&link->session->stalled, 1, memory_order_relaxed);
    /* relaxed: the announcement's fence orders it before the look at what is published. Pairs with waited_for [J6]. */
    atomic_fetch_add_explicit(&link->waiting, 1, memory_order_relaxed);
    const uint32_t ticket = bell_announce(bell);
    work_link_tell(link);
    enum work_link_result result = WORK_LINK_NEWS;
    if (news(link, applied)) {
        bell_cancel(bell, ticket);
    } else if (!work_link_alive(link)) {
        bell_cancel(bell, ticket);
        result = WORK_LINK_GONE;
    } else {
        const enum bell_wake wake = bell_sleep(bell, ticket, limit_ns < BELL_LIMIT_NS ? limit_ns : BELL_LIMIT_NS);
        result = news(link, applied) ? WORK_LINK_NEWS : wake == BELL_SIGNAL ? WORK_LINK_SIGNAL : WORK_LINK_TIMEOUT;
    }
    if (answers)
        atomic_fetch_sub_explicit(&link->session->stalled, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&link->waiting, 1, memory_order_relaxed); /* who sees it late rings once too often */
    return result;
}

void work_link_ring(struct work_link *link) { bell_ring(&link->session->bell); }

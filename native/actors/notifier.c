/* Interests, and why nothing gets lost between a session's list and reput's next message:
 *
 *   notifier: audience word of the queue stored, full fence, session's bell rung            [I1]
 *   reput:    max_offset stored, full fence, audience word read, bell rung if there is one  [I2]
 *   consumer: bell announced, full fence, max_offset read, sleep                          [B1]
 *
 * If reput reads the audience word too early, the notifier's ring comes after reput's store and makes the consumer look again.
 * The lists belong to clients: what they name is bounded, copied, and only decides who is woken.
 */
#include "actors/notifier.h"
#include "base/crash_point.h"
#include <stdlib.h>
#include <string.h>

/* What one session waits for. epoch 0: nothing. */
struct interest {
    uint32_t epoch;
    uint32_t count;
    uint32_t *queues;
};
/* The sessions that wait for one queue, by their slots. */
struct audience {
    uint32_t count, room;
    uint16_t *slots;
};

struct notifier {
    struct attachment *attachment;
    uint32_t sessions_version;
    bool all; /* every session's interests must be read */
    struct interest interest[SESSIONS_MAX];
    struct audience audience[QUEUES_MAX];
};

struct notifier *notifier_open(struct attachment *attachment)
{
    assert(attachment->topics->queue_capacity <= QUEUES_MAX);
    struct notifier *notifier = calloc(1, sizeof *notifier);
    if (!notifier)
        return NULL;
    notifier->attachment = attachment;
    notifier->all = true;
    /* A predecessor's audience words name sessions that we do not know yet. Until we do, reput tells us about everything.
     * acquire: the slots before their count, here and below [T2]; relaxed: a word that is seen late names a session to ring,
     * too. */
    const uint32_t queues = atomic_load_explicit(&attachment->topics->queue_count, memory_order_acquire);
    for (uint32_t slot = 0; slot < queues; slot++)
        atomic_store_explicit(&topics_queue(attachment->topics, slot)->audience, PULL_HOLD_MANY, memory_order_relaxed);
    CRASH_POINT("notifier_opened");
    return notifier;
}

void notifier_close(struct notifier *notifier)
{
    for (uint32_t i = 0; i < SESSIONS_MAX; i++)
        free(notifier->interest[i].queues);
    for (uint32_t i = 0; i < QUEUES_MAX; i++)
        free(notifier->audience[i].slots);
    free(notifier);
}

static void publish_audience(struct notifier *notifier, uint32_t queue)
{
    const struct audience *audience = &notifier->audience[queue];
    uint64_t word = PULL_HOLD_NONE;
    if (audience->count == 1) {
        const uint32_t slot = audience->slots[0];
        word = (uint64_t)notifier->interest[slot].epoch << 32 | (slot + 1);
    } else if (audience->count > 1) {
        word = PULL_HOLD_MANY;
    }
    /* release is enough here: the full fence follows in update [I1] */
    atomic_store_explicit(&topics_queue(notifier->attachment->topics, queue)->audience, word, memory_order_release);
    CRASH_POINT("notifier_audience_published");
}

static void leave(struct notifier *notifier, uint32_t queue, uint32_t slot)
{
    struct audience *audience = &notifier->audience[queue];
    for (uint32_t i = 0; i < audience->count; i++)
        if (audience->slots[i] == slot) {
            audience->slots[i] = audience->slots[--audience->count];
            break;
        }
    publish_audience(notifier, queue);
}

static bool enter(struct notifier *notifier, uint32_t queue, uint32_t slot)
{
    struct audience *audience = &notifier->audience[queue];
    for (uint32_t i = 0; i < audience->count; i++)
        if (audience->slots[i] == slot)
            return true; /* the same queue named twice */
    if (audience->count == audience->room) {
        const uint32_t room = audience->room ? audience->room * 2 : 2;
        uint16_t *slots = realloc(audience->slots, room * sizeof *slots);
        if (!slots)
            return false;
        audience->slots = slots;
        audience->room = room;
    }
    audience->slots[audience->count++] = (uint16_t)slot;
    publish_audience(notifier, queue);
    return true;
}

static void forget(struct notifier *notifier, uint32_t slot)
{
    struct interest *interest = &notifier->interest[slot];
    const uint32_t n = interest->count;
    interest->count = 0;
    for (uint32_t i = 0; i < n; i++)
        leave(notifier, interest->queues[i], slot);
    free(interest->queues);
    memset(interest, 0, sizeof *interest);
}

/* Reads a session's list again. The version is read before the list and published after the list is acted upon: a client that
 * changes the list meanwhile raises the version again, and its bit. */
static void update(struct notifier *notifier, uint32_t slot)
{
    struct attachment *attachment = notifier->attachment;
    forget(notifier, slot);
    struct session_map *map = attachment_session(attachment, slot, attachment->control->sessions[slot].shape.epoch);
    if (!map || !map->parts.interest)
        return;
    struct session *session = map->session;
    /* acquire: the list before its version [S2] */
    const uint32_t version = atomic_load_explicit(&session->interest_version, memory_order_acquire);
    uint32_t n = atomic_load_explicit(&session->interest_count, memory_order_relaxed);
    if (n > map->shape.queue_capacity)
        n = map->shape.queue_capacity;
    const uint32_t queues = atomic_load_explicit(&attachment->topics->queue_count, memory_order_acquire); /* [T2] */
    struct interest *interest = &notifier->interest[slot];
    interest->queues = n ? malloc(n * sizeof *interest->queues) : NULL;
    if (n && !interest->queues)
        return; /* the session checks again by itself every few seconds */
    interest->epoch = map->epoch;
    for (uint32_t i = 0; i < n; i++) {
        /* relaxed: any value is bounded, and read again when its version is raised */
        const uint32_t queue = atomic_load_explicit(&map->parts.interest[i], memory_order_relaxed);
        if (queue < queues && enter(notifier, queue, slot))
            interest->queues[interest->count++] = queue;
    }
    /* seq_cst: the audience words before our ring, which is followed by the client's look [I1] */
    atomic_thread_fence(memory_order_seq_cst);
    CRASH_POINT("notifier_interests_entered");
    /* release: the words before the version that we say we have acted on */
    atomic_store_explicit(&session->interest_seen, version, memory_order_release);
    CRASH_POINT("notifier_interests_seen");
    if (bell_ring_client(&session->bell))
        count(attachment->page, COUNT_WAKES, 1);
}

/* Sessions that came, went or were replaced since the last look. */
static void look_at_sessions(struct notifier *notifier)
{
    struct attachment *attachment = notifier->attachment;
    /* acquire, here and for each state: entries before what says that they changed. Pairs with the coordinator's release [E1]. */
    const uint32_t version = atomic_load_explicit(&attachment->control->sessions_version, memory_order_acquire);
    if (version == notifier->sessions_version && !notifier->all)
        return;
    notifier->sessions_version = version;
    attachment_sweep(attachment);
    for (uint32_t slot = 0; slot < SESSIONS_MAX; slot++) {
        const struct session_entry *entry = &attachment->control->sessions[slot];
        const bool ready = atomic_load_explicit(&entry->state, memory_order_acquire) == SESSION_READY;
        const uint32_t epoch = ready ? entry->shape.epoch : 0;
        if (notifier->interest[slot].epoch && notifier->interest[slot].epoch != epoch)
            forget(notifier, slot);
        if (notifier->all && epoch)
            update(notifier, slot);
    }
    if (notifier->all) {
        notifier->all = false;
        const uint32_t queues = atomic_load_explicit(&attachment->topics->queue_count, memory_order_acquire); /* [T2] */
        for (uint32_t queue = 0; queue < queues; queue++)
            publish_audience(notifier, queue);
    }
}

static uint32_t look_at_interests(struct notifier *notifier)
{
    uint32_t updated = 0;
    for (uint32_t word = 0; word < SESSION_WORDS; word++) {
        _Atomic uint64_t *bits_at = &notifier->attachment->wake->interests[word];
        /* relaxed look first, here and in fan_out, so that an idle scan does not write */
        if (!atomic_load_explicit(bits_at, memory_order_relaxed))
            continue;
        /* seq_cst: the bit is cleared before the version is read; a client stores version before bit [S2] */
        uint64_t bits = atomic_exchange_explicit(bits_at, 0, memory_order_seq_cst);
        CRASH_POINT("notifier_interests_cleared");
        for (; bits; bits &= bits - 1, updated++)
            update(notifier, word * 64 + (uint32_t)__builtin_ctzll(bits));
    }
    return updated;
}

/* Wakes every session that waits for a dirty queue. */
static uint32_t fan_out(struct notifier *notifier)
{
    struct attachment *attachment = notifier->attachment;
    uint32_t dirty = 0, wakes = 0;
    for (uint32_t word = 0; word < QUEUE_WORDS; word++) {
        if (!atomic_load_explicit(&attachment->control->dirty[word], memory_order_relaxed))
            continue;
        /* acquire: max_offset before the bit. Pairs with reput's release [I3]. */
        uint64_t bits = atomic_exchange_explicit(&attachment->control->dirty[word], 0, memory_order_acquire);
        CRASH_POINT("notifier_dirty_cleared");
        for (; bits; bits &= bits - 1, dirty++) {
            const struct audience *audience = &notifier->audience[word * 64 + (uint32_t)__builtin_ctzll(bits)];
            for (uint32_t i = 0; i < audience->count; i++) {
                const uint32_t slot = audience->slots[i];
                struct session_map *map = attachment_session(attachment, slot, notifier->interest[slot].epoch);
                wakes += map && bell_ring_client(&map->session->bell) > 0;
                CRASH_POINT("notifier_rang");
            }
        }
    }
    count(attachment->page, COUNT_DIRTY, dirty);
    count(attachment->page, COUNT_WAKES, wakes);
    return dirty;
}

uint32_t notifier_step(struct notifier *notifier)
{
    look_at_sessions(notifier);
    const uint32_t done = look_at_interests(notifier) + fan_out(notifier);
    if (done) {
        count(notifier->attachment->page, COUNT_STEPS, 1);
        histogram_record(&notifier->attachment->page->histogram, done);
    }
    return done;
}

static bool has_news(const struct notifier *notifier)
{
    const struct attachment *attachment = notifier->attachment;
    uint64_t any = 0;
    /* acquire, after the announcement's fence [B1] */
    for (uint32_t word = 0; word < SESSION_WORDS; word++)
        any |= atomic_load_explicit(&attachment->wake->interests[word], memory_order_acquire);
    for (uint32_t word = 0; word < QUEUE_WORDS; word++)
        any |= atomic_load_explicit(&attachment->control->dirty[word], memory_order_acquire);
    /* acquire: as in look_at_sessions */
    return any || notifier->sessions_version !=
                      atomic_load_explicit(&attachment->control->sessions_version, memory_order_acquire);
}

enum run_result notifier_run(struct notifier *notifier, uint32_t limit_ms)
{
    struct attachment *attachment = notifier->attachment;
    struct bell *bell = &attachment->wake->notifier;
    const uint64_t end = clock_ms() + limit_ms;
    for (;;) {
        if (!notifier_step(notifier)) {
            const uint32_t ticket = bell_announce(bell);
            if (has_news(notifier)) {
                bell_cancel(bell, ticket);
            } else {
                count(attachment->page, COUNT_SLEEPS, 1);
                if (bell_sleep(bell, ticket, BELL_LIMIT_NS) == BELL_SIGNAL)
                    return RUN_SIGNAL;
            }
        }
        attachment_beat(attachment);
        if (clock_ms() >= end)
            return RUN_TIME;
    }
}

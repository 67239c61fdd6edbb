/* Life of a frame: claimed by sender_open, filled by sender_add, published by sender_close. A client that dies before it
 * publishes leaves nothing behind: the ring's tail has not moved, and the sequences it gave out were in its own memory.
 */
#include "client/sender.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/crash_point.h"
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define READY_FIRST (32u << 10)
#define READY_STEP (256u << 10)

static void populate(void *memory, uint64_t from, uint64_t to)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t)memory + from) & ~(page - 1), end = (uintptr_t)memory + to;
    /* If the kernel cannot do it, the faults come one by one: slower, not wrong. */
    (void)madvise((void *)begin, end - begin, MADV_POPULATE_WRITE);
}

/* The first lap comes to pages that nobody has used. They are made ready ahead of it, because a fault for each would double what a message
 * costs; but not all at once, because most producers never come to most of them. end: of what is about to be written, in the ring. */
static void make_ready(struct sender *sender, uint64_t end)
{
    const uint64_t ready = sender->ready, step = ready < READY_FIRST ? READY_FIRST : ready > READY_STEP ? READY_STEP : ready;
    const uint64_t capacity = sender->shape.sq_capacity, slots = sizeof(struct completion) * (uint64_t)sender->shape.window;
    uint64_t to = end > ready + step ? end : ready + step;
    if (to > capacity)
        to = capacity;
    populate(sender->parts.sq->data, ready, to);
    /* Their verdicts take less than twice as much: 32 bytes for a message of 24 at least. */
    if (2 * ready < slots)
        populate(sender->parts.slots, 2 * ready, 2 * to < slots ? 2 * to : slots);
    sender->ready = to;
}

static void *claim(struct sender *sender, uint64_t payload)
{
    uint8_t *const at = ring_claim(&sender->sq, (uint32_t)payload);
    const uint64_t end = at ? (uint64_t)(at - sender->parts.sq->data) + payload : 0;
    if (end > sender->ready)
        make_ready(sender, end);
    return at;
}

void sender_attach(struct sender *sender, struct session *session, const struct session_shape *shape,
                   const struct control *control, const struct topics *topics, struct wake *wake, int supervisor)
{
    assert(shape->window && shape->slot < SESSIONS_MAX);
    memset(sender, 0, sizeof *sender);
    sender->session = session;
    sender->control = control;
    sender->topics = topics;
    sender->wake = wake;
    sender->shape = *shape;
    sender->supervisor = supervisor;
    session_parts(session, shape, &sender->parts);
    ring_producer_attach(&sender->sq, sender->parts.sq, shape->sq_capacity);
    /* A session starts empty. Taking its word for the start lets a test attach to a used one. */
    sender->submitted = sender->settled = sender_completed(sender);
}

static void begin_frame(struct sender *sender, struct send_frame *frame, uint32_t topic, uint32_t flags, uint64_t born_ms, uint32_t room)
{
    *frame = (struct send_frame){
        .topic = topic,
        .topic_hash = sender->topics->topic[topic].hash,
        .flags = flags,
        .born_ms = born_ms,
    };
    sender->frame = frame;
    sender->frame_used = 0;
    sender->frame_room = room;
}

enum sender_result sender_open(struct sender *sender, uint32_t topic, uint32_t flags, uint64_t born_ms, uint32_t room)
{
    assert(!sender->frame && topic < sender->topics->topic_capacity);
    const uint64_t payload = sizeof(struct send_frame) + (uint64_t)room;
    if (ring_stride(payload) > sender->shape.sq_capacity / 2)
        return SENDER_TOO_LARGE;
    if (sender->submitted - sender->settled >= sender->shape.window)
        return SENDER_WINDOW_FULL;
    if (sender->keeps && !sender_kept_room(sender, payload))
        return SENDER_RING_FULL;
    struct send_frame *frame = claim(sender, payload);
    if (!frame)
        return SENDER_RING_FULL;
    sender->before = sender->submitted;
    sender->atomic = NULL;
    begin_frame(sender, frame, topic, flags, born_ms, room);
    CRASH_POINT("sender_claimed");
    return SENDER_OK;
}

enum sender_result sender_open_atomic(struct sender *sender, uint32_t count, uint32_t room)
{
    assert(!sender->frame && count > 0);
    const uint64_t payload = sizeof(struct send_atomic) + (uint64_t)room;
    if (ring_stride(payload) > sender->shape.sq_capacity / 2 || count > sender->shape.window)
        return SENDER_TOO_LARGE;
    if (sender->submitted - sender->settled + count > sender->shape.window)
        return SENDER_WINDOW_FULL;
    if (sender->keeps && !sender_kept_room(sender, payload))
        return SENDER_RING_FULL;
    struct send_atomic *atomic = claim(sender, payload);
    if (!atomic)
        return SENDER_RING_FULL;
    *atomic = (struct send_atomic){.count = count};
    sender->atomic = atomic;
    sender->before = sender->submitted;
    sender->atomic_room = room;
    CRASH_POINT("sender_atomic_claimed");
    return SENDER_OK;
}

void sender_atomic_frame(struct sender *sender, uint32_t topic, uint32_t flags, uint64_t born_ms)
{
    struct send_atomic *atomic = sender->atomic;
    assert(atomic);
    uint8_t *at = sender->frame ? (uint8_t *)(sender->frame + 1) + sender->frame_used : (uint8_t *)(atomic + 1);
    const uint64_t used = (uint64_t)(at - (uint8_t *)(atomic + 1)) + sizeof(struct send_frame);
    assert(used <= sender->atomic_room);
    begin_frame(sender, (struct send_frame *)(void *)at, topic, flags, born_ms, sender->atomic_room - (uint32_t)used);
    atomic->frames++;
}

void sender_born(struct sender *sender, const struct record_host *host)
{
    struct send_frame *frame = sender->frame;
    assert(frame && !frame->count && !sender->frame_used && sizeof *host <= sender->frame_room && !sender->keeps);
    memcpy(frame + 1, host, sizeof *host);
    frame->flags |= SEND_BORN;
    sender->frame_used = sizeof *host;
}

uint8_t *sender_add(struct sender *sender, const struct send_message *message)
{
    const uint64_t stride = send_message_stride(message->properties_size, message->body_size);
    if (stride > sender->frame_room - sender->frame_used || sender->submitted - sender->settled >= sender->shape.window)
        return NULL;
    uint8_t *at = (uint8_t *)(sender->frame + 1) + sender->frame_used;
    /* The last word first: the body overwrites all of it except the padding, which so becomes zero without a branch. */
    memset(at + stride - 8, 0, 8);
    memcpy(at, message, sizeof *message);
    sender->frame_used += (uint32_t)stride;
    sender->frame->count++;
    sender->submitted++;
    CRASH_POINT("sender_added");
    return at + sizeof *message;
}

/* Tells the handler that this session has news.
 *
 * The fence stands between our publication and our look at the bit; the handler's clearing of the bit stands before its
 * look at the ring. So either it sees the frame, or we see the bit clear and set it [N1]. A bit that is still set was set
 * by an earlier frame of this session, and whoever set it has rung, or rings before it lets go of the session's lock.
 */
static void tell_handler(struct sender *sender)
{
    const uint32_t lane = session_lane(&sender->control->settings, sender->shape.slot);
    _Atomic uint64_t *word = &sender->wake->news[lane][sender->shape.slot / 64];
    const uint64_t bit = UINT64_C(1) << (sender->shape.slot % 64);
    atomic_thread_fence(memory_order_seq_cst); /* [N1] */
    /* relaxed: ordered by the fence */
    if (atomic_load_explicit(word, memory_order_relaxed) & bit)
        return;
    /* release: the frame before the bit. Pairs with the exchange in the handler's collect [N1]. */
    atomic_fetch_or_explicit(word, bit, memory_order_release);
    CRASH_POINT("sender_news_set");
    bell_ring(&sender->wake->handler[lane]);
}

void sender_close(struct sender *sender)
{
    struct send_frame *frame = sender->frame;
    struct send_atomic *atomic = sender->atomic;
    assert(frame);
    sender->frame = NULL;
    sender->atomic = NULL;
    if (frame->count == 0)
        return; /* the next claim replaces this one */
    const uint8_t *end = (const uint8_t *)(frame + 1) + sender->frame_used;
    assert(!atomic || sender->submitted - sender->before == atomic->count);
    if (atomic)
        ring_commit(&sender->sq, (uint32_t)(end - (const uint8_t *)atomic), SQ_ATOMIC);
    else
        ring_commit(&sender->sq, (uint32_t)(end - (const uint8_t *)frame), SQ_SEND);
    CRASH_POINT("sender_committed");
    ring_publish(&sender->sq);
    CRASH_POINT("sender_published");
    if (frame->flags & SEND_FLUSH)
        sender->flush_through = sender->submitted;
    tell_handler(sender);
    CRASH_POINT("sender_rang");
}

void sender_void(struct sender *sender)
{
    if (!sender->frame && !sender->atomic)
        return;
    sender->submitted = sender->before;
    sender->frame = NULL;
    sender->atomic = NULL;
}

bool sender_alive(const struct sender *sender)
{
    /* relaxed, both: a reader of an old value looks again within BELL_LIMIT_NS */
    if (atomic_load_explicit(&sender->control->tree_state, memory_order_relaxed) == TREE_STOPPED)
        return false;
    const struct session_entry *entry = &sender->control->sessions[sender->shape.slot];
    const uint32_t state = atomic_load_explicit(&entry->state, memory_order_relaxed);
    if (state == SESSION_FREE || state == SESSION_FAULTY || state == SESSION_LOST ||
        entry->shape.epoch != sender->shape.epoch)
        return false;
    if (sender->supervisor < 0)
        return true;
    struct pollfd watched = {.fd = sender->supervisor, .events = POLLIN};
    return poll(&watched, 1, 0) <= 0;
}

bool sender_spin(const struct sender *sender, uint64_t sequence, uint64_t limit_ns)
{
    if (sender_completed(sender) >= sequence)
        return true;
    if (!cpu_several() || control_crowded(sender->control))
        return false;
    const uint64_t start = clock_ns();
    do {
        /* The handler or the writer may have been woken on this very processor: without the yield it would wait until our
         * spinning is over (measured at 1,000 sends a second on two processors: p50 112 us without, 34 us with). */
        sched_yield();
        for (int i = 0; i < 16; i++) {
            cpu_pause();
            if (sender_completed(sender) >= sequence)
                return true;
        }
    } while (clock_ns() - start < limit_ns);
    return false;
}

/* What a sleeping sender waits for. The kinds differ in the place of the news and in the bell that is rung for it. */
struct awaited {
    enum { AWAIT_VERDICT, AWAIT_ROOM, AWAIT_FLUSHED } kind;
    uint64_t target; /* sequence, or end in the log */
    uint64_t head;   /* AWAIT_ROOM */
};

static enum sender_result look(const struct sender *sender, const struct awaited *awaited)
{
    if (awaited->kind == AWAIT_FLUSHED) {
        const struct position *flushed = &sender->control->flushed;
        /* acquire: none of our data depends on it, but a receipt must not be older than what it says. Pairs with the flush
         * service's release of the position [F1]. */
        if (atomic_load_explicit(&flushed->value, memory_order_acquire) >= awaited->target)
            return SENDER_OK;
        /* relaxed: an error only ends the wait sooner */
        return atomic_load_explicit(&flushed->error, memory_order_relaxed) ? SENDER_STOPPED : SENDER_TIMEOUT;
    }
    if (sender_completed(sender) >= awaited->target)
        return SENDER_OK;
    /* relaxed: ring_claim looks again with acquire before it uses the room */
    if (awaited->kind == AWAIT_ROOM && awaited->head != SENDER_NO_HEAD &&
        atomic_load_explicit(&sender->parts.sq->head.position, memory_order_relaxed) != awaited->head)
        return SENDER_OK;
    return SENDER_TIMEOUT; /* not yet */
}

/* Sleeps until look() has an answer. */
static enum sender_result sleep_for(struct sender *sender, const struct awaited *awaited, struct bell *bell, uint64_t timeout_ns)
{
    const uint64_t start = clock_ns();
    bool alive = true; /* asked only after a sleep that timed out, because asking takes a system call */
    for (;;) {
        const uint32_t ticket = bell_announce(bell);
        /* After the look at alive, so that what a dying tree did last is still seen. */
        const enum sender_result result = look(sender, awaited);
        const uint64_t passed = clock_ns() - start;
        if (result != SENDER_TIMEOUT || !alive || passed >= timeout_ns) {
            bell_cancel(bell, ticket);
            return result == SENDER_TIMEOUT && !alive ? SENDER_GONE : result;
        }
        uint64_t limit = timeout_ns - passed;
        if (limit > BELL_LIMIT_NS)
            limit = BELL_LIMIT_NS;
        switch (bell_sleep(bell, ticket, limit)) {
        case BELL_SIGNAL:
            return SENDER_SIGNAL;
        case BELL_TIMEOUT:
            alive = sender_alive(sender);
            break;
        case BELL_RUNG:
            break;
        }
    }
}

enum sender_result sender_wait(struct sender *sender, uint64_t sequence, uint64_t timeout_ns)
{
    const uint64_t spin_ns = timeout_ns < SENDER_SPIN_NS ? timeout_ns : SENDER_SPIN_NS;
    if (sender_completed(sender) >= sequence)
        return SENDER_OK;
    if (timeout_ns == 0)
        return SENDER_TIMEOUT;
    if (sender_spin(sender, sequence, spin_ns))
        return SENDER_OK;
    const struct awaited awaited = {.kind = AWAIT_VERDICT, .target = sequence};
    /* In a crowd that waits for the disk one ring answers both questions: when the disk has it, the verdict is there. A refusal
     * has no sync of its own, but the others' come all the time. */
    const bool with_disk = sequence <= sender->flush_through && control_crowded(sender->control);
    struct bell *bell = with_disk ? &sender->wake->flushed : &sender->session->bell;
    return sleep_for(sender, &awaited, bell, timeout_ns - spin_ns);
}

enum sender_result sender_wait_flushed(struct sender *sender, uint64_t end, uint64_t timeout_ns)
{
    const struct awaited awaited = {.kind = AWAIT_FLUSHED, .target = end};
    enum sender_result result = look(sender, &awaited);
    if (result != SENDER_TIMEOUT || timeout_ns == 0)
        return result;
    /* A lone sender saves its wake-up. If others sleep already, they share the disk, and should share the processors too. */
    if (cpu_several() && !control_crowded(sender->control)) {
        const uint64_t start = clock_ns();
        while (clock_ns() - start < SENDER_FLUSH_SPIN_NS) {
            sched_yield();
            result = look(sender, &awaited);
            if (result != SENDER_TIMEOUT)
                return result;
        }
    }
    return sleep_for(sender, &awaited, &sender->wake->flushed, timeout_ns);
}

enum sender_result sender_wait_room(struct sender *sender, uint64_t sequence, uint64_t head, uint64_t timeout_ns)
{
    const struct awaited awaited = {.kind = AWAIT_ROOM, .target = sequence, .head = head};
    enum sender_result result = look(sender, &awaited);
    if (result != SENDER_TIMEOUT || timeout_ns == 0)
        return result;
    /* relaxed: the announcement's fence orders it before the look at the head; the handler rings only where it is raised [M2] */
    atomic_fetch_add_explicit(&sender->session->stalled, 1, memory_order_relaxed);
    result = sleep_for(sender, &awaited, &sender->session->bell, timeout_ns);
    atomic_fetch_sub_explicit(&sender->session->stalled, 1, memory_order_relaxed);
    return result;
}

struct completion sender_verdict(const struct sender *sender, uint64_t sequence)
{
    assert(sequence > sender->settled && sequence <= sender->submitted);
    return sender->parts.slots[(sequence - 1) & (sender->shape.window - 1)];
}

void sender_settle(struct sender *sender, uint64_t sequence)
{
    assert(sequence >= sender->settled && sequence <= sender->submitted);
    sender->settled = sequence;
    if (sender->keeps)
        sender_let_go(sender);
    CRASH_POINT("sender_settled");
}

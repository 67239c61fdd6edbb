/* One session as the producer holds it, and the messages in flight on it.
 *
 * A completion slot is used again `window` messages later, so verdicts are copied out before. link_harvest walks the runs from
 * the oldest, gives each its verdicts, and frees the slots. Nothing is searched; a batch's verdicts are one memcpy.
 */
#include "python/producer/batch.h"

#include <string.h>

static int read_number(PyObject *handle, const char *name, uint64_t *value)
{
    PyObject *number = PyObject_GetAttrString(handle, name);
    if (!number)
        return -1;
    *value = PyLong_AsUnsignedLongLongMask(number); /* supervisor_fd may be -1 */
    Py_DECREF(number);
    return PyErr_Occurred() ? -1 : 0;
}

struct link *link_open(PyObject *handle)
{
    uint64_t session, size, control, topics, wake, supervisor, slot, epoch, window, sq_capacity, message_max, pid;
    if (read_number(handle, "address", &session) < 0 || read_number(handle, "size", &size) < 0 ||
        read_number(handle, "control_address", &control) < 0 || read_number(handle, "topics_address", &topics) < 0 ||
        read_number(handle, "wake_address", &wake) < 0 || read_number(handle, "supervisor_fd", &supervisor) < 0 ||
        read_number(handle, "slot", &slot) < 0 || read_number(handle, "epoch", &epoch) < 0 ||
        read_number(handle, "window", &window) < 0 || read_number(handle, "sq_capacity", &sq_capacity) < 0 ||
        read_number(handle, "message_max", &message_max) < 0 || read_number(handle, "pid", &pid) < 0)
        return NULL;
    uint64_t queue_capacity;
    if (read_number(handle, "queue_capacity", &queue_capacity) < 0)
        return NULL;
    const struct session_shape shape = {
        .slot = (uint32_t)slot, .epoch = (uint32_t)epoch, .window = (uint32_t)window,
        .queue_capacity = (uint32_t)queue_capacity, .sq_capacity = sq_capacity, .message_max = (uint32_t)message_max,
        .pid = (uint32_t)pid,
    };
    if (!session || !control || !topics || !wake || slot >= SESSIONS_MAX || window == 0 || window > SESSION_WINDOW_MAX ||
        (window & (window - 1)) || !ring_capacity_good(sq_capacity) || size < session_size(&shape))
        return py_raise("ProtocolError", NULL, NULL, "could not use session %u: its layout is not that of a producer's session",
                          shape.slot);

    struct link *link = PyMem_Calloc(1, sizeof *link);
    struct run *runs = PyMem_Calloc(window, sizeof *runs);
    if (!link || !runs) {
        PyMem_Free(link);
        PyMem_Free(runs);
        return (struct link *)PyErr_NoMemory();
    }
    sender_attach(&link->sender, (struct session *)(uintptr_t)session, &shape, (const struct control *)(uintptr_t)control,
                  (const struct topics *)(uintptr_t)topics, (struct wake *)(uintptr_t)wake, (int)(int64_t)supervisor);
    link->runs = runs;
    link->forks = py_forks();
    link->users = 1;
    Py_INCREF(handle);
    link->handle = handle;
    return link;
}

void link_release(struct link *link)
{
    if (--link->users > 0)
        return;
    /* May be called while a failed call returns: its exception must survive. */
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *close = PyObject_GetAttrString(link->handle, link->leaves ? "leave" : "close");
    PyObject *result = close ? PyObject_CallNoArgs(close) : NULL;
    if (!result)
        PyErr_WriteUnraisable(link->handle);
    Py_XDECREF(result);
    Py_XDECREF(close);
    Py_DECREF(link->handle);
    PyErr_Restore(type, value, traceback);
    PyMem_Free(link->runs);
    PyMem_Free(link);
}

static struct run *run_at(const struct link *link, uint64_t number)
{
    return &link->runs[number & (link->sender.shape.window - 1)];
}

uint64_t link_push(struct link *link, enum run_kind kind, void *owner, uint32_t index, uint32_t count)
{
    /* The newest frame is theirs. */
    const bool durable = link->sender.flush_through == link->sender.submitted;
    if (kind == RUN_ONEWAY && link->run_tail > link->run_head) {
        struct run *last = run_at(link, link->run_tail - 1);
        if (last->kind == RUN_ONEWAY && last->durable == durable) {
            last->count += count;
            return link->run_tail - 1;
        }
    }
    assert(link->run_tail - link->run_head < link->sender.shape.window);
    *run_at(link, link->run_tail) = (struct run){.kind = kind, .durable = durable, .count = count, .index = index, .owner = owner};
    return link->run_tail++;
}

/* How many of these verdicts of messages that wait for the disk count already. The others do when the disk has reached disk_end; until then
 * the messages are kept, since only sending them again tells what became of them if the tree dies. */
static uint64_t on_disk(struct link *link, const struct completion *verdicts, uint64_t count)
{
    const struct position *flushed = &link->sender.control->flushed;
    /* relaxed: it only ends a wait */
    if (atomic_load_explicit(&flushed->error, memory_order_relaxed))
        return count;
    const uint64_t there = atomic_load_explicit(&flushed->value, memory_order_acquire); /* acquire: as in sender.c */
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t end = verdicts[i].physical_offset + verdicts[i].size;
        if (verdict_stored(verdicts[i].code) && end > there) {
            link->disk_end = end;
            return i;
        }
    }
    return count;
}

static bool waited_for_disk(const struct link *link, const struct run *run)
{
    return run->durable && link->sender.keeps && !atomic_load_explicit(&link->sender.control->flushed.error, memory_order_relaxed);
}

static void deliver(struct link *link, const struct run *run, const struct completion *verdicts, uint32_t count)
{
    switch (run->kind) {
    case RUN_ONEWAY:
        for (uint32_t i = 0; i < count; i++)
            link->failed += !verdict_stored(verdicts[i].code);
        break;
    case RUN_PENDING:
        ((Pending *)run->owner)->verdict = verdicts[0];
        ((Pending *)run->owner)->on_disk = waited_for_disk(link, run);
        break;
    case RUN_BATCH:
        batch_deliver(run->owner, run->index, verdicts, count, waited_for_disk(link, run));
        break;
    }
}

void link_harvest(struct link *link)
{
    struct sender *sender = &link->sender;
    const uint32_t window = sender->shape.window;
    uint64_t completed = sender_completed(sender);
    if (completed > sender->submitted)
        completed = sender->submitted; /* `completed` is in memory that a stray write of ours could have hit */
    uint64_t settled = sender->settled;
    link->disk_end = 0;
    while (settled < completed) {
        struct run *run = run_at(link, link->run_head);
        const uint32_t at = (uint32_t)(settled & (window - 1));
        uint64_t count = completed - settled;
        if (count > run->count)
            count = run->count;
        if (count > window - at)
            count = window - at; /* the slots wrap here */
        if (sender->keeps && run->durable && !(count = on_disk(link, &sender->parts.slots[at], count)))
            break;
        deliver(link, run, &sender->parts.slots[at], (uint32_t)count);
        settled += count;
        run->index += (uint32_t)count;
        run->count -= (uint32_t)count;
        if (run->count == 0)
            link->run_head++;
    }
    sender_settle(sender, settled);
}

void link_lose(struct link *link, uint32_t code)
{
    for (; link->run_head < link->run_tail; link->run_head++) {
        const struct run *run = run_at(link, link->run_head);
        switch (run->kind) {
        case RUN_ONEWAY:
            link->failed += run->count;
            break;
        case RUN_PENDING:
            ((Pending *)run->owner)->verdict.code = code;
            break;
        case RUN_BATCH:
            batch_lose(run->owner, code);
            break;
        }
    }
    sender_settle(&link->sender, link->sender.submitted);
}

void link_disown(struct link *link, void *owner)
{
    for (uint64_t number = link->run_head; number < link->run_tail; number++) {
        struct run *run = run_at(link, number);
        if (run->owner == owner) {
            run->owner = NULL;
            run->kind = RUN_ONEWAY;
        }
    }
}

static void move(const struct run *run, uint64_t number, uint64_t sequence, uint64_t life)
{
    if (run->kind == RUN_PENDING) {
        Pending *pending = run->owner;
        pending->run = number;
        pending->sequence = sequence;
        pending->life = life;
    } else if (run->kind == RUN_BATCH) {
        Batch *batch = run->owner;
        batch->sequence = sequence;
        batch->life = life;
    }
}

void link_move(struct link *link, struct link *from, uint32_t count, bool sent, uint64_t life)
{
    uint64_t sequence = link->sender.submitted - (sent ? count : 0);
    while (count > 0) {
        struct run *run = run_at(from, from->run_head);
        const uint32_t some = run->count < count ? run->count : count;
        if (sent) {
            sequence += some;
            move(run, link_push(link, run->kind, run->owner, run->index, some), sequence, life);
        } else {
            const struct completion lost = {.code = VERDICT_LOST};
            for (uint32_t i = 0; i < some; i++) {
                const struct run one = {.kind = run->kind, .owner = run->owner, .index = run->index + i, .count = 1};
                deliver(from, &one, &lost, 1);
            }
        }
        run->index += some;
        run->count -= some;
        count -= some;
        if (run->count == 0)
            from->run_head++;
    }
}

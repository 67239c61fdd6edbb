/* The producer's connection to the broker: its session, the topic table, and the waits. A session is opened when the first send
 * needs one, and again after a fork or the tree's death; until then the producer simply has none.
 */
#include "python/producer/producer.h"

#include "base/clock.h"
#include "format/delay.h"
#include "format/transaction.h"
#include <time.h>

#define LOOK_MS 100u          /* how often a sender checks that the tree is alive */
#define HELD_SPIN_NS 25000u   /* spin under the interpreter's lock: another thread would keep us out for 5 ms */
#define CONTENDED_NS 1000000u /* if getting the interpreter's lock back took longer, another thread computes under it */
#define HANDOVER_NS 50000u    /* how long such a thread is given to take the lock, before we ask for it again */
#define SLICE_NS BELL_LIMIT_NS /* longest wait without a look at what other threads of ours did, such as close() */

uint64_t deadline_after(uint64_t timeout_ns)
{
    const uint64_t now = clock_ns();
    return timeout_ns > FOREVER - now ? FOREVER : now + timeout_ns;
}

uint64_t born_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void producer_lock(struct link *link)
{
    for (;;) {
        switch (lock_acquire(&link->sender.session->lock, 0)) {
        case LOCK_STOLEN:
            sender_void(&link->sender);
            return;
        case LOCK_TAKEN:
            return;
        default:
            break; /* a signal: its handler waits for the end of this call anyway */
        }
    }
}

void producer_unlock(struct link *link) { lock_release(&link->sender.session->lock); }

/* ---- the session ---- */

void producer_forget_topics(Producer *self)
{
    for (uint32_t i = 0; i < TOPIC_CACHE; i++)
        Py_CLEAR(self->topics[i].name);
    PyMem_Free(self->next_queue);
    self->next_queue = NULL;
}

uint64_t producer_flushed(const Producer *self)
{
    /* acquire: as in sender.c */
    return self->link ? atomic_load_explicit(&self->link->sender.control->flushed.value, memory_order_acquire) : 0;
}

uint32_t producer_flush_error(const Producer *self)
{
    /* relaxed: it only ends a wait */
    return self->link ? atomic_load_explicit(&self->link->sender.control->flushed.error, memory_order_relaxed) : 0;
}

void producer_retire(Producer *self, uint32_t code)
{
    struct link *link = self->link;
    if (!link) {
        if (self->closed || code == VERDICT_FORKED)
            producer_give_up(self, code);
        return;
    }
    if (code == VERDICT_FORKED)
        link->users = 1; /* the parent's waiting threads do not exist here */
    else
        link_harvest(link);
    self->flushed_before = producer_flushed(self);
    self->link = NULL;
    if (code == VERDICT_LOST && link->sender.keeps && !self->closed && link->sender.settled < link->sender.submitted) {
        self->stranded = link; /* there was nothing: the session began with it */
        producer_forget_topics(self);
        return;
    }
    link_lose(link, code);
    if (code != VERDICT_FORKED) /* otherwise its messages are the parent's to count */
        self->failed += link->failed;
    producer_forget_topics(self);
    link_release(link);
}

PyObject *producer_attach(Producer *self, PyObject *handle)
{
    struct link *link = link_open(handle);
    if (!link)
        return NULL;
    if (self->closed || (self->link && self->link->forks == py_forks())) {
        link_release(link); /* another thread was faster */
        Py_RETURN_NONE;
    }
    const struct settings *settings = &link->sender.control->settings;
    PyObject *host = PyBytes_FromStringAndSize((const char *)settings->store_host.data, settings->store_host.size);
    uint32_t *turns = PyMem_Calloc(link->sender.topics->topic_capacity, sizeof *turns);
    if (!host || !turns) {
        Py_XDECREF(host);
        PyMem_Free(turns);
        link_release(link);
        return PyErr_NoMemory();
    }
    if (self->link || (self->stranded && self->stranded->forks != py_forks()))
        producer_retire(self, VERDICT_FORKED);
    self->link = link;
    if (self->name_size)
        sender_keep(&link->sender);
    Py_XDECREF(self->host);
    self->host = host;
    self->flush_every = settings->flush_every_message != 0;
    self->next_queue = turns;
    self->life++;
    self->looked_ms = 0;
    producer_resend(self);
    Py_RETURN_NONE;
}

bool producer_look(Producer *self)
{
    struct link *link = self->link, *flight = producer_flight(self);
    if (flight && flight->forks != py_forks())
        producer_retire(self, VERDICT_FORKED); /* the session is our parent's */
    else if (link)
        link_harvest(link);
    return self->link != NULL;
}

static int open_session(Producer *self)
{
    while (!self->closed) {
        PyObject *result = PyObject_CallMethod((PyObject *)self, "_reopen", NULL);
        if (!result)
            return -1;
        Py_DECREF(result);
        if (self->link)
            return 0;
        /* Its tree has died already, and another thread, or a look at it, has let the session go. */
    }
    py_raise("Closed", "make another one", NULL, "could not send: this producer was closed");
    return -1;
}

bool producer_usable(Producer *self, uint64_t now_ms)
{
    struct link *link = self->link, *flight = producer_flight(self);
    if (flight && flight->forks != py_forks())
        producer_retire(self, VERDICT_FORKED);
    else if (link && now_ms - self->looked_ms > LOOK_MS) { /* also when the clock was set back */
        self->looked_ms = now_ms;
        if (!sender_alive(&link->sender))
            producer_retire(self, VERDICT_LOST);
    }
    return self->link != NULL;
}

bool producer_stopping(const Producer *self)
{
    /* relaxed: the state only moves on, and if a send slips past it, the tree's end answers it */
    return atomic_load_explicit(&self->link->sender.control->tree_state, memory_order_relaxed) >= TREE_STOPPING;
}

/* Waits for the tree that comes after the one that is stopping. The session is kept until then, for the messages in flight. 0,
 * or -1 with an exception. */
static int outlast_stop(Producer *self)
{
    const uint64_t life = self->life;
    PyObject *result = PyObject_CallMethod((PyObject *)self, "_outlast", NULL);
    if (!result)
        return -1;
    Py_DECREF(result);
    if (self->life == life) /* otherwise another thread has opened the next session already */
        producer_retire(self, VERDICT_LOST);
    return 0;
}

int producer_ready(Producer *self, uint64_t now_ms)
{
    while (producer_usable(self, now_ms)) {
        if (!producer_stopping(self))
            return 0;
        if (!self->rides) {
            py_raise("BrokerStopped", "the message is not stored; send it again when a broker runs", NULL,
                     "could not send: the broker is stopping");
            return -1;
        }
        if (outlast_stop(self) < 0)
            return -1;
    }
    return open_session(self);
}

int producer_delays(Producer *self, const struct later *later)
{
    const char *topic = later->own == SEND_OFFSETS ? COMMITS_TOPIC : later->own ? OP_TOPIC : later->at_ms || later->cancels ? TIMER_TOPIC : DELAY_TOPIC;
    if (topics_find(self->link->sender.topics, (const uint8_t *)topic, (uint32_t)strlen(topic)) != TOPIC_NONE)
        return 0;
    PyObject *done = PyObject_CallMethod((PyObject *)self, "_prepare_waiting", "s", topic);
    Py_XDECREF(done);
    /* Another thread may have changed the session meanwhile. If the topic is missing still, the handler says why nothing is stored. */
    return done ? producer_ready(self, born_now()) : -1;
}

uint32_t producer_topic(Producer *self, PyObject *name)
{
    struct topic_memo *memo = &self->topics[((uintptr_t)name >> 4) % TOPIC_CACHE];
    if (memo->name == name)
        return memo->index;
    if (!PyUnicode_Check(name)) {
        PyErr_Format(PyExc_TypeError, "topic must be str, not %R", (PyObject *)Py_TYPE(name));
        return TOPIC_NONE;
    }
    Py_ssize_t length;
    const uint8_t *text = (const uint8_t *)py_utf8(name, "TopicNameError", "topic name", &length);
    if (!text)
        return TOPIC_NONE;
    const uint32_t size = length > (Py_ssize_t)UINT32_MAX ? UINT32_MAX : (uint32_t)length;
    uint32_t at, index = TOPIC_NONE;
    switch (topic_name_check(text, size, &at)) {
    case TOPIC_NAME_GOOD:
        index = topics_find(self->link->sender.topics, text, size);
        if (index == TOPIC_NONE)
            verdict_unknown_topic(self, name);
        break;
    case TOPIC_NAME_EMPTY:
        py_raise("TopicNameError", NULL, Py_BuildValue("{s:O}", "topic", name), "could not use an empty topic name");
        break;
    case TOPIC_NAME_LONG:
        py_raise("TopicNameError", NULL, Py_BuildValue("{s:O,s:n,s:I}", "topic", name, "size", length, "limit", TOPIC_NAME_MAX),
                   "could not use a topic name of %zd bytes: the limit is %u", length, TOPIC_NAME_MAX);
        break;
    case TOPIC_NAME_CHARACTER:
        py_raise("TopicNameError", "use letters, digits and % | _ -", Py_BuildValue("{s:O,s:I}", "topic", name, "at", at),
                   "could not use topic name %R: the character at byte %u is not allowed", name, at);
        break;
    }
    /* Letting go of an object of a derived class later may run its finalizer, in the middle of a send: it could end our session. */
    if (index == TOPIC_NONE || !PyUnicode_CheckExact(name))
        return index;
    Py_INCREF(name);
    Py_XDECREF(memo->name);
    *memo = (struct topic_memo){.name = name, .index = index};
    return index;
}

/* ---- waits: the only places that give up the interpreter's lock ---- */

enum producer_wait producer_wait_unlocked(Producer *self, enum wait_for what, uint64_t target, uint64_t head, uint64_t deadline_ns)
{
    struct link *link = self->link;
    if (!link)
        return producer_resume(self, deadline_ns);
    if (link->disk_end && what != WAIT_FLUSHED && sender_completed(&link->sender) >= target) {
        what = WAIT_FLUSHED; /* the verdict has come, and counts only then */
        target = link->disk_end;
    }
    const uint64_t now = clock_ns();
    uint64_t limit_ns = deadline_ns > now ? deadline_ns - now : 0;
    /* A thread that computes under the interpreter's lock keeps it for 5 ms from when we ask for it, and room comes meanwhile.
     * Waiting for room first would mean waiting twice. */
    const uint64_t slice_ns = what == WAIT_ROOM && self->regain_ns > CONTENDED_NS ? HANDOVER_NS : SLICE_NS;
    const bool last = limit_ns <= slice_ns;
    if (!last)
        limit_ns = slice_ns;
    enum sender_result result = SENDER_TIMEOUT;
    uint64_t asked_ns;
    link->users++;
    Py_BEGIN_ALLOW_THREADS
    switch (what) {
    case WAIT_VERDICT:
        result = sender_wait(&link->sender, target, limit_ns);
        break;
    case WAIT_FLUSHED:
        result = sender_wait_flushed(&link->sender, target, limit_ns);
        break;
    case WAIT_ROOM:
        result = sender_wait_room(&link->sender, target, head, limit_ns);
        break;
    }
    asked_ns = clock_ns();
    Py_END_ALLOW_THREADS
    self->regain_ns = clock_ns() - asked_ns;
    if (result == SENDER_GONE && self->link == link)
        producer_retire(self, VERDICT_LOST);
    link_release(link);
    switch (result) {
    case SENDER_STOPPED:
        return PRODUCER_STOPPED;
    case SENDER_OK:
        if (what != WAIT_ROOM)
            return PRODUCER_AGAIN; /* the caller has what it waited for, and Python handles signals when it returns */
        break;
    case SENDER_TIMEOUT:
        if (last)
            return PRODUCER_TIMEOUT;
        break;
    default:
        break;
    }
    /* After every slice: a signal that came just before a sleep, or to another thread, interrupted no system call of ours. */
    return PyErr_CheckSignals() < 0 ? PRODUCER_ERROR : PRODUCER_AGAIN;
}

enum producer_wait producer_wait_verdict(Producer *self, uint64_t sequence, uint64_t deadline_ns)
{
    if (self->link && !self->link->disk_end && sender_spin(&self->link->sender, sequence, HELD_SPIN_NS))
        return PRODUCER_AGAIN;
    return producer_wait_unlocked(self, WAIT_VERDICT, sequence, 0, deadline_ns);
}

/* Waits for room for `wanted` messages, or a quarter of those in flight: enough to share a waker's 5 us among many, little
 * enough that the broker does not run dry meanwhile. But at least for `least`, which come together. */
static enum producer_wait wait_room(Producer *self, enum sender_result why, uint32_t wanted, uint32_t least, uint64_t deadline_ns)
{
    const struct sender *sender = &self->link->sender;
    const uint64_t in_flight = sender->submitted - sender->settled;
    const uint64_t quarter = (in_flight + 3) / 4;
    uint64_t count = wanted < quarter ? wanted : quarter;
    if (why == SENDER_WINDOW_FULL && in_flight + least > sender->shape.window + count)
        count = in_flight + least - sender->shape.window;
    if (count == 0)
        count = 1; /* nothing in flight: only the ring's head can move */
    return producer_wait_unlocked(self, WAIT_ROOM, sender->settled + count,
                         why == SENDER_RING_FULL && !sender->keeps ? sender->sq.head_seen : SENDER_NO_HEAD, deadline_ns);
}

int producer_make_room(Producer *self, enum sender_result why, PyObject *topic, uint32_t wanted, uint32_t least, bool wait,
                       uint64_t timeout_ns, uint64_t *deadline_ns)
{
    const struct sender *sender = &self->link->sender;
    const uint32_t window = sender->shape.window;
    const uint64_t sq_capacity = sender->shape.sq_capacity;
    link_harvest(self->link);
    if (why == SENDER_WINDOW_FULL && sender->submitted - sender->settled + least <= window)
        return 0;
    if (why == SENDER_TOO_LARGE) {
        py_raise("MessageTooLarge", "raise {message_max of producer}",
                   Py_BuildValue("{s:O,s:K}", "topic", topic, "limit", (unsigned long long)sq_capacity / 2),
                   "could not send to topic %R: the message passes half of the submission ring", topic);
        return -1;
    }
    const char *limit = why == SENDER_WINDOW_FULL ? "window" : "ring";
    if (!wait && why == SENDER_WINDOW_FULL && least > 1) {
        py_raise("Full", "raise {window of producer} || send less at once || use {on_full=wait of producer}",
                   Py_BuildValue("{s:O,s:s,s:I}", "topic", topic, "limit", limit, "size", window),
                   "could not send an atomic batch of %u messages: the window of %u messages has no room for them now", least, window);
        return -1;
    }
    if (!wait) {
        py_raise("Full",
                   why == SENDER_WINDOW_FULL ? "raise {window of producer} || use {on_full=wait of producer}"
                                             : "raise {message_max of producer}, which sizes the ring || use {on_full=wait of producer}",
                   Py_BuildValue("{s:O,s:s,s:K}", "topic", topic, "limit", limit, "size",
                                 why == SENDER_WINDOW_FULL ? (unsigned long long)window : (unsigned long long)sq_capacity),
                   why == SENDER_WINDOW_FULL ? "could not send to topic %R: the window of %llu messages in flight is full"
                                             : "could not send to topic %R: the submission ring of %llu bytes is full",
                   topic, why == SENDER_WINDOW_FULL ? (unsigned long long)window : (unsigned long long)sq_capacity);
        return -1;
    }
    if (*deadline_ns == 0)
        *deadline_ns = deadline_after(timeout_ns);
    switch (wait_room(self, why, wanted, least, *deadline_ns)) {
    case PRODUCER_ERROR:
        return -1;
    case PRODUCER_TIMEOUT:
        verdict_timeout(topic, timeout_ns, why == SENDER_WINDOW_FULL ? "could not get room in the window for a message to"
                                                                     : "could not get room in the ring for a message to");
        return -1;
    default:
        producer_look(self);
        return 0;
    }
}

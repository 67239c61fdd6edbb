/* ProducerBase: the producer's session and its sends of one message. orbitmq.client.producer.producer derives the public class from it,
 * which adds _reopen (a fresh session), _receipts (results) and _awaiting (asyncio): what is not called once a message stays in
 * Python.
 */
#include "python/producer/batch.h"
#include "python/producer/producer_docs.h"

#include <string.h>

static PyTypeObject *producer_type;

/* One attempt to put the message into the ring. */
static enum sender_result post_once(Producer *self, const struct outgoing *outgoing, uint32_t topic, uint32_t queue,
                                    uint64_t born_ms)
{
    struct link *link = self->link;
    struct sender *sender = &link->sender;
    const struct send_message message = {
        .body_size = outgoing->body_size,
        .properties_size = outgoing_properties_size(outgoing),
        .queue_id = queue,
        .flag = outgoing->flag,
        .delay_level = later_word(&outgoing->later),
    };
    const uint32_t stride = (uint32_t)send_message_stride(message.properties_size, message.body_size);
    producer_lock(link);
    const enum sender_result result = sender_open(sender, topic, frame_flags(outgoing->durable, outgoing->id), born_ms, stride);
    if (result == SENDER_OK) {
        uint8_t *at = outgoing_properties(outgoing, sender_add(sender, &message));
        memcpy(at, outgoing->body, outgoing->body_size);
        sender_close(sender);
    }
    producer_unlock(link);
    return result;
}

/* Sends the message, waiting for room if the producer waits. pending NULL: one-way. */
static int post(Producer *self, struct outgoing *outgoing, Pending *pending)
{
    uint64_t deadline_ns = 0;
    for (;;) {
        const uint64_t born_ms = born_now();
        if (producer_ready(self, born_ms) < 0 || (later_waits(&outgoing->later) && producer_delays(self, &outgoing->later) < 0))
            return -1;
        const uint32_t topic = producer_topic(self, outgoing->topic);
        if (topic == TOPIC_NONE ||
            outgoing_fits(self, topic, outgoing->topic, outgoing->body_size, outgoing_properties_size(outgoing)) < 0)
            return -1;
        outgoing->durable = producer_durable(self, topic, outgoing->durability);
        struct link *link = self->link;
        uint32_t queue;
        if (outgoing->queue >= 0 || outgoing->queue_key) {
            if (outgoing_queue(self, topic, outgoing->topic, outgoing->queue, outgoing->queue_key, &queue) < 0)
                return -1;
        } else {
            queue = self->next_queue[topic];
        }
        const struct sender *sender = &link->sender;
        /* Verdicts are taken out early enough that the window seldom looks full, and seldom enough that the cache line in which
         * the writer raises `completed` does not travel for every message. */
        if (sender->submitted - sender->settled >= sender->shape.window / 2 && (sender->submitted & 63) == 0)
            link_harvest(link);
        const enum sender_result result = post_once(self, outgoing, topic, queue, born_ms);
        if (result == SENDER_OK) {
            /* relaxed: the number of queues only grows */
            const uint32_t queues = atomic_load_explicit(&sender->topics->topic[topic].queues, memory_order_relaxed);
            if (outgoing->queue < 0 && !outgoing->queue_key)
                self->next_queue[topic] = queue + 1 < queues ? queue + 1 : 0;
            const uint64_t run = link_push(link, pending ? RUN_PENDING : RUN_ONEWAY, pending, 0, 1);
            if (pending) {
                pending->posted = true;
                pending->durable = outgoing->durable;
                pending->sequence = sender->submitted;
                pending->run = run;
                pending->life = self->life;
            }
            return 0;
        }
        if (producer_make_room(self, result, outgoing->topic, 1 + sender->shape.window / 8, 1, self->wait_when_full,
                               outgoing->timeout_ns, &deadline_ns) < 0)
            return -1;
    }
}

static Pending *begin_send(Producer *self, PyObject *const *args, Py_ssize_t count, PyObject *names, uint64_t *timeout_ns)
{
    struct outgoing outgoing;
    if (outgoing_parse(self, &outgoing, args, count, names) < 0)
        return NULL;
    Pending *pending = pending_new(self, outgoing.topic);
    if (pending && post(self, &outgoing, pending) < 0)
        Py_CLEAR(pending);
    *timeout_ns = outgoing.timeout_ns;
    outgoing_clear(&outgoing);
    return pending;
}

static PyObject *producer_send_async(Producer *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    uint64_t timeout_ns;
    return (PyObject *)begin_send(self, args, count, names, &timeout_ns);
}

static PyObject *producer_send(Producer *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    uint64_t timeout_ns;
    Pending *pending = begin_send(self, args, count, names, &timeout_ns);
    if (!pending)
        return NULL;
    PyObject *receipt = pending_wait(pending, timeout_ns);
    if (!receipt && pending_open(pending))
        verdict_pending((PyObject *)pending);
    Py_DECREF(pending);
    return receipt;
}

static PyObject *producer_send_oneway(Producer *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    struct outgoing outgoing;
    if (outgoing_parse(self, &outgoing, args, count, names) < 0)
        return NULL;
    const int result = post(self, &outgoing, NULL);
    outgoing_clear(&outgoing);
    if (result < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- all messages ---- */

/* _settle(timeout) -> bool: waits until no message is in flight. */
static PyObject *producer_settle(Producer *self, PyObject *timeout)
{
    uint64_t timeout_ns = FOREVER;
    if (parse_timeout(timeout, &timeout_ns) < 0)
        return NULL;
    const uint64_t deadline_ns = deadline_after(timeout_ns);
    uint64_t life = self->life;
    uint64_t target = self->link ? self->link->sender.submitted : 0;
    for (;;) {
        if (!producer_look(self) && !self->stranded)
            break;
        if (self->life != life && self->name_size) { /* what was in flight is in the next session now */
            life = self->life;
            target = self->link ? self->link->sender.submitted : 0;
        }
        if (self->life != life || (self->link && self->link->sender.settled >= target))
            break;
        switch (producer_wait_verdict(self, target, deadline_ns)) {
        case PRODUCER_ERROR:
            return NULL;
        case PRODUCER_TIMEOUT:
            Py_RETURN_FALSE;
        default:
            break;
        }
    }
    Py_RETURN_TRUE;
}

/* wait_settled(settled, end, timeout): until a message after `settled` has its verdict (end 0), or the disk has reached `end`; or the
 * tree is gone, or the time is over. False if there is no session to wait on. */
static PyObject *producer_wait(Producer *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "wait_settled takes settled, end and timeout");
    const unsigned long long settled = PyLong_AsUnsignedLongLong(args[0]);
    const unsigned long long end = PyErr_Occurred() ? 0 : PyLong_AsUnsignedLongLong(args[1]);
    uint64_t timeout_ns = FOREVER;
    if (PyErr_Occurred() || parse_timeout(args[2], &timeout_ns) < 0)
        return NULL;
    const uint64_t deadline_ns = deadline_after(timeout_ns);
    if (!producer_look(self)) {
        if (!self->stranded)
            Py_RETURN_FALSE;
        if (producer_resume(self, deadline_ns) == PRODUCER_ERROR)
            return NULL;
        Py_RETURN_TRUE;
    }
    if (end ? producer_wait_unlocked(self, WAIT_FLUSHED, end, 0, deadline_ns) == PRODUCER_ERROR
            : settled < self->link->sender.submitted &&
                  producer_wait_unlocked(self, WAIT_VERDICT, settled + 1, 0, deadline_ns) == PRODUCER_ERROR)
        return NULL;
    producer_look(self);
    Py_RETURN_TRUE;
}

static PyObject *producer_settled(Producer *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(producer_look(self) ? self->link->sender.settled : 0);
}

/* Ends the session, or what is stranded of the last one. */
static void let_go(Producer *self)
{
    const struct link *flight = producer_flight(self);
    const uint32_t code = flight && flight->forks != py_forks() ? VERDICT_FORKED : VERDICT_LOST;
    producer_retire(self, code);
    producer_give_up(self, code);
}

/* retire(): ends the session and all further use; what is in flight counts as perhaps stored. */
static PyObject *producer_close(Producer *self, PyObject *unused)
{
    (void)unused;
    self->closed = true;
    let_go(self);
    Py_RETURN_NONE;
}

static PyObject *producer_in_flight(Producer *self, void *unused)
{
    (void)unused;
    producer_look(self);
    const struct link *flight = producer_flight(self);
    return PyLong_FromUnsignedLongLong(flight ? flight->sender.submitted - flight->sender.settled : 0);
}

static PyObject *producer_is_ready(Producer *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(!self->closed && producer_usable(self, born_now()) && !(self->rides && producer_stopping(self)));
}

/* prepare(): makes sure that there is a session. */
static PyObject *producer_prepare(Producer *self, PyObject *unused)
{
    (void)unused;
    if (producer_ready(self, born_now()) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *producer_failed(Producer *self, void *unused)
{
    (void)unused;
    producer_look(self);
    return PyLong_FromUnsignedLongLong(self->failed + (producer_flight(self) ? producer_flight(self)->failed : 0));
}

static PyObject *producer_is_closed(Producer *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(self->closed);
}

/* ---- the type ---- */

static int producer_init(Producer *self, PyObject *args, PyObject *keywords)
{
    int wait;
    PyObject *durability;
    double timeout;
    int rides;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "pOdp", &wait, &durability, &timeout, &rides) || parse_durability(durability, &self->durability) < 0)
        return -1;
    self->wait_when_full = wait;
    self->rides = rides;
    self->timeout_ns = timeout < 9e9 ? (uint64_t)(timeout * 1e9) : FOREVER;
    return 0;
}

static int producer_traverse(Producer *self, visitproc visit, void *arg)
{
    Py_VISIT((PyObject *)Py_TYPE((PyObject *)self));
    if (producer_flight(self))
        Py_VISIT(producer_flight(self)->handle);
    return 0;
}

static int producer_clear(Producer *self)
{
    if (producer_flight(self))
        producer_flight(self)->leaves = true;
    let_go(self);
    producer_forget_topics(self);
    return 0;
}

static PyObject *producer_leave(Producer *self, PyObject *nothing)
{
    (void)nothing;
    producer_clear(self);
    Py_RETURN_NONE;
}

static void producer_dealloc(Producer *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    producer_clear(self);
    Py_XDECREF(self->host);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF((PyObject *)type);
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef producer_methods[] = {
    {"send", FAST(producer_send), METH_FASTCALL | METH_KEYWORDS, DOC_SEND},
    {"send_async", FAST(producer_send_async), METH_FASTCALL | METH_KEYWORDS, DOC_SEND_ASYNC},
    {"send_oneway", FAST(producer_send_oneway), METH_FASTCALL | METH_KEYWORDS, DOC_SEND_ONEWAY},
    {"send_batch", FAST(producer_send_batch), METH_FASTCALL | METH_KEYWORDS, DOC_SEND_BATCH},
    {"send_batch_async", FAST(producer_send_batch_async), METH_FASTCALL | METH_KEYWORDS, DOC_SEND_BATCH_ASYNC},
    {"send_columns", (PyCFunction)producer_send_columns, METH_VARARGS, DOC_SEND_COLUMNS},
    {"make_batch", FAST(producer_batch), METH_FASTCALL | METH_KEYWORDS, DOC_MAKE_BATCH},
    {"push", (PyCFunction)producer_push, METH_O, DOC_PUSH},
    {"post_atomic", FAST(producer_post_atomic), METH_FASTCALL, DOC_POST_ATOMIC},
    {"_attach", (PyCFunction)producer_attach, METH_O, "takes the session of a SessionHandle"},
    {"_leave", (PyCFunction)producer_leave, METH_NOARGS, "gives the session back without waiting; for a finalizer"},
    {"_identify", (PyCFunction)producer_identify, METH_O, "what the ids begin with that the producer gives to its messages"},
    {"_lose", (PyCFunction)producer_lose, METH_NOARGS, "what is to be sent again ends in PerhapsStored"},
    {"prepare", (PyCFunction)producer_prepare, METH_NOARGS, DOC_PREPARE},
    {"_settle", (PyCFunction)producer_settle, METH_O, "waits until nothing is in flight; False when the time is over"},
    {"wait_settled", FAST(producer_wait), METH_FASTCALL, DOC_WAIT_SETTLED},
    {"retire", (PyCFunction)producer_close, METH_NOARGS, DOC_RETIRE},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef producer_getset[] = {
    {"in_flight", (getter)producer_in_flight, NULL, "int: messages sent and not yet answered", NULL},
    {"failed", (getter)producer_failed, NULL, "int: messages of send_oneway, and of dropped Pendings, that were not stored", NULL},
    {"closed", (getter)producer_is_closed, NULL, "bool: whether close() was called", NULL},
    {"ready", (getter)producer_is_ready, NULL, "bool: whether a send would find a session, and need not open one", NULL},
    {"settled", (getter)producer_settled, NULL, "int: number of the last message, counted from the first one of the session, whose verdict was taken", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot producer_slots[] = {
    {Py_tp_doc, (void *)"The methods of a producer that are called once a message."},
    {Py_tp_init, (void *)producer_init},
    {Py_tp_traverse, (void *)producer_traverse},
    {Py_tp_clear, (void *)producer_clear},
    {Py_tp_dealloc, (void *)producer_dealloc},
    {Py_tp_methods, producer_methods},
    {Py_tp_getset, producer_getset},
    {0, NULL},
};

static PyType_Spec producer_spec = {
    .name = "orbitmq.native._types.ProducerBase",
    .basicsize = sizeof(Producer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = producer_slots,
};

int py_add_producer(PyObject *module)
{
    if (arguments_init() < 0 || pending_init(module) < 0 || batch_init(module) < 0)
        return -1;
    return (producer_type = py_add_type(module, &producer_spec)) ? 0 : -1;
}

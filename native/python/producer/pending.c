/* Pending: the future verdict of one message. The garbage collector does not track it, which would cost a fifth of a send: it
 * refers to its producer, and nothing of the producer refers back but the run, which does not count.
 */
#include "python/producer/producer.h"
#include "python/producer/producer_docs.h"

static PyTypeObject *pending_type;

Pending *pending_new(Producer *producer, PyObject *topic)
{
    Pending *self = PyObject_New(Pending, pending_type);
    if (!self)
        return NULL;
    Py_INCREF((PyObject *)producer);
    Py_INCREF(topic);
    self->producer = producer;
    self->topic = topic;
    self->verdict.code = VERDICT_NONE;
    self->posted = false;
    self->durable = self->on_disk = false;
    return self;
}

static void pending_dealloc(Pending *self)
{
    Producer *producer = self->producer;
    if (self->posted && self->verdict.code == VERDICT_NONE) {
        /* In flight, and nobody is interested any more: its run becomes one-way. */
        struct link *link = producer_flight(producer);
        struct run *run = &link->runs[self->run & (link->sender.shape.window - 1)];
        run->kind = RUN_ONEWAY;
        run->owner = NULL;
    }
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_DECREF(self->topic);
    Py_DECREF((PyObject *)producer);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

static void take_news(const Pending *self)
{
    if (self->verdict.code == VERDICT_NONE)
        producer_look(self->producer);
}

/* ---- the disk ---- */

uint64_t disk_flushed(const struct on_disk *wish)
{
    const Producer *producer = wish->producer;
    if (wish->life == producer->life && producer->link)
        return producer_flushed(producer);
    /* What a later life of the tree has flushed says nothing about what was in the page cache before it. */
    return wish->life + 1 >= producer->life ? producer->flushed_before : 0;
}

bool disk_open(const struct on_disk *wish)
{
    return disk_flushed(wish) < wish->end && wish->life == wish->producer->life && wish->producer->link &&
           producer_flush_error(wish->producer) == 0;
}

int disk_wait(const struct on_disk *wish, uint64_t timeout_ns, uint64_t deadline_ns, struct completion *verdict)
{
    while (disk_open(wish)) {
        switch (producer_wait_unlocked(wish->producer, WAIT_FLUSHED, wish->end, 0, deadline_ns)) {
        case PRODUCER_ERROR:
            return -1;
        case PRODUCER_TIMEOUT:
            verdict_timeout(wish->topic, timeout_ns, "could not confirm that a message is on disk, sent to");
            return -1;
        default:
            break;
        }
    }
    if (disk_flushed(wish) < wish->end) {
        verdict->detail = producer_flush_error(wish->producer);
        verdict->code = verdict->detail ? VERDICT_NOT_ON_DISK : VERDICT_LOST;
    }
    return 0;
}

static struct on_disk wish_of(const Pending *self)
{
    return (struct on_disk){.producer = self->producer, .topic = self->topic, .life = self->life,
                            .end = self->verdict.physical_offset + self->verdict.size};
}

/* ---- the type ---- */

PyObject *pending_wait(Pending *self, uint64_t timeout_ns)
{
    take_news(self);
    /* Nothing is left to wait for if the verdict is there, unless the disk is: then the clock, which costs 20 ns, is not read. */
    const uint64_t deadline_ns = self->verdict.code == VERDICT_NONE || self->durable ? deadline_after(timeout_ns) : 0;
    while (self->verdict.code == VERDICT_NONE) {
        switch (producer_wait_verdict(self->producer, self->sequence, deadline_ns)) {
        case PRODUCER_ERROR:
            return NULL;
        case PRODUCER_TIMEOUT:
            return verdict_timeout(self->topic, timeout_ns, "could not get the receipt of the message to");
        default:
            break;
        }
        take_news(self);
    }
    const struct on_disk wish = wish_of(self);
    if (self->on_disk)
        return verdict_result(self->producer, self->topic, &self->verdict, FOREVER);
    if (self->durable && verdict_stored(self->verdict.code) && disk_wait(&wish, timeout_ns, deadline_ns, &self->verdict) < 0)
        return NULL;
    return verdict_result(self->producer, self->topic, &self->verdict, disk_flushed(&wish));
}

/* End in the log that the disk must still reach, or 0. */
static uint64_t flush_end(const Pending *self)
{
    const struct on_disk wish = wish_of(self);
    return self->durable && !self->on_disk && verdict_stored(self->verdict.code) && disk_open(&wish) ? wish.end : 0;
}

bool pending_open(const Pending *self) { return self->verdict.code == VERDICT_NONE || flush_end(self) != 0; }

static PyObject *pending_done(Pending *self, PyObject *unused)
{
    (void)unused;
    take_news(self);
    return PyBool_FromLong(!pending_open(self));
}

int parse_result_timeout(PyObject *const *args, Py_ssize_t count, PyObject *names, uint64_t *timeout_ns)
{
    const Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    if (count + named > 1) {
        PyErr_SetString(PyExc_TypeError, "result() takes one argument, timeout");
        return -1;
    }
    if (named && PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, 0), "timeout") != 0) {
        PyObject *known = Py_BuildValue("(s)", "timeout");
        if (known)
            py_refuse_option("wait for a result", PyTuple_GetItem(names, 0), args[0], known);
        Py_XDECREF(known);
        return -1;
    }
    return count + named ? parse_timeout(args[0], timeout_ns) : 0;
}

static PyObject *pending_result(Pending *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    uint64_t timeout_ns = FOREVER;
    if (parse_result_timeout(args, count, names, &timeout_ns) < 0)
        return NULL;
    return pending_wait(self, timeout_ns);
}

static PyObject *pending_await(Pending *self)
{
    return PyObject_CallMethod((PyObject *)self->producer, "_awaiting", "O", self);
}

static PyObject *pending_flush_end(Pending *self, void *unused)
{
    (void)unused;
    take_news(self);
    return PyLong_FromUnsignedLongLong(flush_end(self));
}

static PyObject *pending_verdict(Pending *self, void *unused)
{
    (void)unused;
    take_news(self);
    return PyBool_FromLong(self->verdict.code != VERDICT_NONE);
}

static PyMethodDef pending_methods[] = {
    {"done", (PyCFunction)pending_done, METH_NOARGS, DOC_DONE},
    {"result", (PyCFunction)(void (*)(void))pending_result, METH_FASTCALL | METH_KEYWORDS, DOC_RESULT},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef pending_getset[] = {
    {"flush_end", (getter)pending_flush_end, NULL, DOC_FLUSH_END, NULL},
    {"answered", (getter)pending_verdict, NULL, DOC_ANSWERED, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot pending_slots[] = {
    {Py_tp_doc, (void *)"A message on its way, from send_async. result() waits for its receipt; in asyncio it can be awaited."},
    {Py_tp_dealloc, (void *)pending_dealloc},
    {Py_tp_methods, pending_methods},
    {Py_tp_getset, pending_getset},
    {Py_am_await, (void *)pending_await},
    {0, NULL},
};

static PyType_Spec pending_spec = {
    .name = "orbitmq.native._types.Pending",
    .basicsize = sizeof(Pending),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = pending_slots,
};

int pending_init(PyObject *module) { return (pending_type = py_add_type(module, &pending_spec)) ? 0 : -1; }

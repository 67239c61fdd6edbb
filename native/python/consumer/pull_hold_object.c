/* PullHold: a consumer session for Python. Only `wait` releases the interpreter lock, and only if there is something to wait
 * for. The rest are a few loads and stores, needed at every poll. */
#include "python/consumer/reader_object.h"
#include "base/cpu.h"
#include "client/pull_hold.h"

#define SPIN_SLICE_NS 20000000u /* a signal during a spin interrupts nothing, so Python looks for it so often */

struct pull_hold_object {
    PyObject_HEAD
    struct pull_hold hold;
    PyObject *owner;  /* keeps session and segments mapped; NULL after close */
    Py_buffer words;  /* where the member commits; .obj NULL: nowhere */
    uint64_t spin_ns;   /* how long a wait spins before it sleeps */
    uint64_t spin_from; /* CLOCK_MONOTONIC of the wait's begin; 0: the last one has ended. A recheck or rebalance does not end it */
    uint32_t waiting; /* threads in pull_hold_wait: close would not wait for them, so it is refused */
};

static struct pull_hold_object *self_of(PyObject *self) { return (struct pull_hold_object *)self; }

/* False with an exception: after close. */
static bool usable(const struct pull_hold_object *self)
{
    if (self->owner)
        return true;
    py_raise("Closed", "make another one", NULL, "could not use the consumer's session: it is closed");
    return false;
}

static PyObject *pull_hold_object_join(PyObject *object, PyObject *arguments)
{
    struct pull_hold_object *self = self_of(object);
    unsigned group;
    unsigned long long epoch;
    if (!PyArg_ParseTuple(arguments, "IK:join", &group, &epoch) || !usable(self))
        return NULL;
    if (group >= GROUPS_MAX) {
        PyErr_SetString(PyExc_ValueError, "no such group");
        return NULL;
    }
    pull_hold_join(&self->hold, group, epoch);
    Py_RETURN_NONE;
}

/* Converts a list of ints to an array; NULL with an exception set. The hold is checked afterwards, because a sequence class of
 * the caller's own may have closed it. */
static uint64_t *take_list(const struct pull_hold_object *self, PyObject *list, uint32_t *count)
{
    const Py_ssize_t size = PySequence_Size(list);
    if (size < 0)
        return NULL;
    const uint32_t capacity = self->hold.shape.queue_capacity;
    if ((uint64_t)size > capacity) {
        PyErr_Format(PyExc_ValueError, "%zd queues are more than the session's %u", size, (unsigned)capacity);
        return NULL;
    }
    uint64_t *values = PyMem_Malloc(((size_t)size + 1) * sizeof *values);
    if (!values)
        return (uint64_t *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *item = PySequence_GetItem(list, i);
        const bool taken = item && py_take_u64(item, &values[i]);
        Py_XDECREF(item);
        if (!taken) {
            PyMem_Free(values);
            return NULL;
        }
    }
    *count = (uint32_t)size;
    if (usable(self))
        return values;
    PyMem_Free(values);
    return NULL;
}

static PyObject *pull_hold_object_interests(PyObject *object, PyObject *slots)
{
    struct pull_hold_object *self = self_of(object);
    uint32_t count;
    uint64_t *values = take_list(self, slots, &count);
    if (!values)
        return NULL;
    uint32_t *narrow = (uint32_t *)values; /* in place: an element is written after it was read */
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t slot = (uint32_t)values[i];
        memcpy(&narrow[i], &slot, sizeof slot);
    }
    pull_hold_interests(&self->hold, narrow, count);
    PyMem_Free(values);
    Py_RETURN_NONE;
}

static PyObject *pull_hold_object_commit(PyObject *object, PyObject *offsets)
{
    struct pull_hold_object *self = self_of(object);
    uint32_t count;
    uint64_t *values = take_list(self, offsets, &count);
    if (!values)
        return NULL;
    const bool counted = pull_hold_commit_all(&self->hold, values, count);
    PyMem_Free(values);
    return PyBool_FromLong(counted);
}

/* words(memory): a writable buffer of its file, or None. */
static PyObject *pull_hold_object_words(PyObject *object, PyObject *memory)
{
    struct pull_hold_object *self = self_of(object);
    if (!usable(self))
        return NULL;
    pull_hold_give_words(&self->hold, NULL);
    if (self->words.obj)
        PyBuffer_Release(&self->words);
    if (Py_IsNone(memory))
        Py_RETURN_NONE;
    if (PyObject_GetBuffer(memory, &self->words, PyBUF_WRITABLE) < 0)
        return NULL;
    if ((uint64_t)self->words.len < commit_words_size(self->hold.shape.queue_capacity)) {
        PyErr_Format(PyExc_ValueError, "%zd bytes are too few for the words of %u queues", self->words.len,
                     (unsigned)self->hold.shape.queue_capacity);
        PyBuffer_Release(&self->words);
        return NULL;
    }
    pull_hold_give_words(&self->hold, self->words.buf);
    Py_RETURN_NONE;
}

static PyObject *pull_hold_object_closed(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct pull_hold_object *self = self_of(object);
    return usable(self) ? PyBool_FromLong(pull_hold_closed(&self->hold)) : NULL;
}

static PyObject *pull_hold_object_current(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct pull_hold_object *self = self_of(object);
    return usable(self) ? PyBool_FromLong(pull_hold_current(&self->hold)) : NULL;
}

static PyObject *pull_hold_object_gone(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct pull_hold_object *self = self_of(object);
    return usable(self) ? PyBool_FromLong(pull_hold_gone(&self->hold)) : NULL;
}

static PyObject *pull_hold_object_dead(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct pull_hold_object *self = self_of(object);
    return usable(self) ? PyBool_FromLong(pull_hold_dead(&self->hold)) : NULL;
}

static PyObject *pull_hold_object_check(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct pull_hold_object *self = self_of(object);
    if (!self->waiting)
        self->spin_from = 0; /* a call begins; the last one may have found messages after a recheck or a rebalance */
    return usable(self) ? PyLong_FromLong(pull_hold_check(&self->hold)) : NULL;
}

static PyObject *pull_hold_object_spin(PyObject *object, PyObject *ns)
{
    struct pull_hold_object *self = self_of(object);
    return py_take_u64(ns, &self->spin_ns) ? Py_NewRef(Py_None) : NULL;
}

/* Waits for a while, at most `left`. */
static enum pull_hold_result wait_slice(struct pull_hold_object *self, struct reader *reader, uint64_t left)
{
    const uint64_t spun = clock_ns() - self->spin_from;
    if (spun >= self->spin_ns || left == 0 || !cpu_several())
        return pull_hold_wait(&self->hold, reader, left < BELL_LIMIT_NS ? left : BELL_LIMIT_NS);
    const uint64_t rest = self->spin_ns - spun, limit = rest < left ? rest : left;
    return pull_hold_spin(&self->hold, reader, limit < SPIN_SLICE_NS ? limit : SPIN_SLICE_NS);
}

/* Waits in slices, and lets Python run its signal handlers after each: a signal that came just before a sleep, or to another
 * thread, interrupts no system call of ours. -1 with what a handler raised. */
static int wait_unlocked(struct pull_hold_object *self, struct reader *reader, uint64_t timeout_ns)
{
    const uint64_t began = clock_ns();
    if (!self->spin_from)
        self->spin_from = began;
    for (;;) {
        const uint64_t passed = clock_ns() - began;
        const uint64_t left = passed < timeout_ns ? timeout_ns - passed : 0;
        enum pull_hold_result result;
        Py_BEGIN_ALLOW_THREADS
        result = wait_slice(self, reader, left);
        Py_END_ALLOW_THREADS
        if (result != PULL_HOLD_TIMEOUT && result != PULL_HOLD_SIGNAL)
            return (int)result;
        if (PyErr_CheckSignals() < 0)
            return -1;
        if (result == PULL_HOLD_TIMEOUT && clock_ns() - began >= timeout_ns)
            return PULL_HOLD_TIMEOUT;
    }
}

static PyObject *pull_hold_object_wait(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    struct pull_hold_object *self = self_of(object);
    uint64_t timeout_ns;
    if (!py_arity("wait", count, 2) || !usable(self) || !py_take_u64(arguments[1], &timeout_ns))
        return NULL;
    struct reader_object *reader = py_reader_of(arguments[0]);
    if (!reader)
        return NULL;
    /* a look first, with the lock held: releasing it costs milliseconds beside a busy thread */
    int result = (int)pull_hold_wait(&self->hold, reader->reader, 0);
    if (result == PULL_HOLD_TIMEOUT && timeout_ns > 0) {
        PyObject *owner = Py_NewRef(self->owner);
        self->waiting++;
        py_reader_begin(reader);
        result = wait_unlocked(self, reader->reader, timeout_ns);
        py_reader_end(reader);
        self->waiting--;
        if (result != PULL_HOLD_RECHECK && result != PULL_HOLD_REBALANCE)
            self->spin_from = 0;
        Py_DECREF(owner);
    }
    return result < 0 ? NULL : PyLong_FromLong(result);
}

static PyObject *pull_hold_object_interrupt(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct pull_hold_object *self = self_of(object);
    if (self->owner)
        pull_hold_interrupt(&self->hold);
    Py_RETURN_NONE;
}

static PyObject *pull_hold_object_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct pull_hold_object *self = self_of(object);
    if (self->waiting) {
        PyErr_SetString(PyExc_RuntimeError, "close during a wait");
        return NULL;
    }
    pull_hold_give_words(&self->hold, NULL);
    if (self->words.obj)
        PyBuffer_Release(&self->words);
    Py_CLEAR(self->owner);
    Py_RETURN_NONE;
}

/* PullHold(handle): a client.session.SessionHandle. */
static PyObject *pull_hold_object_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"handle", NULL};
    enum { ADDRESS, CONTROL, WAKE, SUPERVISOR, SLOT, EPOCH, WINDOW, SQ, MESSAGE, QUEUES, PID, FIELDS };
    static const char *fields[FIELDS] = {"address", "control_address", "wake_address", "supervisor_fd", "slot", "epoch",
                                         "window", "sq_capacity", "message_max", "queue_capacity", "pid"};
    PyObject *handle;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O:PullHold", names, &handle))
        return NULL;
    long long values[FIELDS];
    for (int i = 0; i < FIELDS; i++) {
        PyObject *value = PyObject_GetAttrString(handle, fields[i]);
        values[i] = value ? PyLong_AsLongLong(value) : -1;
        Py_XDECREF(value);
        if (PyErr_Occurred())
            return NULL;
    }
    if (values[ADDRESS] == 0 || values[CONTROL] == 0 || values[WAKE] == 0 || values[SLOT] < 0 || values[SLOT] >= SESSIONS_MAX ||
        values[QUEUES] < 0 || values[QUEUES] > SESSION_QUEUES_MAX) {
        PyErr_SetString(PyExc_ValueError, "no consumer session in this handle");
        return NULL;
    }
    struct pull_hold_object *self = self_of(PyType_GenericAlloc(type, 0));
    if (!self)
        return NULL;
    const struct session_shape shape = {
        .slot = (uint32_t)values[SLOT],
        .epoch = (uint32_t)values[EPOCH],
        .window = (uint32_t)values[WINDOW],
        .queue_capacity = (uint32_t)values[QUEUES],
        .sq_capacity = (uint64_t)values[SQ],
        .message_max = (uint32_t)values[MESSAGE],
        .pid = (uint32_t)values[PID],
    };
    pull_hold_attach(&self->hold, (struct session *)(uintptr_t)values[ADDRESS], &shape,
                  (const struct control *)(uintptr_t)values[CONTROL], (struct wake *)(uintptr_t)values[WAKE],
                  (int)values[SUPERVISOR]);
    self->owner = Py_NewRef(handle);
    return (PyObject *)self;
}

static void pull_hold_object_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    if (self_of(object)->words.obj)
        PyBuffer_Release(&self_of(object)->words);
    Py_XDECREF(self_of(object)->owner);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyMethodDef pull_hold_methods[] = {
    {"join", pull_hold_object_join, METH_VARARGS, "join(group, epoch): whose epoch ends waits and voids commits."},
    {"interests", pull_hold_object_interests, METH_O, "interests(slots): the queues to be woken for."},
    {"commit", pull_hold_object_commit, METH_O, "commit(offsets): one a queue; False: the epoch moved, or closed()."},
    {"words", pull_hold_object_words, METH_O, "words(memory): where this member commits, a writable buffer; None: nowhere."},
    {"closed", pull_hold_object_closed, METH_NOARGS, "True when the session or the tree has ended: no commit counts any more."},
    {"current", pull_hold_object_current, METH_NOARGS, "True while the group's epoch has not changed."},
    {"gone", pull_hold_object_gone, METH_NOARGS, "True when the tree has died or is stopping."},
    {"dead", pull_hold_object_dead, METH_NOARGS, "True when the tree has died or has stopped."},
    {"check", pull_hold_object_check, METH_NOARGS, "Before a call: 0 to continue, or enum pull_hold_result, see native/client/pull_hold.h."},
    {"wait", (PyCFunction)(void (*)(void))pull_hold_object_wait, METH_FASTCALL,
     "wait(reader, timeout_ns): enum pull_hold_result, see native/client/pull_hold.h."},
    {"spin", pull_hold_object_spin, METH_O, "spin(ns): how long each wait looks for news by itself before it sleeps."},
    {"interrupt", pull_hold_object_interrupt, METH_NOARGS, "Ends one wait, from any thread: the one under way, or else the next."},
    {"close", pull_hold_object_close, METH_NOARGS, "Lets the handle go."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot pull_hold_slots[] = {
    {Py_tp_doc, "Sleeps until a reader has news; commits offsets."},
    {Py_tp_new, (void *)pull_hold_object_new},
    {Py_tp_dealloc, (void *)pull_hold_object_dealloc},
    {Py_tp_methods, pull_hold_methods},
    {0, NULL},
};

static PyType_Spec pull_hold_spec = {
    .name = "orbitmq.native._types.PullHold",
    .basicsize = sizeof(struct pull_hold_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = pull_hold_slots,
};

int py_add_pull_hold(PyObject *module) { return py_add_type(module, &pull_hold_spec) ? 0 : -1; }

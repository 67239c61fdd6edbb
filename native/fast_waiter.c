/* Waiter: a consumer session for Python. Only `wait` gives the interpreter lock back, and only when there is something to wait
 * for; the rest are a few loads and stores, wanted at every poll. */
#include "fast_reader.h"
#include "waiter.h"

struct waiter_object {
    PyObject_HEAD
    struct waiter waiter;
    PyObject *owner;  /* keeps session and segments mapped; NULL after close */
    Py_buffer words;  /* where the member commits; .obj NULL: nowhere */
    uint32_t waiting; /* threads in waiter_wait: close waits for none of them, so it is refused */
};

static struct waiter_object *self_of(PyObject *self) { return (struct waiter_object *)self; }

/* False with an exception: after close. */
static bool usable(const struct waiter_object *self)
{
    if (self->owner)
        return true;
    fast_raise("Closed", NULL, NULL, "could not use the consumer's session: it is closed");
    return false;
}

static PyObject *waiter_object_join(PyObject *object, PyObject *arguments)
{
    struct waiter_object *self = self_of(object);
    unsigned group;
    unsigned long long epoch;
    if (!PyArg_ParseTuple(arguments, "IK:join", &group, &epoch) || !usable(self))
        return NULL;
    if (group >= GROUPS_MAX) {
        PyErr_SetString(PyExc_ValueError, "no such group");
        return NULL;
    }
    waiter_join(&self->waiter, group, epoch);
    Py_RETURN_NONE;
}

/* A list of ints as an array; NULL with an exception set. The waiter is looked at afterwards: a sequence of the caller's own making
 * may have closed it. */
static uint64_t *take_list(const struct waiter_object *self, PyObject *list, uint32_t *count)
{
    const Py_ssize_t size = PySequence_Size(list);
    if (size < 0)
        return NULL;
    const uint32_t capacity = self->waiter.shape.queue_capacity;
    if ((uint64_t)size > capacity) {
        PyErr_Format(PyExc_ValueError, "%zd queues are more than the session's %u", size, (unsigned)capacity);
        return NULL;
    }
    uint64_t *values = PyMem_Malloc(((size_t)size + 1) * sizeof *values);
    if (!values)
        return (uint64_t *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *item = PySequence_GetItem(list, i);
        const bool taken = item && fast_take_u64(item, &values[i]);
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

static PyObject *waiter_object_interests(PyObject *object, PyObject *slots)
{
    struct waiter_object *self = self_of(object);
    uint32_t count;
    uint64_t *values = take_list(self, slots, &count);
    if (!values)
        return NULL;
    uint32_t *narrow = (uint32_t *)values; /* in place: an element is written after it was read */
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t slot = (uint32_t)values[i];
        memcpy(&narrow[i], &slot, sizeof slot);
    }
    waiter_interests(&self->waiter, narrow, count);
    PyMem_Free(values);
    Py_RETURN_NONE;
}

static PyObject *waiter_object_commit(PyObject *object, PyObject *offsets)
{
    struct waiter_object *self = self_of(object);
    uint32_t count;
    uint64_t *values = take_list(self, offsets, &count);
    if (!values)
        return NULL;
    const bool counted = waiter_commit_all(&self->waiter, values, count);
    PyMem_Free(values);
    return PyBool_FromLong(counted);
}

/* words(memory): a writable buffer of its file, or None. */
static PyObject *waiter_object_words(PyObject *object, PyObject *memory)
{
    struct waiter_object *self = self_of(object);
    if (!usable(self))
        return NULL;
    waiter_give_words(&self->waiter, NULL);
    if (self->words.obj)
        PyBuffer_Release(&self->words);
    if (Py_IsNone(memory))
        Py_RETURN_NONE;
    if (PyObject_GetBuffer(memory, &self->words, PyBUF_WRITABLE) < 0)
        return NULL;
    if ((uint64_t)self->words.len < commit_words_size(self->waiter.shape.queue_capacity)) {
        PyErr_Format(PyExc_ValueError, "%zd bytes are too few for the words of %u queues", self->words.len,
                     (unsigned)self->waiter.shape.queue_capacity);
        PyBuffer_Release(&self->words);
        return NULL;
    }
    waiter_give_words(&self->waiter, self->words.buf);
    Py_RETURN_NONE;
}

static PyObject *waiter_object_closed(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct waiter_object *self = self_of(object);
    return usable(self) ? PyBool_FromLong(waiter_closed(&self->waiter)) : NULL;
}

static PyObject *waiter_object_current(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct waiter_object *self = self_of(object);
    return usable(self) ? PyBool_FromLong(waiter_current(&self->waiter)) : NULL;
}

static PyObject *waiter_object_gone(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct waiter_object *self = self_of(object);
    return usable(self) ? PyBool_FromLong(waiter_gone(&self->waiter)) : NULL;
}

static PyObject *waiter_object_dead(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct waiter_object *self = self_of(object);
    return usable(self) ? PyBool_FromLong(waiter_dead(&self->waiter)) : NULL;
}

static PyObject *waiter_object_check(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct waiter_object *self = self_of(object);
    return usable(self) ? PyLong_FromLong(waiter_check(&self->waiter)) : NULL;
}

/* Waits in slices, and lets Python run its signal handlers after each: a signal that came just before a sleep, or to another
 * thread, interrupts no system call of ours. -1 with what a handler raised. */
static int wait_unlocked(struct waiter_object *self, struct reader *reader, uint64_t timeout_ns)
{
    const uint64_t began = clock_ns();
    for (;;) {
        const uint64_t passed = clock_ns() - began;
        const uint64_t left = passed < timeout_ns ? timeout_ns - passed : 0;
        enum waiter_result result;
        Py_BEGIN_ALLOW_THREADS
        result = waiter_wait(&self->waiter, reader, left < BELL_LIMIT_NS ? left : BELL_LIMIT_NS);
        Py_END_ALLOW_THREADS
        if (result != WAITER_TIMEOUT && result != WAITER_SIGNAL)
            return (int)result;
        if (PyErr_CheckSignals() < 0)
            return -1;
        if (result == WAITER_TIMEOUT && left <= BELL_LIMIT_NS)
            return WAITER_TIMEOUT;
    }
}

static PyObject *waiter_object_wait(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    struct waiter_object *self = self_of(object);
    uint64_t timeout_ns;
    if (!fast_arity("wait", count, 2) || !usable(self) || !fast_take_u64(arguments[1], &timeout_ns))
        return NULL;
    struct reader_object *reader = fast_reader_of(arguments[0]);
    if (!reader)
        return NULL;
    /* a look first, with the lock held: giving it back costs milliseconds beside a busy thread */
    int result = (int)waiter_wait(&self->waiter, reader->reader, 0);
    if (result == WAITER_TIMEOUT && timeout_ns > 0) {
        PyObject *owner = Py_NewRef(self->owner);
        self->waiting++;
        fast_reader_begin(reader);
        result = wait_unlocked(self, reader->reader, timeout_ns);
        fast_reader_end(reader);
        self->waiting--;
        Py_DECREF(owner);
    }
    return result < 0 ? NULL : PyLong_FromLong(result);
}

static PyObject *waiter_object_interrupt(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct waiter_object *self = self_of(object);
    if (self->owner)
        waiter_interrupt(&self->waiter);
    Py_RETURN_NONE;
}

static PyObject *waiter_object_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct waiter_object *self = self_of(object);
    if (self->waiting) {
        PyErr_SetString(PyExc_RuntimeError, "close during a wait");
        return NULL;
    }
    waiter_give_words(&self->waiter, NULL);
    if (self->words.obj)
        PyBuffer_Release(&self->words);
    Py_CLEAR(self->owner);
    Py_RETURN_NONE;
}

/* Waiter(handle): a client.session.SessionHandle. */
static PyObject *waiter_object_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"handle", NULL};
    enum { ADDRESS, CONTROL, WAKE, SUPERVISOR, SLOT, EPOCH, WINDOW, SQ, MESSAGE, QUEUES, PID, FIELDS };
    static const char *fields[FIELDS] = {"address", "control_address", "wake_address", "supervisor_fd", "slot", "epoch",
                                         "window", "sq_capacity", "message_max", "queue_capacity", "pid"};
    PyObject *handle;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O:Waiter", names, &handle))
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
    struct waiter_object *self = self_of(PyType_GenericAlloc(type, 0));
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
    waiter_attach(&self->waiter, (struct session *)(uintptr_t)values[ADDRESS], &shape,
                  (const struct control *)(uintptr_t)values[CONTROL], (struct wake *)(uintptr_t)values[WAKE],
                  (int)values[SUPERVISOR]);
    self->owner = Py_NewRef(handle);
    return (PyObject *)self;
}

static void waiter_object_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    if (self_of(object)->words.obj)
        PyBuffer_Release(&self_of(object)->words);
    Py_XDECREF(self_of(object)->owner);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyMethodDef waiter_methods[] = {
    {"join", waiter_object_join, METH_VARARGS, "join(group, epoch): whose epoch ends waits and voids commits."},
    {"interests", waiter_object_interests, METH_O, "interests(slots): the queues to be woken for."},
    {"commit", waiter_object_commit, METH_O, "commit(offsets): one a queue; False: the epoch moved, or closed()."},
    {"words", waiter_object_words, METH_O, "words(memory): where this member commits, a writable buffer; None: nowhere."},
    {"closed", waiter_object_closed, METH_NOARGS, "True when the session or the tree has ended: no commit counts any more."},
    {"current", waiter_object_current, METH_NOARGS, "True while the group's epoch stands."},
    {"gone", waiter_object_gone, METH_NOARGS, "True when the tree has died or is stopping."},
    {"dead", waiter_object_dead, METH_NOARGS, "True when the tree has died or has stopped."},
    {"check", waiter_object_check, METH_NOARGS, "Before a call: 0 to go on, or enum waiter_result, see native/waiter.h."},
    {"wait", (PyCFunction)(void (*)(void))waiter_object_wait, METH_FASTCALL,
     "wait(reader, timeout_ns): enum waiter_result, see native/waiter.h."},
    {"interrupt", waiter_object_interrupt, METH_NOARGS, "Ends one wait, from any thread: the one under way, or else the next."},
    {"close", waiter_object_close, METH_NOARGS, "Lets the handle go."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot waiter_slots[] = {
    {Py_tp_doc, "Sleeps until a reader has news; commits offsets."},
    {Py_tp_new, (void *)waiter_object_new},
    {Py_tp_dealloc, (void *)waiter_object_dealloc},
    {Py_tp_methods, waiter_methods},
    {0, NULL},
};

static PyType_Spec waiter_spec = {
    .name = "orbitmq.native._fast.Waiter",
    .basicsize = sizeof(struct waiter_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = waiter_slots,
};

int fast_add_waiter(PyObject *module) { return fast_add_type(module, &waiter_spec) ? 0 : -1; }

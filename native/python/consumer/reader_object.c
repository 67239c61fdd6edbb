/* Reader: the consumer's view of the store for Python. Its methods keep the interpreter lock: a fetch takes microseconds, and
 * beside a busy thread it would cost milliseconds to get the lock back. But some methods run Python code (zlib, which releases
 * the lock; the garbage collector), and the fetch must not be taken away from them then. So a Reader is busy during the whole
 * of each method, and other callers cannot use it meanwhile: see GUARDED at the end. */
#include "python/consumer/column_memory.h"
#include "python/consumer/reader_object.h"

#include <errno.h>

static PyTypeObject *reader_type;

/* ---- who may use one ---- */

bool py_reader_usable(const struct reader_object *self)
{
    if (!self->closed && !(self->busy && self->busy_in == py_forks()))
        return true;
    if (self->closed)
        py_raise("Closed", "make another one", NULL, "could not read: the consumer is closed");
    else
        py_raise("UsageError", "make one consumer a thread", NULL, "could not read: another thread uses this consumer");
    return false;
}

static bool enter(PyObject *object)
{
    struct reader_object *self = py_reader_self(object);
    if (!py_reader_usable(self))
        return false;
    py_reader_begin(self);
    return true;
}

static PyObject *leave(PyObject *object, PyObject *result)
{
    py_reader_end(py_reader_self(object));
    return result;
}

struct reader_object *py_reader_of(PyObject *object)
{
    if (!PyObject_TypeCheck(object, reader_type)) {
        PyErr_SetString(PyExc_TypeError, "a Reader is needed");
        return NULL;
    }
    struct reader_object *self = py_reader_self(object);
    return py_reader_usable(self) ? self : NULL;
}

static bool take_cursor(struct reader_object *self, PyObject *value, uint32_t *out)
{
    uint64_t wide;
    if (!py_take_u64(value, &wide))
        return false;
    if (wide >= self->reader->cursor_count) {
        PyErr_SetString(PyExc_IndexError, "no such cursor");
        return false;
    }
    *out = (uint32_t)wide;
    return true;
}

/* ---- queues and positions ---- */

static PyObject *reader_object_add(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    struct reader_object *self = py_reader_self(object);
    uint64_t slot, position;
    if (!py_arity("add", count, 2) || !py_take_u64(arguments[0], &slot) ||
        !py_take_u64(arguments[1], &position))
        return NULL;
    const int64_t index = slot > UINT32_MAX ? (errno = EINVAL, -1) : reader_add(self->reader, (uint32_t)slot, position);
    if (index < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    return PyLong_FromLongLong(index);
}

static PyObject *reader_object_add_offline(PyObject *object, PyObject *arguments)
{
    struct reader_object *self = py_reader_self(object);
    const char *topic;
    Py_ssize_t size;
    unsigned queue;
    unsigned long long begin, end;
    if (!PyArg_ParseTuple(arguments, "s#IKK:add_offline", &topic, &size, &queue, &begin, &end))
        return NULL;
    const int64_t index = size > (Py_ssize_t)TOPIC_NAME_MAX
                              ? (errno = EINVAL, -1)
                              : reader_add_offline(self->reader, (const uint8_t *)topic, (uint32_t)size, queue, begin, end);
    if (index < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    return PyLong_FromLongLong(index);
}

static PyObject *reader_object_clear(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct reader_object *self = py_reader_self(object);
    reader_release(self->reader);
    self->taken = 0;
    self->told = self->reader->skipped;
    reader_clear(self->reader);
    Py_RETURN_NONE;
}

static PyObject *reader_object_bounds(PyObject *object, PyObject *which)
{
    struct reader_object *self = py_reader_self(object);
    uint32_t index;
    uint64_t min, max;
    if (!take_cursor(self, which, &index))
        return NULL;
    reader_bounds(self->reader, index, &min, &max);
    return Py_BuildValue("(KK)", (unsigned long long)min, (unsigned long long)max);
}

static PyObject *reader_object_seek(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    struct reader_object *self = py_reader_self(object);
    uint32_t index;
    uint64_t position;
    if (!py_arity("seek", count, 2) || !take_cursor(self, arguments[0], &index) ||
        !py_take_u64(arguments[1], &position))
        return NULL;
    py_reader_put_back(self);
    reader_seek(self->reader, index, position);
    Py_RETURN_NONE;
}

static PyObject *reader_object_pause(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    struct reader_object *self = py_reader_self(object);
    uint32_t index;
    if (!py_arity("pause", count, 2) || !take_cursor(self, arguments[0], &index))
        return NULL;
    const int paused = PyObject_IsTrue(arguments[1]);
    if (paused < 0)
        return NULL;
    py_reader_put_back(self);
    reader_pause(self->reader, index, paused);
    Py_RETURN_NONE;
}

static PyObject *reader_object_positions(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct reader_object *self = py_reader_self(object);
    struct reader *reader = self->reader;
    PyObject *list = PyList_New(reader->cursor_count);
    for (uint32_t i = 0; list && i < reader->cursor_count; i++) {
        PyObject *position = PyLong_FromUnsignedLongLong(reader->cursors[i].position);
        if (!position || PyList_SetItem(list, i, position) < 0)
            Py_CLEAR(list);
    }
    /* undelivered messages, the last one first, so that the first of each queue stays */
    for (uint32_t i = reader->count; list && i-- > self->taken;) {
        PyObject *position = PyLong_FromUnsignedLongLong(reader->refs[i].queue_offset);
        if (!position || PyList_SetItem(list, reader->refs[i].cursor, position) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* [(cursor, messages, offset after the last of them)] since the last call; None if there is nothing to report. */
static PyObject *reader_object_removals(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct reader_object *self = py_reader_self(object);
    if (!py_reader_removal(self))
        Py_RETURN_NONE;
    struct reader *reader = self->reader;
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < reader->cursor_count; i++) {
        struct reader_cursor *cursor = &reader->cursors[i];
        if (!cursor->removed)
            continue;
        PyObject *entry = Py_BuildValue("(IKK)", i, (unsigned long long)cursor->removed, (unsigned long long)cursor->removed_end);
        if (!entry || PyList_Append(list, entry) < 0)
            Py_CLEAR(list);
        Py_XDECREF(entry);
        cursor->removed = 0;
    }
    self->told = reader->skipped;
    return list;
}

static PyObject *search(PyObject *object, PyObject *const *arguments, Py_ssize_t count, const char *name, bool nearest)
{
    struct reader_object *self = py_reader_self(object);
    struct reader_search searched = {.nearest = nearest};
    if (!py_arity(name, count, 2) || !take_cursor(self, arguments[0], &searched.cursor) ||
        !py_take_u64(arguments[1], &searched.store_ms))
        return NULL;
    for (;;) {
        py_reader_put_back(self);
        const enum reader_found found = reader_search_step(self->reader, &searched);
        reader_release(self->reader);
        if (found == READER_FOUND)
            return PyLong_FromUnsignedLongLong(searched.offset);
        if (found == READER_FAULTY)
            return py_reader_raise(self);
        /* Python's signal handlers run here; the reader is busy, so they can neither close it nor give it other queues. */
        if (PyErr_CheckSignals() < 0)
            return NULL;
        searched.begun = true;
    }
}

static PyObject *reader_object_search_time(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    return search(object, arguments, count, "search_time", true);
}

static PyObject *reader_object_since(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    return search(object, arguments, count, "since", false);
}

static PyObject *reader_object_rising(PyObject *object, PyObject *cursor)
{
    struct reader_object *self = py_reader_self(object);
    uint32_t index;
    uint64_t first, end;
    if (!take_cursor(self, cursor, &index))
        return NULL;
    if (!reader_rising(self->reader, index, &first, &end))
        return py_reader_raise(self);
    return Py_BuildValue("(KK)", (unsigned long long)first, (unsigned long long)end);
}

static PyObject *reader_object_filter(PyObject *object, PyObject *tags)
{
    struct reader_object *self = py_reader_self(object);
    PyObject *held = PySequence_Tuple(tags); /* a sequence class of the caller's own need not keep what it gives */
    const Py_ssize_t count = held ? PyTuple_Size(held) : 0;
    struct slice *slices = held && count <= 4096 ? PyMem_Calloc((size_t)count + 1, sizeof *slices) : NULL;
    if (!slices) {
        if (held)
            PyErr_Format(PyExc_ValueError, "no room for %zd tags", count);
        Py_XDECREF(held);
        return NULL;
    }
    int result = 0;
    for (Py_ssize_t i = 0; i < count && result == 0; i++) {
        char *data;
        Py_ssize_t size;
        result = PyBytes_AsStringAndSize(PyTuple_GetItem(held, i), &data, &size);
        if (result == 0)
            slices[i] = (struct slice){(const uint8_t *)data, (uint32_t)size};
    }
    py_reader_put_back(self);
    if (result == 0 && reader_filter(self->reader, slices, (uint32_t)count)) {
        PyErr_NoMemory();
        result = -1;
    }
    PyMem_Free(slices);
    Py_DECREF(held);
    return result == 0 ? Py_NewRef(Py_None) : NULL;
}

/* The text was compiled before, so that its faults were reported. */
static PyObject *reader_object_sql(PyObject *object, PyObject *text)
{
    struct reader_object *self = py_reader_self(object);
    struct sql_program *program = NULL;
    if (text != Py_None) {
        char *data;
        Py_ssize_t size;
        struct sql_fault fault;
        if (PyBytes_AsStringAndSize(text, &data, &size) < 0)
            return NULL;
        program = sql_compile((const uint8_t *)data, size > SQL_TEXT_MAX ? SQL_TEXT_MAX + 1 : (uint32_t)size, &fault);
        if (!program)
            return fault.memory ? PyErr_NoMemory() : PyErr_Format(PyExc_ValueError, "no filter: %R", text);
    }
    py_reader_put_back(self);
    reader_filter_sql(self->reader, program);
    Py_RETURN_NONE;
}

/* ---- the type ---- */

static PyObject *reader_object_ready(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct reader_object *self = py_reader_self(object);
    return PyBool_FromLong(self->taken < self->reader->count || reader_ready(self->reader));
}

static PyObject *reader_object_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct reader_object *self = py_reader_self(object);
    if (!self->closed) {
        if (!py_reader_usable(self))
            return NULL;
        self->closed = true;
        reader_close(self->reader);
        Py_CLEAR(self->owner);
    }
    Py_RETURN_NONE;
}

static PyObject *reader_object_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"control", "topics", "owner", "store", "log_file_size", "queue_file_units", "rising", NULL};
    PyObject *control_object = NULL, *topics_object = NULL, *owner = NULL;
    const char *store = NULL;
    unsigned long long log_file_size = 0;
    unsigned queue_file_units = 0;
    unsigned long long rising_begin = 0, rising_end = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|OOO$sKI(KK):Reader", names, &control_object, &topics_object, &owner,
                                     &store, &log_file_size, &queue_file_units, &rising_begin, &rising_end))
        return NULL;
    const struct control *control = NULL;
    const struct topics *topics = NULL;
    if (control_object && topics_object) {
        control = PyLong_AsVoidPtr(control_object);
        topics = control ? PyLong_AsVoidPtr(topics_object) : NULL;
        if (PyErr_Occurred())
            return NULL;
        store = control ? control->settings.store : NULL;
        log_file_size = control ? control->settings.log_file_size : 0;
        queue_file_units = control ? control->settings.queue_file_units : 0;
    }
    if (!store || (control && !topics) || log_file_size == 0 || queue_file_units == 0 || strlen(store) >= 4000) {
        PyErr_SetString(PyExc_ValueError, "a reader needs a control block and topic table, or a store with its file sizes");
        return NULL;
    }
    struct reader *reader = reader_open(control, topics, store, log_file_size, queue_file_units);
    if (!reader)
        return PyErr_NoMemory();
    if (!control)
        reader_trust(reader, rising_begin, rising_end);
    struct reader_object *self = py_reader_self(PyType_GenericAlloc(type, 0));
    if (!self) {
        reader_close(reader);
        reader_free(reader);
        return NULL;
    }
    self->reader = reader;
    self->owner = Py_XNewRef(owner);
    return (PyObject *)self;
}

static void reader_object_dealloc(PyObject *object)
{
    struct reader_object *self = py_reader_self(object);
    PyTypeObject *type = Py_TYPE(object);
    if (!self->closed && self->reader)
        reader_close(self->reader);
    if (self->reader)
        reader_free(self->reader); /* pins hold a reference to the reader, so none is left */
    Py_XDECREF(self->owner);
    Py_XDECREF(self->home);
    PyObject_Free(object);
    Py_DECREF(type);
}

enum reader_number { COUNT, SKIPPED, VERIFY, STRICT };

static PyObject *reader_object_number(PyObject *object, void *which)
{
    const struct reader_object *self = py_reader_self(object);
    switch ((enum reader_number)(uintptr_t)which) {
    case COUNT: return PyLong_FromUnsignedLong(self->reader->cursor_count);
    case SKIPPED: return PyLong_FromUnsignedLongLong(self->reader->skipped);
    case VERIFY: return PyBool_FromLong(self->reader->verify);
    case STRICT: return PyBool_FromLong(self->strict);
    }
    Py_RETURN_NONE;
}

static int reader_object_set(PyObject *object, PyObject *value, void *which)
{
    struct reader_object *self = py_reader_self(object);
    const int set = value ? PyObject_IsTrue(value) : 1;
    if (set < 0)
        return -1;
    if ((enum reader_number)(uintptr_t)which == VERIFY)
        self->reader->verify = set;
    else
        self->strict = set;
    return 0;
}

static PyObject *reader_object_home(PyObject *object, void *unused)
{
    (void)unused;
    PyObject *home = py_reader_self(object)->home;
    return Py_NewRef(home ? home : Py_None);
}

static int reader_object_set_home(PyObject *object, PyObject *value, void *unused)
{
    (void)unused;
    struct reader_object *self = py_reader_self(object);
    PyObject *before = self->home;
    self->home = Py_XNewRef(value);
    Py_XDECREF(before);
    return 0;
}

static PyGetSetDef reader_attributes[] = {
    {"home", reader_object_home, reader_object_set_home, "the connection over which its messages are replied to", NULL},
    {"count", reader_object_number, NULL, "int: cursors", (void *)COUNT},
    {"skipped", reader_object_number, NULL, "int: messages that retention took before they were read", (void *)SKIPPED},
    {"verify", reader_object_number, reader_object_set, "bool: check the CRC of each body", (void *)VERIFY},
    {"strict", reader_object_number, reader_object_set, "bool: raise where messages were removed", (void *)STRICT},
    {NULL, NULL, NULL, NULL, NULL},
};

/* Each method as Python calls it: refused while another one runs, and the Reader is busy meanwhile. */
#define GUARDED(name, method) \
    static PyObject *guarded_##name(PyObject *object, PyObject *argument) \
    { \
        return enter(object) ? leave(object, method(object, argument)) : NULL; \
    }
#define GUARDED_FAST(name, method) \
    static PyObject *guarded_##name(PyObject *object, PyObject *const *arguments, Py_ssize_t count) \
    { \
        return enter(object) ? leave(object, method(object, arguments, count)) : NULL; \
    }

GUARDED_FAST(add, reader_object_add)
GUARDED(add_offline, reader_object_add_offline)
GUARDED(clear, reader_object_clear)
GUARDED(bounds, reader_object_bounds)
GUARDED_FAST(seek, reader_object_seek)
GUARDED_FAST(pause, reader_object_pause)
GUARDED(positions, reader_object_positions)
GUARDED(removals, reader_object_removals)
GUARDED_FAST(search_time, reader_object_search_time)
GUARDED(rising, reader_object_rising)
GUARDED_FAST(since, reader_object_since)
GUARDED(filter, reader_object_filter)
GUARDED(sql, reader_object_sql)
GUARDED(messages, py_delivery_messages)
GUARDED_FAST(range, py_delivery_range)
GUARDED(message, py_delivery_message)
GUARDED(gathered, py_delivery_gathered)
GUARDED_FAST(bodies, py_delivery_bodies)
GUARDED(record, py_delivery_record)
GUARDED_FAST(columns, py_columns)
GUARDED(names, py_columns_names)
GUARDED(ready, reader_object_ready)

#define FAST(name) {#name, (PyCFunction)(void (*)(void))guarded_##name, METH_FASTCALL, NULL}
#define ONE(name) {#name, guarded_##name, METH_O, NULL}
#define NONE(name) {#name, guarded_##name, METH_NOARGS, NULL}

static PyMethodDef reader_methods[] = {
    FAST(add),
    {"add_offline", guarded_add_offline, METH_VARARGS, NULL},
    NONE(clear),
    ONE(bounds),
    FAST(seek),
    FAST(pause),
    NONE(positions),
    NONE(removals),
    FAST(search_time),
    ONE(rising),
    FAST(since),
    ONE(filter),
    ONE(sql),
    ONE(messages),
    FAST(range),
    ONE(message),
    NONE(gathered),
    FAST(bodies),
    ONE(record),
    FAST(columns),
    NONE(names),
    NONE(ready),
    {"close", reader_object_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_doc, "Reads queues of a store in batches. Belongs to one thread at a time."},
    {Py_tp_new, (void *)reader_object_new},
    {Py_tp_dealloc, (void *)reader_object_dealloc},
    {Py_tp_getset, reader_attributes},
    {Py_tp_methods, reader_methods},
    {0, NULL},
};

static PyType_Spec reader_spec = {
    .name = "orbitmq.native._types.Reader",
    .basicsize = sizeof(struct reader_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = reader_slots,
};

int py_add_consumer(PyObject *module)
{
    if (py_add_message(module) < 0)
        return -1;
    if (py_add_pin(module) < 0 || py_add_column_memory(module) < 0 || py_add_pull_hold(module) < 0)
        return -1;
    reader_type = py_add_type(module, &reader_spec);
    return reader_type ? 0 : -1;
}

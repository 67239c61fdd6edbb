/* Turns: one thread of a process at a time, in `with` statements in which no signal handler can lose the lock.
 *
 * A handler's exception (Ctrl-C) appears after a call, so Python code cannot safely take a lock and then enter a `try`. Between
 * the taking and the body of a `with` statement no exception can appear, nor between the end of the body and the release, as
 * long as both are C. The interpreter lock guards all fields; other threads sleep on `lock`. */
#include "base/clock.h"
#include "python/objects.h"

#define SLICE_NS 100000000u /* longest sleep: a signal that another thread got, or that came just before, is handled after it */

struct turns {
    PyObject_HEAD
    PyThread_type_lock lock;
    unsigned long owner; /* which thread has it, while depth is not 0 */
    Py_ssize_t depth;
};

/* The result of within(): one attempt, for one `with` statement. */
struct turn {
    PyObject_HEAD
    struct turns *turns;
    double timeout;
    bool taken;
};

static PyObject *taken_error;
static PyTypeObject *turn_type;

static struct turns *turns_of(PyObject *self) { return (struct turns *)self; }
static struct turn *turn_of(PyObject *self) { return (struct turn *)self; }

static bool mine(const struct turns *self) { return self->depth && self->owner == PyThread_get_thread_ident(); }

static void begin(struct turns *self)
{
    self->owner = PyThread_get_thread_ident();
    self->depth = 1;
}

static void give(struct turns *self)
{
    if (--self->depth == 0)
        PyThread_release_lock(self->lock);
}

static PyObject *refused(void)
{
    PyErr_SetString(taken_error, "somebody else has the turn");
    return NULL;
}

static PyObject *turns_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    (void)arguments, (void)keywords;
    struct turns *self = (struct turns *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    self->lock = PyThread_allocate_lock();
    if (!self->lock) {
        Py_DECREF((PyObject *)self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static void turns_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (turns_of(self)->lock) {
        if (turns_of(self)->depth) /* in a forked child: the turn of a thread that does not exist here */
            PyThread_release_lock(turns_of(self)->lock);
        PyThread_free_lock(turns_of(self)->lock);
    }
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *turns_enter(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    if (turns_of(self)->depth || !PyThread_acquire_lock(turns_of(self)->lock, NOWAIT_LOCK))
        return refused();
    begin(turns_of(self));
    return Py_NewRef(self);
}

static PyObject *turns_exit(PyObject *self, PyObject *arguments)
{
    (void)arguments;
    give(turns_of(self));
    Py_RETURN_NONE;
}

static PyObject *turns_locked(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    return PyBool_FromLong(turns_of(self)->depth != 0);
}

static PyObject *turns_within(PyObject *self, PyObject *timeout)
{
    const double seconds = PyFloat_AsDouble(timeout);
    if (seconds == -1.0 && PyErr_Occurred())
        return NULL;
    struct turn *turn = (struct turn *)PyType_GenericAlloc(turn_type, 0);
    if (!turn)
        return NULL;
    turn->turns = (struct turns *)Py_NewRef(self);
    turn->timeout = seconds < 0 ? 0 : seconds > 1e9 ? 1e9 : seconds;
    return (PyObject *)turn;
}

/* Waits for another thread; false with an exception set. */
static bool await_lock(struct turns *self, double timeout)
{
    const uint64_t deadline = clock_ns() + (uint64_t)(timeout * 1e9);
    for (;;) {
        const uint64_t now = clock_ns(), left = now < deadline ? deadline - now : 0;
        const PY_TIMEOUT_T microseconds = (PY_TIMEOUT_T)((left < SLICE_NS ? left : SLICE_NS) / 1000);
        PyLockStatus status;
        Py_BEGIN_ALLOW_THREADS
        status = PyThread_acquire_lock_timed(self->lock, microseconds, 1);
        Py_END_ALLOW_THREADS
        if (status == PY_LOCK_ACQUIRED)
            return true;
        if (PyErr_CheckSignals() < 0)
            return false;
        if (!left) {
            refused();
            return false;
        }
    }
}

static PyObject *turn_enter(PyObject *object, PyObject *nothing)
{
    (void)nothing;
    struct turn *self = turn_of(object);
    struct turns *turns = self->turns;
    if (self->taken) {
        PyErr_SetString(PyExc_RuntimeError, "a turn is for one with statement");
        return NULL;
    }
    PyObject *depth = PyLong_FromSsize_t(mine(turns) ? turns->depth + 1 : 1);
    if (!depth)
        return NULL;
    if (mine(turns)) {
        turns->depth++;
    } else if (PyThread_acquire_lock(turns->lock, NOWAIT_LOCK) || await_lock(turns, self->timeout)) {
        begin(turns);
    } else {
        Py_DECREF(depth);
        return NULL;
    }
    self->taken = true;
    return depth;
}

static PyObject *turn_exit(PyObject *object, PyObject *arguments)
{
    (void)arguments;
    if (turn_of(object)->taken)
        give(turn_of(object)->turns);
    turn_of(object)->taken = false;
    Py_RETURN_NONE;
}

static void turn_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF((PyObject *)turn_of(self)->turns);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef turns_methods[] = {
    {"__enter__", turns_enter, METH_NOARGS, "Takes the turn; raises Taken if any thread has it, this thread included."},
    {"__exit__", turns_exit, METH_VARARGS, "Gives it back."},
    {"within", turns_within, METH_O,
     "within(timeout): for a with statement that waits, seconds, for other threads; its value is how often this one has it now."},
    {"locked", turns_locked, METH_NOARGS, "True while a thread has the turn."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef turn_methods[] = {
    {"__enter__", turn_enter, METH_NOARGS, "Takes the turn; raises Taken if the time is over first."},
    {"__exit__", turn_exit, METH_VARARGS, "Gives it back."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot turns_slots[] = {
    {Py_tp_doc, "One thread at a time."},
    {Py_tp_new, (void *)turns_new},
    {Py_tp_dealloc, (void *)turns_dealloc},
    {Py_tp_methods, turns_methods},
    {0, NULL},
};

static PyType_Slot turn_slots[] = {
    {Py_tp_doc, "One turn, see Turns.within."},
    {Py_tp_dealloc, (void *)turn_dealloc},
    {Py_tp_methods, turn_methods},
    {0, NULL},
};

static PyType_Spec turns_spec = {
    .name = "orbitmq.native._types.Turns",
    .basicsize = sizeof(struct turns),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = turns_slots,
};

static PyType_Spec turn_spec = {
    .name = "orbitmq.native._types.Turn",
    .basicsize = sizeof(struct turn),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = turn_slots,
};

int py_add_turns(PyObject *module)
{
    taken_error = PyErr_NewException("orbitmq.native._types.Taken", NULL, NULL);
    if (!taken_error || PyModule_AddObjectRef(module, "Taken", taken_error) < 0)
        return -1;
    turn_type = py_add_type(module, &turn_spec);
    return turn_type && py_add_type(module, &turns_spec) ? 0 : -1;
}

/* Loop and AsyncLoop: what a `for` statement over a worker iterates. They learn how the loop was left.
 *
 * The interpreter drops a `for` statement's iterator when the loop ends; if an exception ends it, that exception is set at this
 * moment. Only C sees it there: a finalizer in Python runs with it set aside. A generator between the loop and this object drops
 * it with GeneratorExit set, whatever ended the loop: so its job counts as failed, never as done. */
#include "python/objects.h"

struct loop {
    PyObject_HEAD
    PyObject *next; /* returns the next object, or None at the end; of an AsyncLoop, a coroutine that gives it */
    PyObject *left; /* called with the exception that ended the loop, or None */
};

static struct loop *loop_of(PyObject *self) { return (struct loop *)self; }

static PyObject *loop_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    (void)keywords;
    PyObject *next, *left;
    if (!PyArg_ParseTuple(arguments, "OO", &next, &left))
        return NULL;
    struct loop *self = (struct loop *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    self->next = Py_NewRef(next);
    self->left = Py_NewRef(left);
    return (PyObject *)self;
}

/* Calls `left` with the exception that is set, and sets it again. */
static void tell(struct loop *self)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value && traceback)
        PyException_SetTraceback(value, traceback);
    PyObject *result = PyObject_CallFunctionObjArgs(self->left, value ? value : Py_None, NULL);
    if (!result)
        PyErr_WriteUnraisable(self->left);
    Py_XDECREF(result);
    PyErr_Restore(type, value, traceback);
}

static void loop_dealloc(PyObject *object)
{
    struct loop *self = loop_of(object);
    PyTypeObject *type = Py_TYPE(object);
    if (self->left)
        tell(self);
    Py_XDECREF(self->next);
    Py_XDECREF(self->left);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *loop_next(PyObject *self)
{
    PyObject *result = PyObject_CallNoArgs(loop_of(self)->next);
    if (result && Py_IsNone(result)) {
        Py_DECREF(result);
        return NULL;
    }
    return result;
}

static PyObject *async_loop_next(PyObject *self) { return PyObject_CallNoArgs(loop_of(self)->next); }

static PyType_Slot loop_slots[] = {
    {Py_tp_doc, "Loop(next, left): iterates next() until it is None; left(error) is called when the for loop is left."},
    {Py_tp_new, (void *)loop_new},
    {Py_tp_dealloc, (void *)loop_dealloc},
    {Py_tp_iter, (void *)PyObject_SelfIter},
    {Py_tp_iternext, (void *)loop_next},
    {0, NULL},
};

static PyType_Slot async_loop_slots[] = {
    {Py_tp_doc, "AsyncLoop(next, left): Loop for async for; next() makes coroutines."},
    {Py_tp_new, (void *)loop_new},
    {Py_tp_dealloc, (void *)loop_dealloc},
    {Py_am_aiter, (void *)PyObject_SelfIter},
    {Py_am_anext, (void *)async_loop_next},
    {0, NULL},
};

static PyType_Spec loop_spec = {
    .name = "orbitmq.native._types.Loop",
    .basicsize = sizeof(struct loop),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = loop_slots,
};

static PyType_Spec async_loop_spec = {
    .name = "orbitmq.native._types.AsyncLoop",
    .basicsize = sizeof(struct loop),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = async_loop_slots,
};

int py_add_loop(PyObject *module) { return py_add_type(module, &loop_spec) && py_add_type(module, &async_loop_spec) ? 0 : -1; }

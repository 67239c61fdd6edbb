/* The module orbitmq.native._types: its definition, and the raising of OrbitMQ's exceptions from C. */
#include "python/objects.h"

#include <pthread.h>
#include <stdarg.h>

/* Written in the child only, before any of its own code runs, so it need not be atomic. */
static unsigned forks;

static void count_fork(void) { forks++; }

unsigned py_forks(void) { return forks; }

/* What errors/remedy.py makes of a text. */
static PyObject *hint_of(const char *text)
{
    PyObject *module = PyImport_ImportModule("orbitmq.errors.remedy");
    PyObject *result = module ? PyObject_CallMethod(module, "hint", "s", text) : NULL;
    Py_XDECREF(module);
    return result;
}

void *py_raise(const char *kind, const char *hint, PyObject *values, const char *format, ...)
{
    if (!values && PyErr_Occurred()) /* building them failed; that error is reported instead */
        return NULL;
    va_list arguments;
    va_start(arguments, format);
    PyObject *message = PyUnicode_FromFormatV(format, arguments);
    va_end(arguments);
    PyObject *module = message ? PyImport_ImportModule("orbitmq.errors") : NULL;
    PyObject *type = module ? PyObject_GetAttrString(module, kind) : NULL;
    PyObject *positional = type ? PyTuple_Pack(1, message) : NULL;
    PyObject *keywords = values ? values : PyDict_New();
    if (positional && keywords) {
        PyObject *hinted = hint ? hint_of(hint) : NULL;
        if (!hint || (hinted && PyDict_SetItemString(keywords, "hint", hinted) == 0)) {
            PyObject *error = PyObject_Call(type, positional, keywords);
            if (error) {
                PyErr_SetObject(type, error);
                Py_DECREF(error);
            }
        }
        Py_XDECREF(hinted);
    }
    Py_XDECREF(keywords);
    Py_XDECREF(positional);
    Py_XDECREF(type);
    Py_XDECREF(module);
    Py_XDECREF(message);
    return NULL;
}

void py_refuse_option(const char *doing, PyObject *name, PyObject *value, PyObject *known)
{
    PyObject *module = PyImport_ImportModule("orbitmq.errors.option");
    PyObject *error = module ? PyObject_CallMethod(module, "unknown_option", "sOOO", doing, name, value, known) : NULL;
    if (error)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    Py_XDECREF(module);
}

const char *py_utf8(PyObject *text, const char *kind, const char *what, Py_ssize_t *size)
{
    const char *at = PyUnicode_AsUTF8AndSize(text, size);
    if (!at && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        PyErr_Clear();
        py_raise(kind, "decode what it came from with another encoding, or with errors='replace'",
                   Py_BuildValue("{s:O}", "value", text), "could not use %s %R: it holds a lone surrogate, which is half a character",
                   what, text);
    }
    return at;
}

int py_bytes_view(PyObject *buffer, Py_buffer *view)
{
    if (PyObject_GetBuffer(buffer, view, PyBUF_SIMPLE) == 0)
        return 0;
    PyErr_Clear(); /* a BufferError, but NumPy's arrays raise a ValueError */
    PyObject *copy = PyBytes_FromObject(buffer);
    const int result = copy ? PyObject_GetBuffer(copy, view, PyBUF_SIMPLE) : -1;
    Py_XDECREF(copy);
    return result;
}

PyTypeObject *py_add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (!type)
        return NULL;
    if (PyModule_AddType(module, (PyTypeObject *)type) < 0) {
        Py_DECREF(type);
        return NULL;
    }
    /* The reference is kept: types live as long as the process, because other C files hold them in statics. */
    return (PyTypeObject *)type;
}

static int module_exec(PyObject *module)
{
    static int watching;
    if (!watching && pthread_atfork(NULL, NULL, count_fork) == 0)
        watching = 1;
    if (!watching) {
        PyErr_NoMemory();
        return -1;
    }
    if (py_add_producer && py_add_producer(module) < 0)
        return -1;
    if (py_add_consumer && py_add_consumer(module) < 0)
        return -1;
    if (py_add_turns && py_add_turns(module) < 0)
        return -1;
    if (py_add_loop && py_add_loop(module) < 0)
        return -1;
    return 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, (void *)module_exec},
    {0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "orbitmq.native._types",
    .m_doc = "Per-message entry points of OrbitMQ, in C.",
    .m_size = 0,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__types(void) { return PyModuleDef_Init(&module_definition); }

/* What the parts of the extension module orbitmq.native._types share. The module holds the entry points that are called once a
 * message, for which cffi's release and retake of the interpreter lock would cost more than the work. Limited API of Python
 * 3.11, one wheel for all later versions. Files in native/python know Python; all others must not.
 */
#ifndef ORBITMQ_OBJECTS_H
#define ORBITMQ_OBJECTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

/* Each adds its types to the module; 0, or -1 with an exception set. Weak, so that the module also builds with one alone. */
__attribute__((weak)) int py_add_producer(PyObject *module);
__attribute__((weak)) int py_add_consumer(PyObject *module);
__attribute__((weak)) int py_add_turns(PyObject *module);
__attribute__((weak)) int py_add_loop(PyObject *module);

/* Raises orbitmq.errors.<kind> with a message in PyUnicode_FromFormat's format. hint: in the notation of errors/remedy.py, or
 * NULL. values (a reference that is stolen, may be NULL) is a dict: its items become the exception's attributes, which the class
 * must have. Always returns NULL. */
void *py_raise(const char *kind, const char *hint, PyObject *values, const char *format, ...);

/* Raises UnknownOption: an argument that a call does not have. doing: what could not be done; known: a sequence of the names that
 * there are. */
void py_refuse_option(const char *doing, PyObject *name, PyObject *value, PyObject *known);

/* UTF-8 of a str, which keeps it; NULL with orbitmq.errors.<kind> if it cannot be encoded. what: for the message. */
const char *py_utf8(PyObject *text, const char *kind, const char *what, Py_ssize_t *size);

/* The bytes of a buffer. If they do not lie side by side, as those of memoryview(b"abc")[::2], it is a view of a copy, which it owns. -1: an
 * exception is set. */
int py_bytes_view(PyObject *buffer, Py_buffer *view);

/* Creates a type from its spec and adds it to the module under the spec's last name part; NULL with an exception set. */
PyTypeObject *py_add_type(PyObject *module, PyType_Spec *spec);

/* How many forks lie between this process and the one that loaded the module: a session belongs to the count at which it was
 * attached. Cheaper than getpid in every call. */
unsigned py_forks(void);

#endif

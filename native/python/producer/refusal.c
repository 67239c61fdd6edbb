/* The refusal of arguments that a send does not have. Nothing of it runs while a message is sent. */
#include "python/producer/producer.h"

#include <string.h>

int refuse_name(PyObject *name, PyObject *value, int most)
{
    const bool one = most == ARGUMENTS;
    PyObject *known = PyList_New(0);
    for (int i = -2; known && i < most; i++) {
        const char *text = i == -2 ? "topic" : i == -1 ? (one ? "body" : "bodies") : argument_names[i];
        PyObject *each = *text == '_' ? NULL : PyUnicode_FromString(text);
        if (*text != '_' && (!each || PyList_Append(known, each) < 0))
            Py_CLEAR(known);
        Py_XDECREF(each);
    }
    if (known)
        py_refuse_option(one ? "send" : "send a batch", name, value, known);
    Py_XDECREF(known);
    return -1;
}

int refuse_positional(PyObject *const *args, Py_ssize_t count, PyObject *names, const char *second)
{
    const int most = strcmp(second, "body") == 0 ? ARGUMENTS : ARG_TIMEOUT + 1;
    const Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < named && count < 2; i++)
        if (parse_name(PyTuple_GetItem(names, i), most, count) < 0)
            return refuse_name(PyTuple_GetItem(names, i), args[count + i], most);
    PyErr_Format(PyExc_TypeError, "expected two arguments, topic and %s, and keywords", second);
    return -1;
}

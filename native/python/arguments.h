/* Arguments of METH_FASTCALL and METH_O methods that are called too often for PyArg_Parse. Each function returns false with an
 * exception set. */
#ifndef ORBITMQ_ARGUMENTS_H
#define ORBITMQ_ARGUMENTS_H

#include "python/objects.h"

#include <stdbool.h>
#include <stdint.h>

#define FAST_COUNT_MAX (1u << 24) /* messages in one call; a caller that asks for more gets this many */

static inline bool py_arity(const char *name, Py_ssize_t given, Py_ssize_t wanted)
{
    if (given == wanted)
        return true;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, %zd given", name, wanted, given);
    return false;
}

static inline bool py_take_u64(PyObject *value, uint64_t *out)
{
    *out = PyLong_AsUnsignedLongLong(value);
    return !(*out == UINT64_MAX && PyErr_Occurred());
}

static inline bool py_take_count(PyObject *value, uint32_t *out)
{
    uint64_t wide;
    if (!py_take_u64(value, &wide))
        return false;
    *out = wide > FAST_COUNT_MAX ? FAST_COUNT_MAX : (uint32_t)wide;
    return true;
}

#endif

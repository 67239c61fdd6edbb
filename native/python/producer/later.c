/* When a message is to be delivered: delay_level=, delay= and deliver_at=. */
#include "python/producer/producer.h"

#include "base/clock.h"
#include "format/delay.h"
#include <math.h>
#include <string.h>

int later_level(PyObject *value, struct later *later)
{
    if (value == Py_None)
        return 0;
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (number == -1 && PyErr_Occurred())
        return refuse_type(value, "delay_level", "int");
    if (number < 0 || overflow < 0) {
        py_raise("SettingError", NULL, Py_BuildValue("{s:s,s:O}", "setting", "delay_level", "value", value),
                 "could not send with delay_level %R: levels are numbered from 1, and 0 is no delay", value);
        return -1;
    }
    later->given++;
    later->level = overflow || number > DELAY_LEVELS ? DELAY_LEVELS : (uint32_t)number;
    return 0;
}

static int refuse(PyObject *value, const char *name, const char *why)
{
    py_raise("SettingError", NULL, Py_BuildValue("{s:s,s:O}", "setting", name, "value", value), "could not send with %s %R: %s", name, value, why);
    return -1;
}

/* An integer that no double holds. */
static double beyond(PyObject *value)
{
    PyErr_Clear();
    PyObject *zero = PyLong_FromLong(0);
    const int below = zero ? PyObject_RichCompareBool(value, zero, Py_LT) : -1;
    Py_XDECREF(zero);
    return below < 0 ? NAN : below ? -INFINITY : INFINITY;
}

/* Why a datetime has no seconds, as Python says: it is close to the ends of its calendar. */
static void tell_calendar(PyObject *value, const char *name)
{
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    PyObject *text = PyObject_Str(error);
    const char *why = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (why)
        refuse(value, name, why);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
}

/* Seconds of a number, or of an object whose method of this name gives them. NAN with an exception. */
static double seconds_of(PyObject *value, const char *name, const char *method, const char *kinds)
{
    if (PyFloat_Check(value) || PyLong_Check(value)) {
        const double seconds = PyFloat_AsDouble(value);
        if (seconds != -1.0 || !PyErr_Occurred())
            return seconds;
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return NAN;
        return beyond(value);
    }
    PyObject *found = PyObject_HasAttrString(value, method) ? PyObject_CallMethod(value, method, NULL) : NULL;
    if (!found) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "%s must be %s, not %R", name, kinds, (PyObject *)Py_TYPE(value));
        else if (PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_OverflowError))
            tell_calendar(value, name);
        return NAN;
    }
    const double seconds = PyFloat_AsDouble(found);
    Py_DECREF(found);
    return seconds == -1.0 && PyErr_Occurred() ? NAN : seconds;
}

/* Milliseconds, rounded up: never early. */
static int take(PyObject *value, const char *name, double ms, double from_ms, struct later *later)
{
    if (!(ms == ms))
        return PyErr_Occurred() ? -1 : refuse(value, name, "it is not a number");
    if (ms - from_ms > (double)TIMER_MOST_MS)
        return refuse(value, name, "a message can wait for 366 days at most");
    later->given++;
    later->at_ms = ms > from_ms ? (uint64_t)ceil(ms) : 0;
    return 0;
}

int later_delay(PyObject *value, struct later *later)
{
    if (value == Py_None)
        return 0;
    const double now_ms = (double)clock_read_ns(CLOCK_REALTIME) / 1e6;
    const double seconds = seconds_of(value, "delay", "total_seconds", "a number of seconds or a timedelta");
    if (seconds < 0)
        return refuse(value, "delay", "it is negative");
    return take(value, "delay", seconds > 0 ? now_ms + seconds * 1e3 : seconds == 0 ? now_ms : seconds, now_ms, later);
}

int later_at(PyObject *value, struct later *later)
{
    if (value == Py_None)
        return 0;
    const double now_ms = (double)clock_read_ns(CLOCK_REALTIME) / 1e6;
    const double seconds = seconds_of(value, "deliver_at", "timestamp", "a datetime or a number of seconds since 1970");
    return take(value, "deliver_at", seconds * 1e3, now_ms, later);
}

int later_cancel(PyObject *value, struct later *later)
{
    later->offset = PyLong_AsUnsignedLongLong(value);
    if (later->offset == UINT64_MAX && PyErr_Occurred())
        return -1;
    later->cancels = true;
    later->given++;
    return 0;
}

int later_own(PyObject *value, struct later *later, uint32_t word)
{
    char *bytes;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(value, &bytes, &size) < 0)
        return -1;
    later->own = word;
    later->own_bytes = (const uint8_t *)bytes;
    later->own_size = (uint32_t)size;
    later->given++;
    return 0;
}

int later_one(const struct later *later)
{
    if (later->given <= 1)
        return 0;
    py_raise("UsageError", "leave out {delay_level}, {delay} or {deliver_at}", NULL,
             "could not send: more than one of delay_level, delay and deliver_at was given");
    return -1;
}

uint8_t *later_put(const struct later *later, uint8_t *at)
{
    if (!later_size(later))
        return at;
    if (later->own) {
        memcpy(at, later->own_bytes, later->own_size);
        return at + later->own_size;
    }
    memcpy(at, later->cancels ? &later->offset : &later->at_ms, SEND_AT_SIZE);
    return at + SEND_AT_SIZE;
}

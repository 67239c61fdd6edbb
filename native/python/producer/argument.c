/* The arguments of sends: each is checked, and becomes the value that the C core takes. */
#include "python/producer/producer.h"

#include "format/reserved.h"
#include <string.h>

const char *const argument_names[ARGUMENTS] = {
    [ARG_TAGS] = "tags", [ARG_KEYS] = "keys", [ARG_QUEUE] = "queue", [ARG_QUEUE_KEY] = "queue_key",
    [ARG_DURABILITY] = "durability", [ARG_DELAY_LEVEL] = "delay_level", [ARG_DELAY] = "delay",
    [ARG_DELIVER_AT] = "deliver_at", [ARG_DEDUP] = "dedup", [ARG_TIMEOUT] = "timeout",
    [ARG_PROPERTIES] = "properties", [ARG_FLAG] = "flag", [ARG_CANCELS] = "_cancels", [ARG_OWN] = "_own",
    [ARG_HALF] = "_half", [ARG_SETTLES] = "_settles", [ARG_COMMITS] = "_commits",
};
static PyObject *interned[ARGUMENTS];

int arguments_init(void)
{
    for (int i = 0; i < ARGUMENTS; i++)
        if (!interned[i] && !(interned[i] = PyUnicode_InternFromString(argument_names[i])))
            return -1;
    return 0;
}

int parse_name(PyObject *name, int most, Py_ssize_t positional)
{
    for (int i = 0; i < most; i++)
        if (name == interned[i])
            return i;
    for (int i = 0; i < most; i++)
        if (PyUnicode_CompareWithASCIIString(name, argument_names[i]) == 0)
            return i;
    if (positional < 2 && (PyUnicode_CompareWithASCIIString(name, "topic") == 0 ||
                           PyUnicode_CompareWithASCIIString(name, most == ARGUMENTS ? "body" : "bodies") == 0))
        return ARG_POSITIONAL;
    return -1;
}

int parse_positional(PyObject *const *args, Py_ssize_t count, PyObject *names, const char *second, PyObject **topic,
                     PyObject **rest)
{
    const char *const wanted[2] = {"topic", second};
    PyObject *found[2] = {count > 0 ? args[0] : NULL, count > 1 ? args[1] : NULL};
    Py_ssize_t given = count;
    if (count < 2) {
        const Py_ssize_t named = names ? PyTuple_Size(names) : 0;
        for (Py_ssize_t i = 0; i < named; i++)
            for (int k = 0; k < 2; k++)
                if (PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, i), wanted[k]) == 0) {
                    given += 1;
                    found[k] = k < count ? NULL : args[count + i];
                }
    }
    if (given != 2 || !found[0] || !found[1])
        return refuse_positional(args, count, names, second);
    *topic = found[0];
    *rest = found[1];
    return 0;
}

static int property_error(PyObject *value, const char *what, const char *why)
{
    py_raise("PropertyError", NULL, Py_BuildValue("{s:O}", "value", value), "could not use %s %R: %s", what, value, why);
    return -1;
}

/* UTF-8 of a name or value for the properties string. A key must not contain a space either, because spaces separate keys. */
static int property_text(PyObject *value, const char *what, bool key, const char **text, uint32_t *size)
{
    Py_ssize_t length;
    if (!PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s must be str, not %R", what, (PyObject *)Py_TYPE(value));
        return -1;
    }
    const char *at = py_utf8(value, "PropertyError", what, &length);
    if (!at)
        return -1;
    if (length == 0)
        return property_error(value, what, "it is empty");
    if (length > (Py_ssize_t)PROPERTIES_MAX) {
        py_raise("PropertiesTooLarge", NULL, Py_BuildValue("{s:n,s:I}", "size", length, "limit", PROPERTIES_ROOM),
                   "could not use %s of %zd bytes: the properties may take %u", what, length, PROPERTIES_ROOM);
        return -1;
    }
    for (Py_ssize_t i = 0; i < length; i++) {
        const uint8_t byte = (uint8_t)at[i];
        if (byte == PROPERTY_NAME_END || byte == PROPERTY_END)
            return property_error(value, what, "it holds a separator byte (0x01 or 0x02)");
        if (key && byte == ' ')
            return property_error(value, what, "it holds a space, which separates keys");
    }
    *text = at;
    *size = (uint32_t)length;
    return 0;
}

int parse_tags(PyObject *value, const char **tags, uint32_t *size)
{
    *tags = NULL;
    *size = 0;
    if (value == Py_None)
        return 0;
    if (property_text(value, "tags", false, tags, size) < 0)
        return -1;
    for (uint32_t i = 1; i < *size; i++)
        if ((*tags)[i - 1] == '|' && (*tags)[i] == '|') {
            /* No filter could ask for it, not even in RocketMQ. */
            py_raise("PropertyError", "a message has one tag; what it is to be found by besides are keys",
                       Py_BuildValue("{s:O}", "value", value), "could not use tags %R: '||' separates the tags of a filter", value);
            return -1;
        }
    if ((uint8_t)(*tags)[0] <= ' ' || (uint8_t)(*tags)[*size - 1] <= ' ')
        return property_error(value, "tags", "a filter has the blanks around a tag taken away");
    if (*size == 1 && **tags == '*')
        return property_error(value, "tags", "a filter '*' wants all messages");
    return 0;
}

int parse_keys(PyObject *value, const char **keys, uint32_t *size, PyObject **joined)
{
    *keys = NULL;
    *joined = NULL;
    *size = 0;
    if (value == Py_None)
        return 0;
    if (PyUnicode_Check(value)) /* one key; taken as a sequence it would become one key per character, which nobody wants */
        return property_text(value, "key", true, keys, size);
    if (PyTuple_CheckExact(value) && PyTuple_Size(value) == 0)
        return 0;
    if (PyList_CheckExact(value) && PyList_Size(value) == 1) {
        /* the usual case, without a copy; we hold a reference, because another thread may empty the list while we wait for
         * room */
        *joined = PyList_GetItem(value, 0);
        Py_INCREF(*joined);
        if (property_text(*joined, "key", true, keys, size) == 0)
            return 0;
        Py_CLEAR(*joined);
        return -1;
    }
    PyObject *list = PySequence_List(value);
    if (!list)
        return refuse_type(value, "keys", "str or a sequence of str");
    const Py_ssize_t count = PyList_Size(list);
    const char *one;
    uint32_t one_size;
    int result = 0;
    for (Py_ssize_t i = 0; i < count && result == 0; i++)
        result = property_text(PyList_GetItem(list, i), "key", true, &one, &one_size);
    PyObject *space = result == 0 && count ? PyUnicode_FromString(" ") : NULL;
    if (space && (*joined = PyUnicode_Join(space, list))) {
        Py_ssize_t length;
        *keys = PyUnicode_AsUTF8AndSize(*joined, &length);
        *size = length > (Py_ssize_t)PROPERTIES_MAX ? PROPERTIES_MAX + 1 : (uint32_t)length; /* outgoing_fits refuses it */
    }
    Py_XDECREF(space);
    Py_DECREF(list);
    if (result == 0 && count && !*keys) {
        Py_CLEAR(*joined);
        result = -1;
    }
    return result;
}

int parse_id(PyObject *value, const char **id, uint32_t *size, PyObject **owner)
{
    PyObject *text = value;
    *id = NULL;
    *size = 0;
    *owner = NULL;
    if (value == Py_None)
        return 0;
    if (PyBytes_Check(value)) {
        if (!(text = *owner = PyObject_CallMethod(value, "hex", NULL)))
            return -1;
    } else if (!PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "dedup must be str or bytes, not %R", (PyObject *)Py_TYPE(value));
        return -1;
    }
    if (property_text(text, "dedup", false, id, size) < 0) {
        Py_CLEAR(*owner);
        return -1;
    }
    if ((*id)[0] == DEDUP_NUMBERED)
        return property_error(text, "dedup", "the ids that named producers number begin with the byte 0x03");
    if (*size <= DEDUP_ID_MAX)
        return 0;
    py_raise("PropertiesTooLarge", NULL, Py_BuildValue("{s:I,s:I}", "size", *size, "limit", DEDUP_ID_MAX),
             "could not use a dedup id of %u bytes: it may take %u", *size, DEDUP_ID_MAX);
    Py_CLEAR(*owner);
    return -1;
}

int parse_durability(PyObject *value, enum durability *durability)
{
    if (value == Py_None)
        return 0;
    if (PyUnicode_Check(value)) {
        if (PyUnicode_CompareWithASCIIString(value, "appended") == 0) {
            *durability = DURABILITY_APPENDED;
            return 0;
        }
        if (PyUnicode_CompareWithASCIIString(value, "flushed") == 0) {
            *durability = DURABILITY_FLUSHED;
            return 0;
        }
    }
    py_raise("SettingError", NULL, Py_BuildValue("{s:s,s:O}", "setting", "durability", "value", value),
               "could not send with durability %R: it is neither 'appended' nor 'flushed'", value);
    return -1;
}

int refuse_type(PyObject *value, const char *what, const char *wanted)
{
    if (PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(PyExc_TypeError, "%s must be %s, not %R", what, wanted, (PyObject *)Py_TYPE(value));
    return -1;
}

/* Of an integer that no double holds: whether it is more than 0, as a great double or as -1. */
static bool passes_zero(PyObject *value, double *seconds)
{
    PyErr_Clear();
    PyObject *zero = PyLong_FromLong(0);
    const int more = zero ? PyObject_RichCompareBool(value, zero, Py_GT) : -1;
    Py_XDECREF(zero);
    *seconds = more ? 1e300 : -1;
    return more >= 0;
}

int parse_timeout(PyObject *value, uint64_t *timeout_ns)
{
    if (value == Py_None)
        return 0;
    double seconds = PyFloat_AsDouble(value);
    const bool odd = seconds == -1.0 && PyErr_Occurred();
    if (odd && !PyErr_ExceptionMatches(PyExc_OverflowError))
        return refuse_type(value, "timeout", "a number of seconds");
    if (odd && !passes_zero(value, &seconds))
        return -1;
    if (!(seconds >= 0)) {
        py_raise("SettingError", NULL, Py_BuildValue("{s:s,s:O}", "setting", "timeout", "value", value),
                   "could not use timeout %R: it is not a number of seconds from 0", value);
        return -1;
    }
    *timeout_ns = seconds < 9e9 ? (uint64_t)(seconds * 1e9) : FOREVER;
    return 0;
}

int parse_queue(PyObject *value, int64_t *queue)
{
    if (value == Py_None)
        return 0;
    const long long number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return refuse_type(value, "queue", "int");
        PyErr_Clear();
    }
    if (number < 0 || number > UINT32_MAX) {
        py_raise("UnknownQueue", "queues are numbered from 0 || leave out {queue} for one after another",
                   Py_BuildValue("{s:O}", "queue", value),
                   "could not send to queue %R: no topic has a queue of this number", value);
        return -1;
    }
    *queue = number;
    return 0;
}

int parse_flag(PyObject *value, uint32_t *flag)
{
    const long long number = PyLong_AsLongLong(value);
    const bool odd = number == -1 && PyErr_Occurred();
    if (odd && !PyErr_ExceptionMatches(PyExc_OverflowError))
        return refuse_type(value, "flag", "int");
    if (odd)
        PyErr_Clear();
    if (odd || number < INT32_MIN || number > (long long)UINT32_MAX) {
        py_raise("SettingError", NULL, Py_BuildValue("{s:s,s:O}", "setting", "flag", "value", value),
                   "could not use flag %R: it does not fit in 32 bits", value);
        return -1;
    }
    *flag = (uint32_t)number;
    return 0;
}

/* -1 with PropertyError for a name that the caller must not set. */
static int refuse_reserved(PyObject *name, const char *text, uint32_t size)
{
    const enum reserved kind = reserved_property((struct slice){(const uint8_t *)text, size});
    const char *why = reserved_property_why(kind);
    if (!why)
        return 0;
    if (strcmp(text, "WAIT") == 0)
        why = "what a receipt waits for is given as durability=";
    if (strcmp(text, "DELAY") == 0)
        why = "how long a message waits is given as delay= or delay_level=";
    if (strncmp(text, "TIMER_DE", 8) == 0)
        why = "when a message is delivered is given as deliver_at= or delay=";
    if (strcmp(text, "DEDUP_ID") == 0)
        why = "the id of a message is given as dedup=";
    return property_error(name, "property", why);
}

/* A mapping from str to str. own: the library's own, which may have every name. */
PyObject *parse_properties(PyObject *mapping, bool own)
{
    PyObject *items = PyMapping_Items(mapping);
    if (!items && !PyObject_HasAttrString(mapping, "items")) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "properties must be a mapping, not %R", (PyObject *)Py_TYPE(mapping));
    }
    PyObject *pieces = items ? PyList_New(0) : NULL;
    bool good = pieces != NULL;
    for (Py_ssize_t i = 0; good && i < PyList_Size(items); i++) {
        PyObject *item = PyList_GetItem(items, i);
        const char *text;
        uint32_t size;
        PyObject *name = PyTuple_GetItem(item, 0), *value = PyTuple_GetItem(item, 1);
        good = name && value && property_text(name, "property", false, &text, &size) == 0 &&
               (own || refuse_reserved(name, text, size) == 0) &&
               property_text(value, "property value", false, &text, &size) == 0;
        PyObject *piece = good ? PyUnicode_FromFormat("%U\x01%U\x02", name, value) : NULL;
        good = piece && PyList_Append(pieces, piece) == 0;
        Py_XDECREF(piece);
    }
    PyObject *nothing = good ? PyUnicode_FromString("") : NULL;
    PyObject *joined = nothing ? PyUnicode_Join(nothing, pieces) : NULL;
    PyObject *encoded = joined ? PyUnicode_AsUTF8String(joined) : NULL;
    Py_XDECREF(joined);
    Py_XDECREF(nothing);
    Py_XDECREF(pieces);
    Py_XDECREF(items);
    return encoded;
}

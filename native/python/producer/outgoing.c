/* What one call sends: arguments checked, and the properties string that they make.
 *
 *   TAGS 0x01 tags 0x02 KEYS 0x01 key ' ' key 0x02 name 0x01 value 0x02 ...
 *
 * Strings are used in place: a str keeps its UTF-8, and the call keeps the str.
 */
#include "python/producer/producer.h"

#include "base/crc32.h"
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

/* Largest record that any broker accepts, bytes. MESSAGE_MAX in store/settings/settings.py. */
enum { MESSAGE_MOST = (16 << 20) - (64 << 10) };

int outgoing_init(void)
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

static int parse_flag(PyObject *value, uint32_t *flag)
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

static int parse_body(PyObject *body, struct outgoing *outgoing)
{
    Py_ssize_t size;
    if (PyBytes_Check(body)) {
        char *data;
        if (PyBytes_AsStringAndSize(body, &data, &size) < 0)
            return -1;
        outgoing->body = (const uint8_t *)data;
    } else if (PyUnicode_Check(body)) {
        if (!(outgoing->body = (const uint8_t *)py_utf8(body, "UsageError", "body", &size)))
            return -1;
    } else {
        if (!PyObject_CheckBuffer(body)) {
            PyErr_Format(PyExc_TypeError, "a body must be bytes, str or a buffer, not %R", (PyObject *)Py_TYPE(body));
            return -1;
        }
        if (py_bytes_view(body, &outgoing->view) < 0)
            return -1;
        outgoing->viewed = true;
        outgoing->body = outgoing->view.buf;
        size = outgoing->view.len;
    }
    /* A size that does not fit becomes the largest that does: outgoing_fits refuses both. */
    outgoing->body_size = size > (Py_ssize_t)UINT32_MAX ? UINT32_MAX : (uint32_t)size;
    return 0;
}

/* Adds properties that request() and reply() set. They come after those of the user, which would clear them. */
static int add_own(struct outgoing *outgoing, PyObject *mapping)
{
    PyObject *own = parse_properties(mapping, true);
    if (!own)
        return -1;
    if (outgoing->extra) {
        PyBytes_ConcatAndDel(&outgoing->extra, own);
        return outgoing->extra ? 0 : -1;
    }
    outgoing->extra = own;
    return 0;
}

static int parse_argument(struct outgoing *outgoing, enum argument which, PyObject *value)
{
    switch (which) {
    case ARG_TAGS:
        return parse_tags(value, &outgoing->tags, &outgoing->tags_size);
    case ARG_KEYS:
        Py_CLEAR(outgoing->joined);
        return parse_keys(value, &outgoing->keys, &outgoing->keys_size, &outgoing->joined);
    case ARG_QUEUE:
        return parse_queue(value, &outgoing->queue);
    case ARG_QUEUE_KEY:
        outgoing->queue_key = value == Py_None ? NULL : value;
        return 0;
    case ARG_PROPERTIES:
        Py_CLEAR(outgoing->extra);
        return value == Py_None || (outgoing->extra = parse_properties(value, false)) ? 0 : -1;
    case ARG_FLAG:
        return parse_flag(value, &outgoing->flag);
    case ARG_DURABILITY:
        return parse_durability(value, &outgoing->durability);
    case ARG_DELAY_LEVEL:
        return later_level(value, &outgoing->later);
    case ARG_DELAY:
        return later_delay(value, &outgoing->later);
    case ARG_DELIVER_AT:
        return later_at(value, &outgoing->later);
    case ARG_OWN:
        return add_own(outgoing, value);
    case ARG_DEDUP:
        Py_CLEAR(outgoing->id_text);
        return parse_id(value, &outgoing->id, &outgoing->id_size, &outgoing->id_text);
    case ARG_CANCELS:
        return later_cancel(value, &outgoing->later);
    case ARG_HALF:
        return later_own(value, &outgoing->later, SEND_HALF);
    case ARG_SETTLES:
        return later_own(value, &outgoing->later, SEND_SETTLE);
    case ARG_COMMITS:
        return later_own(value, &outgoing->later, SEND_OFFSETS);
    case ARG_TIMEOUT:
        return parse_timeout(value, &outgoing->timeout_ns);
    case ARGUMENTS:
    case ARG_POSITIONAL:
        break;
    }
    return -1;
}

int outgoing_parse(Producer *self, struct outgoing *outgoing, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *body;
    memset(outgoing, 0, offsetof(struct outgoing, numbered));
    if (parse_positional(args, count, names, "body", &outgoing->topic, &body) < 0)
        return -1;
    outgoing->queue = -1;
    outgoing->durability = self->durability;
    outgoing->timeout_ns = self->timeout_ns;
    int result = parse_body(body, outgoing);
    const Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < named && result == 0; i++) {
        const int which = parse_name(PyTuple_GetItem(names, i), ARGUMENTS, count);
        if (which == ARG_POSITIONAL)
            continue;
        result = which < 0 ? refuse_name(PyTuple_GetItem(names, i), args[count + i], ARGUMENTS)
                           : parse_argument(outgoing, (enum argument)which, args[count + i]);
    }
    if (result == 0)
        result = later_one(&outgoing->later);
    const bool message = !outgoing->later.cancels && (!outgoing->later.own || outgoing->later.own == SEND_HALF);
    if (result == 0 && self->name_size && !outgoing->id && message) {
        outgoing->id = outgoing->numbered;
        outgoing->id_size = producer_number(self, outgoing->numbered);
    }
    if (result < 0)
        outgoing_clear(outgoing);
    return result;
}

void outgoing_clear(struct outgoing *outgoing)
{
    if (outgoing->viewed)
        PyBuffer_Release(&outgoing->view);
    outgoing->viewed = false;
    Py_CLEAR(outgoing->joined);
    Py_CLEAR(outgoing->extra);
    Py_CLEAR(outgoing->id_text);
}

uint8_t *id_property_put(uint8_t *at, const char *text, uint32_t size)
{
    if (!text)
        return at;
    memcpy(at, DEDUP_PROPERTY, DEDUP_PROPERTY_SIZE);
    memcpy(at + DEDUP_PROPERTY_SIZE, text, size);
    at[DEDUP_PROPERTY_SIZE + size] = PROPERTY_END;
    return at + id_property_size(text, size);
}

uint8_t *properties_put(uint8_t *at, const char *name, const char *value, uint32_t size)
{
    memcpy(at, name, 4);
    at[4] = PROPERTY_NAME_END;
    memcpy(at + 5, value, size);
    at[5 + size] = PROPERTY_END;
    return at + 6 + size;
}

uint32_t outgoing_properties_size(const struct outgoing *outgoing)
{
    const uint64_t extra = outgoing->extra ? (uint64_t)PyBytes_Size(outgoing->extra) : 0;
    const uint64_t size = properties_size(outgoing->tags_size, outgoing->tags, outgoing->keys_size, outgoing->keys) + extra +
                          later_size(&outgoing->later) + id_property_size(outgoing->id, outgoing->id_size);
    return size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
}

uint8_t *outgoing_properties(const struct outgoing *outgoing, uint8_t *at)
{
    at = later_put(&outgoing->later, at);
    at = id_property_put(at, outgoing->id, outgoing->id_size);
    if (outgoing->tags)
        at = properties_put(at, "TAGS", outgoing->tags, outgoing->tags_size);
    if (outgoing->keys)
        at = properties_put(at, "KEYS", outgoing->keys, outgoing->keys_size);
    if (outgoing->extra) {
        const size_t size = (size_t)PyBytes_Size(outgoing->extra);
        memcpy(at, PyBytes_AsString(outgoing->extra), size);
        at += size;
    }
    return at;
}

/* Bytes of a local message's record beside properties and body. */
static uint32_t bytes_around(const struct sender *sender, uint32_t topic)
{
    const uint32_t wider = sender->control->settings.store_host.size - RECORD_HOST_V4;
    return RECORD_FIXED + wider + RECORD_CRC_SIZE + sender->topics->topic[topic].name_size;
}

uint64_t outgoing_room(const Producer *self, uint32_t topic)
{
    const struct sender *sender = &self->link->sender;
    const uint32_t broker = sender->control->settings.message_max;
    const uint32_t limit = sender->shape.message_max < broker ? sender->shape.message_max : broker;
    const uint32_t around = bytes_around(sender, topic);
    return limit > around ? limit - around : 0;
}

const char *outgoing_limit_hint(uint64_t size, uint32_t session, uint32_t broker)
{
    if (size > MESSAGE_MOST)
        return "send it in parts: no broker takes more than 16711680 bytes";
    if (size <= broker)
        return "raise {message_max of producer}";
    return session < broker ? "raise {message_max of producer} and {message_max of broker}" : "raise {message_max of broker}";
}

int outgoing_fits(const Producer *self, uint32_t topic, PyObject *name, uint64_t body_size, uint64_t size)
{
    const struct sender *sender = &self->link->sender;
    const uint64_t room = outgoing_room(self, topic);
    if (body_size + size <= room && size <= PROPERTIES_ROOM)
        return 0;
    const uint32_t around = bytes_around(sender, topic);
    if (size > PROPERTIES_ROOM)
        py_raise("PropertiesTooLarge", "send fewer keys or properties, or put them into the body",
                   Py_BuildValue("{s:O,s:K,s:I}", "topic", name, "size", (unsigned long long)size, "limit", PROPERTIES_ROOM),
                   "could not send to topic %R: the properties take %llu bytes, and the limit is %u", name,
                   (unsigned long long)size, PROPERTIES_ROOM);
    else
        py_raise("MessageTooLarge",
                   outgoing_limit_hint(body_size + size + around, sender->shape.message_max,
                                       sender->control->settings.message_max),
                   Py_BuildValue("{s:O,s:K,s:K}", "topic", name, "size", (unsigned long long)(body_size + size + around), "limit",
                                 (unsigned long long)(room + around)),
                   "could not send to topic %R: the record takes %llu bytes, and the limit is %llu", name,
                   (unsigned long long)(body_size + size + around), (unsigned long long)(room + around));
    return -1;
}

int outgoing_queue(const Producer *self, uint32_t topic, PyObject *name, int64_t wanted, PyObject *key, uint32_t *queue)
{
    /* relaxed: the number of queues only grows, and the handler checks again */
    const uint32_t queues =
        atomic_load_explicit(&self->link->sender.topics->topic[topic].queues, memory_order_relaxed);
    if (wanted >= 0 && key) {
        py_raise("UsageError", "leave out {queue} || leave out {queue_key}", NULL, "could not choose a queue of topic %R: both a number and a key were given", name);
        return -1;
    }
    if (wanted >= 0) {
        *queue = (uint32_t)wanted;
        if (wanted < queues)
            return 0;
        py_raise("UnknownQueue", "give the topic more queues || leave out {queue}",
                   Py_BuildValue("{s:O,s:L,s:I}", "topic", name, "queue", (long long)wanted, "queues", queues),
                   "could not send to queue %lld of topic %R: it has %u queues, numbered from 0", (long long)wanted, name, queues);
        return -1;
    }
    const char *text;
    Py_ssize_t size;
    if (PyUnicode_Check(key))
        text = py_utf8(key, "UsageError", "queue_key", &size);
    else if (PyBytes_Check(key))
        text = PyBytes_AsStringAndSize(key, (char **)&text, &size) < 0 ? NULL : text;
    else
        return PyErr_Format(PyExc_TypeError, "queue_key must be str or bytes, not %R", (PyObject *)Py_TYPE(key)), -1;
    if (!text)
        return -1;
    /* A CRC, so that every process and every later version sends a key the same way. */
    *queue = crc32_update(0, text, (size_t)size) % queues;
    return 0;
}

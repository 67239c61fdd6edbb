/* What one batch call sends: bodies, tags and keys, taken so that nobody can change them while we wait, and checked before the
 * first message is sent. If anything is wrong with any of them, nothing is in the log.
 *
 * Without a queue or a key the messages are spread over the topic's queues in runs of equal length, not one by one: the index
 * of a queue, and later its reader, then work on neighbouring memory.
 */
#include "python/producer/producer.h"

/* The bodies as a tuple of bytes. A tuple of bytes is used as it is; otherwise one is made, which nobody can change while we
 * wait. */
static PyObject *take_bodies(PyObject *bodies)
{
    if (PyBytes_Check(bodies) || PyUnicode_Check(bodies))
        return PyErr_Format(PyExc_TypeError, "bodies must be a sequence of bodies, not one of them: use send()");
    PyObject *items = PySequence_Tuple(bodies);
    const Py_ssize_t count = items ? PyTuple_Size(items) : 0;
    Py_ssize_t i = 0;
    while (i < count && PyBytes_CheckExact(PyTuple_GetItem(items, i)))
        i++;
    if (i == count)
        return items;
    PyObject *converted = PyTuple_New(count);
    for (i = 0; converted && i < count; i++) {
        PyObject *item = PyTuple_GetItem(items, i);
        PyObject *body;
        if (PyBytes_CheckExact(item)) {
            Py_INCREF(item);
            body = item;
        } else if (PyUnicode_Check(item)) {
            Py_ssize_t size;
            const char *text = py_utf8(item, "UsageError", "body", &size);
            body = text ? PyBytes_FromStringAndSize(text, size) : NULL;
        } else if (PyObject_CheckBuffer(item)) {
            body = PyBytes_FromObject(item);
        } else {
            PyErr_Format(PyExc_TypeError, "a body must be bytes, str or a buffer, not %R", (PyObject *)Py_TYPE(item));
            body = NULL;
        }
        if (!body || PyTuple_SetItem(converted, i, body) < 0)
            Py_CLEAR(converted);
    }
    Py_DECREF(items);
    return converted;
}

/* A value for each message, as a tuple of str or None. */
static PyObject *take_texts(PyObject *values, Py_ssize_t count, const char *what, bool keys)
{
    if (keys && PyUnicode_Check(values)) {
        PyErr_SetString(PyExc_TypeError, "keys must be a sequence with the key or keys of each message, not one str");
        return NULL;
    }
    PyObject *items = PySequence_Tuple(values);
    if (items && PyTuple_Size(items) != count) {
        py_raise("UsageError", NULL, Py_BuildValue("{s:n}", "value", PyTuple_Size(items)),
                   "could not send a batch of %zd bodies with %zd %s: there must be one for each", count, PyTuple_Size(items), what);
        Py_CLEAR(items);
    }
    PyObject *result = items ? PyTuple_New(count) : NULL;
    for (Py_ssize_t i = 0; result && i < count; i++) {
        PyObject *item = PyTuple_GetItem(items, i);
        PyObject *joined = NULL;
        const char *text;
        uint32_t size;
        if ((keys ? parse_keys(item, &text, &size, &joined) : parse_tags(item, &text, &size)) < 0) {
            Py_CLEAR(result);
            break;
        }
        if (!joined) {
            joined = text ? item : Py_None;
            Py_INCREF(joined);
        }
        PyTuple_SetItem(result, i, joined);
    }
    Py_XDECREF(items);
    return result;
}

struct piece parcel_text(PyObject *texts, uint32_t i)
{
    PyObject *text = texts && PyTuple_Check(texts) ? PyTuple_GetItem(texts, (Py_ssize_t)i) : texts;
    Py_ssize_t size = 0;
    if (!text || text == Py_None)
        return (struct piece){NULL, 0};
    /* cannot fail: the conversion was done once, and a str keeps the result */
    const char *at = PyUnicode_AsUTF8AndSize(text, &size);
    return (struct piece){at, (uint32_t)size};
}

/* Checks every message against the limits and sums up their strides. */
static int measure(Producer *self, Batch *batch, uint32_t topic)
{
    const uint64_t room = letter_room(self, topic);
    const bool tags_vary = PyTuple_Check(batch->tags);
    const struct piece shared = parcel_text(tags_vary ? Py_None : batch->tags, 0);
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct piece tags = tags_vary ? parcel_text(batch->tags, i) : shared;
        const struct piece keys = parcel_text(batch->keys, i);
        const uint64_t body = (uint64_t)PyBytes_Size(PyTuple_GetItem(batch->bodies, (Py_ssize_t)i));
        const uint64_t size = properties_size(tags.size, tags.text, keys.size, keys.text);
        if ((body + size > room || size > PROPERTIES_ROOM) && letter_fits(self, topic, batch->topic, body, size) < 0)
            return -1;
        batch->bytes += send_message_stride(size, body);
    }
    return 0;
}

/* The queues that the messages go to. */
static int choose_queues(Producer *self, Batch *batch, uint32_t topic, PyObject *key, int64_t wanted)
{
    /* relaxed: the number of queues only grows, and the handler checks again */
    const uint32_t queues = atomic_load_explicit(&self->link->sender.topics->topic[topic].queues, memory_order_relaxed);
    batch->queues = queues;
    if (wanted >= 0 || key) {
        batch->queue_left = batch->count;
        return letter_queue(self, topic, batch->topic, wanted, key, &batch->queue);
    }
    batch->longer = batch->count % queues;
    batch->queue = (self->next_queue[topic] + queues - 1) % queues; /* the first run moves on from it */
    self->next_queue[topic] = (self->next_queue[topic] + batch->longer) % queues;
    return 0;
}

uint32_t parcel_queue(Batch *batch)
{
    while (batch->queue_left == 0) {
        batch->queue = batch->queue + 1 < batch->queues ? batch->queue + 1 : 0;
        batch->queue_left = batch->count / batch->queues;
        if (batch->longer) {
            batch->longer--;
            batch->queue_left++;
        }
    }
    batch->queue_left--;
    return batch->queue;
}

/* tags=: one str for all, or one for each message. */
static int take_tags(Batch *batch, PyObject *value)
{
    const char *text;
    uint32_t size;
    PyObject *tags;
    if (value == Py_None || PyUnicode_Check(value)) {
        if (parse_tags(value, &text, &size) < 0)
            return -1;
        Py_INCREF(value);
        tags = value;
    } else {
        tags = take_texts(value, batch->count, "tags", false);
        if (!tags)
            return -1;
    }
    Py_DECREF(batch->tags);
    batch->tags = tags;
    return 0;
}

/* The queue that the caller chose for a batch. */
struct destination {
    int64_t queue;  /* -1: not given */
    PyObject *key;  /* borrowed, or NULL */
};

/* One keyword argument. */
static int take_argument(Batch *batch, int which, PyObject *value, struct destination *to, uint64_t *timeout_ns)
{
    switch (which) {
    case ARG_TAGS:
        return take_tags(batch, value);
    case ARG_KEYS:
        Py_CLEAR(batch->keys);
        return value == Py_None || (batch->keys = take_texts(value, batch->count, "keys", true)) ? 0 : -1;
    case ARG_QUEUE:
        return parse_queue(value, &to->queue);
    case ARG_QUEUE_KEY:
        to->key = value == Py_None ? NULL : value;
        return 0;
    case ARG_DURABILITY:
        return parse_durability(value, &batch->durability);
    case ARG_TIMEOUT:
        return parse_timeout(value, timeout_ns);
    case ARG_POSITIONAL:
        return 0;
    default:
        return -1;
    }
}

int parcel_take(Producer *self, Batch *batch, PyObject *bodies, PyObject *const *args, Py_ssize_t count, PyObject *names,
                uint64_t *timeout_ns)
{
    *timeout_ns = self->timeout_ns;
    batch->durability = self->durability;
    if (!(batch->bodies = take_bodies(bodies)))
        return -1;
    if (PyTuple_Size(batch->bodies) > (Py_ssize_t)(UINT32_MAX / 2)) {
        PyErr_NoMemory();
        return -1;
    }
    batch->count = (uint32_t)PyTuple_Size(batch->bodies);
    struct destination to = {.queue = -1};
    const Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < named; i++) {
        const int which = parse_name(PyTuple_GetItem(names, i), ARG_TIMEOUT + 1, count);
        if (take_argument(batch, which, args[count + i], &to, timeout_ns) < 0)
            return -1;
    }
    if (producer_ready(self, born_now()) < 0)
        return -1;
    const uint32_t topic = producer_topic(self, batch->topic);
    if (topic == TOPIC_NONE || measure(self, batch, topic) < 0)
        return -1;
    return choose_queues(self, batch, topic, to.key, to.queue);
}

void parcel_drop(Batch *batch)
{
    Py_CLEAR(batch->bodies);
    Py_CLEAR(batch->keys);
    Py_CLEAR(batch->tags);
    table_drop(batch);
}

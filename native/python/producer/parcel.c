/* What one batch call sends: bodies, tags, keys and properties, taken so that nobody can change them while we wait, and checked before the
 * first message is sent. If anything is wrong with any of them, nothing is in the log.
 *
 * Without a queue or a key the messages are spread over the topic's queues in runs of equal length, not one by one: the index
 * of a queue, and later its reader, then work on neighbouring memory.
 */
#include "python/producer/batch.h"

#include <string.h>

/* A piece for each message, none of them set; NULL with an exception. */
static struct piece *new_pieces(Py_ssize_t count)
{
    struct piece *pieces = PyMem_Calloc(count ? (size_t)count : 1, sizeof *pieces);
    if (!pieces)
        PyErr_NoMemory();
    return pieces;
}

/* The bytes of one body, as a new reference. */
static PyObject *take_body(PyObject *item)
{
    if (PyBytes_CheckExact(item)) {
        Py_INCREF(item);
        return item;
    }
    if (PyUnicode_Check(item)) {
        Py_ssize_t size;
        const char *text = py_utf8(item, "UsageError", "body", &size);
        return text ? PyBytes_FromStringAndSize(text, size) : NULL;
    }
    if (PyObject_CheckBuffer(item))
        return PyBytes_FromObject(item);
    return PyErr_Format(PyExc_TypeError, "a body must be bytes, str or a buffer, not %R", (PyObject *)Py_TYPE(item));
}

/* Where the bytes of an object are that is certainly bytes. A size that does not fit becomes the largest that does, which is refused
 * as well. */
static struct piece piece_of(PyObject *bytes)
{
    char *text = NULL;
    Py_ssize_t size = 0;
    PyBytes_AsStringAndSize(bytes, &text, &size);
    return (struct piece){text, size > (Py_ssize_t)UINT32_MAX ? UINT32_MAX : (uint32_t)size};
}

/* The bodies as a tuple of bytes, and where each is. A tuple of bytes is used as it is; otherwise one is made, which nobody can
 * change while we wait. */
static int take_bodies(Batch *batch, PyObject *bodies)
{
    if (PyBytes_Check(bodies) || PyUnicode_Check(bodies)) {
        PyErr_SetString(PyExc_TypeError, "bodies must be a sequence of bodies, not one of them: use send()");
        return -1;
    }
    PyObject *items = PySequence_Tuple(bodies);
    if (!items)
        return -1;
    batch->bodies = items;
    const Py_ssize_t count = PyTuple_Size(items);
    if (count > (Py_ssize_t)(UINT32_MAX / 2)) {
        PyErr_NoMemory();
        return -1;
    }
    batch->count = (uint32_t)count;
    if (!(batch->body = new_pieces(count)))
        return -1;
    PyObject *converted = NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *body = PyTuple_GetItem(items, i);
        if (!converted && !PyBytes_CheckExact(body)) {
            converted = batch->bodies = PyTuple_New(count); /* the first ones stay alive in both */
            for (Py_ssize_t k = 0; converted && k < i; k++) {
                PyObject *before = PyTuple_GetItem(items, k);
                Py_INCREF(before);
                PyTuple_SetItem(converted, k, before);
            }
            if (!converted)
                break;
        }
        if (converted && (!(body = take_body(body)) || PyTuple_SetItem(converted, i, body) < 0))
            break;
        batch->body[i] = piece_of(body);
    }
    if (batch->bodies != items)
        Py_DECREF(items);
    return PyErr_Occurred() ? -1 : 0;
}

static void wrong_count(Py_ssize_t bodies, Py_ssize_t values, const char *what)
{
    py_raise("UsageError", NULL, Py_BuildValue("{s:n}", "value", values),
             "could not send a batch of %zd bodies with %zd %s: there must be one for each", bodies, values, what);
}

/* A value for each message, as a tuple of str or None, and where each is. */
static PyObject *take_texts(PyObject *values, Py_ssize_t count, const char *what, bool keys, struct piece **pieces)
{
    if (keys && PyUnicode_Check(values)) {
        PyErr_SetString(PyExc_TypeError, "keys must be a sequence with the key or keys of each message, not one str");
        return NULL;
    }
    PyObject *items = PySequence_Tuple(values);
    if (items && PyTuple_Size(items) != count) {
        wrong_count(count, PyTuple_Size(items), what);
        Py_CLEAR(items);
    }
    PyObject *result = items ? PyTuple_New(count) : NULL;
    if (result && !(*pieces = new_pieces(count)))
        Py_CLEAR(result);
    for (Py_ssize_t i = 0; result && i < count; i++) {
        PyObject *item = PyTuple_GetItem(items, i);
        PyObject *joined = NULL;
        struct piece *piece = *pieces + i;
        if ((keys ? parse_keys(item, &piece->text, &piece->size, &joined) : parse_tags(item, &piece->text, &piece->size)) < 0) {
            Py_CLEAR(result);
            break;
        }
        if (!joined) {
            joined = piece->text ? item : Py_None;
            Py_INCREF(joined);
        }
        if (PyTuple_SetItem(result, i, joined) < 0) /* somebody who looks at all objects there are holds the tuple */
            Py_CLEAR(result);
    }
    Py_XDECREF(items);
    return result;
}

uint8_t *parcel_properties(const Batch *batch, uint32_t i, uint8_t *at)
{
    at = later_put(&batch->later, at);
    if (batch->id)
        at = id_property_put(at, batch->id[i].text, batch->id[i].size);
    if (batch->same.size)
        memcpy(at, batch->same.text, batch->same.size);
    at += batch->same.size;
    if (batch->tag && batch->tag[i].text)
        at = properties_put(at, "TAGS", batch->tag[i].text, batch->tag[i].size);
    if (batch->key && batch->key[i].text)
        at = properties_put(at, "KEYS", batch->key[i].text, batch->key[i].size);
    if (!batch->extra || !batch->extra[i].size)
        return at;
    memcpy(at, batch->extra[i].text, batch->extra[i].size);
    return at + batch->extra[i].size;
}

/* Checks every message against the limits and sums up their strides. */
static int measure(Producer *self, Batch *batch, uint32_t topic)
{
    const uint64_t room = outgoing_room(self, topic);
    for (uint32_t i = 0; i < batch->count; i++) {
        const uint64_t body = batch->body[i].size, size = parcel_properties_size(batch, i);
        if ((body + size > room || size > PROPERTIES_ROOM) && outgoing_fits(self, topic, batch->topic, body, size) < 0)
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
        return outgoing_queue(self, topic, batch->topic, wanted, key, &batch->queue);
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
    if (value != Py_None && !PyUnicode_Check(value))
        return (batch->tags = take_texts(value, batch->count, "tags", false, &batch->tag)) ? 0 : -1;
    struct piece tags;
    if (parse_tags(value, &tags.text, &tags.size) < 0)
        return -1;
    if (!tags.text)
        return 0;
    char *same = PyMem_Malloc(properties_size(tags.size, true, 0, false));
    if (!same) {
        PyErr_NoMemory();
        return -1;
    }
    const uint8_t *end = properties_put((uint8_t *)same, "TAGS", tags.text, tags.size);
    batch->same = (struct piece){same, (uint32_t)(end - (uint8_t *)same)};
    return 0;
}

/* The encoded properties of one message, or None. */
static PyObject *take_mapping(PyObject *item)
{
    if (item == Py_None) {
        Py_INCREF(item);
        return item;
    }
    if (PyObject_HasAttrString(item, "items"))
        return parse_properties(item, false);
    return PyErr_Format(PyExc_TypeError, "properties must be a mapping, or a sequence with a mapping or None for each message, not %R",
                        (PyObject *)Py_TYPE(item));
}

/* properties=: one mapping for all, or one for each message. */
static int take_properties(Batch *batch, PyObject *value)
{
    if (value == Py_None)
        return 0;
    const Py_ssize_t count = batch->count;
    const bool same = !PySequence_Check(value) || PyUnicode_Check(value) || PyBytes_Check(value) || PyObject_HasAttrString(value, "items");
    PyObject *items = same ? NULL : PySequence_Tuple(value);
    if (items && PyTuple_Size(items) != count) {
        wrong_count(count, PyTuple_Size(items), "properties");
        Py_CLEAR(items);
    }
    if (!(same || items) || !(batch->extra = new_pieces(count))) {
        Py_XDECREF(items);
        return -1;
    }
    if (same) {
        if ((batch->extras = take_mapping(value)))
            for (Py_ssize_t i = 0; i < count; i++)
                batch->extra[i] = piece_of(batch->extras);
        return batch->extras ? 0 : -1;
    }
    batch->extras = PyTuple_New(count);
    for (Py_ssize_t i = 0; batch->extras && i < count; i++) {
        PyObject *encoded = take_mapping(PyTuple_GetItem(items, i));
        if (encoded && encoded != Py_None)
            batch->extra[i] = piece_of(encoded);
        if (!encoded || PyTuple_SetItem(batch->extras, i, encoded) < 0)
            Py_CLEAR(batch->extras);
    }
    Py_DECREF(items);
    return batch->extras ? 0 : -1;
}

/* dedup=: an id for each message. */
static int take_ids(Batch *batch, PyObject *values)
{
    const Py_ssize_t count = batch->count;
    if (PyUnicode_Check(values) || PyBytes_Check(values)) {
        PyErr_SetString(PyExc_TypeError, "dedup must be a sequence with the id of each message, not one of them");
        return -1;
    }
    PyObject *items = PySequence_Tuple(values);
    if (!items)
        return -1;
    if (PyTuple_Size(items) != count) {
        wrong_count(count, PyTuple_Size(items), "ids");
        Py_DECREF(items);
        return -1;
    }
    int result = (batch->ids = PyTuple_New(count)) && (batch->id = new_pieces(count)) ? 0 : -1;
    for (Py_ssize_t i = 0; i < count && result == 0; i++) {
        PyObject *item = PyTuple_GetItem(items, i), *owner = NULL;
        if (item == Py_None) {
            PyErr_SetString(PyExc_TypeError, "dedup must have an id for each message of the batch, not None");
            result = -1;
        } else if ((result = parse_id(item, &batch->id[i].text, &batch->id[i].size, &owner)) == 0) {
            if (!owner) {
                Py_INCREF(item);
                owner = item;
            }
            result = PyTuple_SetItem(batch->ids, i, owner);
        }
    }
    Py_DECREF(items);
    return result;
}

/* Ids of the producer's own. */
static int number(Producer *self, Batch *batch)
{
    const size_t count = batch->count ? batch->count : 1;
    if (!(batch->id = new_pieces((Py_ssize_t)count)) || !(batch->numbered = PyMem_Malloc(count * NUMBERED_ID_MAX))) {
        PyErr_NoMemory();
        return -1;
    }
    char *at = batch->numbered;
    for (uint32_t i = 0; i < batch->count; i++) {
        batch->id[i] = (struct piece){at, producer_number(self, at)};
        at += batch->id[i].size;
    }
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
        return value == Py_None || (batch->keys = take_texts(value, batch->count, "keys", true, &batch->key)) ? 0 : -1;
    case ARG_PROPERTIES:
        return take_properties(batch, value);
    case ARG_QUEUE:
        return parse_queue(value, &to->queue);
    case ARG_QUEUE_KEY:
        to->key = value == Py_None ? NULL : value;
        return 0;
    case ARG_DURABILITY:
        return parse_durability(value, &batch->durability);
    case ARG_DELAY_LEVEL:
        return later_level(value, &batch->later);
    case ARG_DELAY:
        return later_delay(value, &batch->later);
    case ARG_DELIVER_AT:
        return later_at(value, &batch->later);
    case ARG_DEDUP:
        return value == Py_None ? 0 : take_ids(batch, value);
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
    if (take_bodies(batch, bodies) < 0)
        return -1;
    struct destination to = {.queue = -1};
    const Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < named; i++) {
        const int which = parse_name(PyTuple_GetItem(names, i), ARG_TIMEOUT + 1, count);
        if (which < 0)
            return refuse_name(PyTuple_GetItem(names, i), args[count + i], ARG_TIMEOUT + 1);
        if (take_argument(batch, which, args[count + i], &to, timeout_ns) < 0)
            return -1;
    }
    if (self->name_size && !batch->id && number(self, batch) < 0)
        return -1;
    if (later_one(&batch->later) < 0 || producer_ready(self, born_now()) < 0 ||
        (later_waits(&batch->later) && producer_delays(self, &batch->later) < 0))
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
    Py_CLEAR(batch->extras);
    Py_CLEAR(batch->ids);
    PyMem_Free(batch->body);
    PyMem_Free(batch->key);
    PyMem_Free(batch->tag);
    PyMem_Free(batch->extra);
    PyMem_Free(batch->id);
    PyMem_Free(batch->numbered);
    batch->numbered = NULL;
    PyMem_Free((char *)batch->same.text);
    batch->body = batch->key = batch->tag = batch->extra = batch->id = NULL;
    batch->same = (struct piece){NULL, 0};
    table_drop(batch);
}

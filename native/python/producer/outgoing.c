/* What one call sends, made of its arguments (argument.c), and the properties string that they make.
 *
 *   TAGS 0x01 tags 0x02 KEYS 0x01 key ' ' key 0x02 name 0x01 value 0x02 ...
 *
 * Strings are used in place: a str keeps its UTF-8, and the call keeps the str.
 */
#include "python/producer/producer.h"

#include "base/crc32.h"
#include <string.h>

/* Largest record that any broker accepts, bytes. MESSAGE_MAX in store/settings/settings.py. */
enum { MESSAGE_MOST = (16 << 20) - (64 << 10) };

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

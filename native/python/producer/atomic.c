/* An atomic batch of a producer's: messages to any topics, of which all are stored or none. They are checked first, all of them; then
 * they are put into the submission ring as one record of it.
 */
#include "python/producer/batch.h"
#include "format/atomic.h"

#include <string.h>

/* Room for the mark that the broker adds, which must fit as well. */
#define MARKED ATOMIC_MARK_MAX

struct parcel {
    struct outgoing *outgoing;
    uint32_t *topics, *queues; /* of each message; found again for each attempt */
    uint32_t count;
    uint32_t parsed;
    uint64_t bytes;            /* that the frames take in the ring */
    bool durable;              /* one answer for all */
};

static void drop(struct parcel *parcel)
{
    while (parcel->parsed)
        outgoing_clear(&parcel->outgoing[--parcel->parsed]);
    PyMem_Free(parcel->outgoing);
    PyMem_Free(parcel->topics);
    PyMem_Free(parcel->queues);
}

/* Sets the number of the message as the attribute `index` of the current exception. */
static int refuse(uint32_t index)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *number = PyLong_FromUnsignedLong(index);
    if (!number || !value || PyObject_SetAttrString(value, "index", number) < 0)
        PyErr_Clear(); /* the attribute only helps; the exception matters */
    Py_XDECREF(number);
    PyErr_Restore(type, value, traceback);
    return -1;
}

/* Each message is a pair: the values of send's arguments, and the names of those behind topic and body. */
static int parse(Producer *self, struct parcel *parcel, PyObject *messages)
{
    for (; parcel->parsed < parcel->count; parcel->parsed++) {
        PyObject *message = PyTuple_GetItem(messages, parcel->parsed);
        PyObject *values = PyTuple_GetItem(message, 0), *names = PyTuple_GetItem(message, 1);
        PyObject *args[2 + ARGUMENTS];
        const Py_ssize_t size = PyTuple_Size(values);
        if (size < 2 || size > (Py_ssize_t)(sizeof args / sizeof *args) || PyTuple_Size(names) != size - 2) {
            PyErr_SetString(PyExc_TypeError, "a message is a pair: values, and names");
            return -1;
        }
        for (Py_ssize_t i = 0; i < size; i++)
            args[i] = PyTuple_GetItem(values, i);
        if (outgoing_parse(self, &parcel->outgoing[parcel->parsed], args, 2, names) < 0)
            return refuse(parcel->parsed);
        if (parcel->parsed > 0)
            parcel->outgoing[parcel->parsed].id = NULL;
    }
    return 0;
}

/* The id of an atomic batch is that of its first message: what the program gives, or a named producer's. A batch that commits offsets has
 * none, since the offsets tell whether it was stored. */
static int identify(struct parcel *parcel, PyObject *dedup)
{
    struct outgoing *first = parcel->outgoing, *last = first + parcel->count - 1;
    if (last->later.own == SEND_OFFSETS)
        first->id = NULL;
    return dedup == Py_None ? 0 : parse_id(dedup, &first->id, &first->id_size, &first->id_text);
}

static bool begins_frame(const struct parcel *parcel, uint32_t i)
{
    return i == 0 || parcel->topics[i] != parcel->topics[i - 1];
}

/* Checks a message against the topic as it is now. */
static int address(Producer *self, struct parcel *parcel, uint32_t i, enum durability said)
{
    struct outgoing *outgoing = &parcel->outgoing[i];
    const uint32_t size = outgoing_properties_size(outgoing);
    if (later_waits(&outgoing->later) && producer_delays(self, &outgoing->later) < 0)
        return -1;
    const uint32_t topic = producer_topic(self, outgoing->topic);
    if (topic == TOPIC_NONE || outgoing_fits(self, topic, outgoing->topic, outgoing->body_size, (uint64_t)size + MARKED) < 0)
        return -1;
    parcel->topics[i] = topic;
    if (outgoing->queue >= 0 || outgoing->queue_key) {
        if (outgoing_queue(self, topic, outgoing->topic, outgoing->queue, outgoing->queue_key, &parcel->queues[i]) < 0)
            return -1;
    } else {
        /* relaxed: the number of queues only grows */
        const uint32_t queues = atomic_load_explicit(&self->link->sender.topics->topic[topic].queues, memory_order_relaxed);
        parcel->queues[i] = self->next_queue[topic];
        self->next_queue[topic] = parcel->queues[i] + 1 < queues ? parcel->queues[i] + 1 : 0;
    }
    parcel->durable |= producer_durable(self, topic, said ? said : outgoing->durability);
    parcel->bytes += (begins_frame(parcel, i) ? sizeof(struct send_frame) : 0) + send_message_stride(size, outgoing->body_size);
    return 0;
}

/* Whether a batch has more messages than any wait makes room for. If so, MessageTooLarge is raised. */
static bool too_many(const Producer *self, Py_ssize_t messages, PyObject *topic)
{
    const struct sender *sender = &self->link->sender;
    const uint64_t lane = lane_batch_messages(sender->control->settings.lane_capacity);
    const uint64_t most = lane < sender->shape.window ? lane : sender->shape.window;
    if ((uint64_t)messages <= most)
        return false;
    py_raise("MessageTooLarge",
               most == lane ? "send fewer messages at once || raise {lane_capacity of broker}"
                            : "send fewer messages at once || raise {window of producer}",
               Py_BuildValue("{s:O,s:n,s:K}", "topic", topic, "size", messages, "limit", (unsigned long long)most),
               "could not send an atomic batch of %zd messages: the limit is %llu", messages, (unsigned long long)most);
    return true;
}

/* A batch that no wait makes fit. */
static int fits(const Producer *self, const struct parcel *parcel, PyObject *topic)
{
    const struct sender *sender = &self->link->sender;
    const uint64_t ring = sender->shape.sq_capacity / 2;
    const uint64_t bytes = ring_stride(sizeof(struct send_atomic) + parcel->bytes);
    if (too_many(self, parcel->count, topic))
        return -1;
    if (bytes > ring)
        py_raise("MessageTooLarge", "send fewer messages at once || raise {window of producer}, which sizes the ring",
                   Py_BuildValue("{s:O,s:K,s:K}", "topic", topic, "size", (unsigned long long)bytes, "limit", (unsigned long long)ring),
                   "could not send an atomic batch of %llu bytes: half of the submission ring is %llu", (unsigned long long)bytes,
                   (unsigned long long)ring);
    else
        return 0;
    return -1;
}

/* One attempt. Runs no Python code while it has the lock. */
static enum sender_result post_once(Producer *self, const struct parcel *parcel, uint64_t born_ms)
{
    struct link *link = self->link;
    struct sender *sender = &link->sender;
    producer_lock(link);
    const enum sender_result result = sender_open_atomic(sender, parcel->count, (uint32_t)parcel->bytes);
    for (uint32_t i = 0; result == SENDER_OK && i < parcel->count; i++) {
        const struct outgoing *outgoing = &parcel->outgoing[i];
        if (begins_frame(parcel, i))
            sender_atomic_frame(sender, parcel->topics[i], frame_flags(parcel->durable, i == 0 && outgoing->id), born_ms);
        const struct send_message message = {
            .body_size = outgoing->body_size,
            .properties_size = outgoing_properties_size(outgoing),
            .queue_id = parcel->queues[i],
            .flag = outgoing->flag,
            .delay_level = later_word(&outgoing->later),
        };
        uint8_t *at = outgoing_properties(outgoing, sender_add(sender, &message));
        memcpy(at, outgoing->body, outgoing->body_size);
    }
    if (result == SENDER_OK)
        sender_close(sender);
    producer_unlock(link);
    return result;
}

static int post(Producer *self, Batch *batch, struct parcel *parcel, uint64_t timeout_ns, enum durability said)
{
    uint64_t deadline_ns = 0;
    for (;;) {
        const uint64_t born_ms = born_now();
        if (producer_ready(self, born_ms) < 0)
            return -1;
        const uint64_t life = self->life;
        parcel->durable = false;
        parcel->bytes = 0;
        for (uint32_t i = 0; i < parcel->count; i++)
            if (address(self, parcel, i, said) < 0)
                return refuse(i);
        if (!producer_usable(self, born_ms) || life != self->life)
            continue; /* asking for a topic in which a message can wait ran Python code: another session, or none */
        if (fits(self, parcel, batch->topic) < 0)
            return -1;
        struct link *link = self->link;
        const struct sender *sender = &link->sender;
        if (sender->submitted - sender->settled >= sender->shape.window / 2)
            link_harvest(link);
        const enum sender_result result = post_once(self, parcel, born_ms);
        if (result == SENDER_OK) {
            batch->life = self->life;
            batch->durable = parcel->durable;
            batch->sent = batch->count = parcel->count;
            batch->sequence = sender->submitted;
            link_push(link, RUN_BATCH, batch, 0, parcel->count);
            return 0;
        }
        if (producer_make_room(self, result, batch->topic, parcel->count, parcel->count, self->wait_when_full, timeout_ns,
                               &deadline_ns) < 0)
            return -1;
    }
}

static PyObject *topics_of(const struct parcel *parcel)
{
    PyObject *topics = PyTuple_New(parcel->count);
    for (uint32_t i = 0; topics && i < parcel->count; i++) {
        Py_INCREF(parcel->outgoing[i].topic);
        if (PyTuple_SetItem(topics, i, parcel->outgoing[i].topic) < 0)
            Py_CLEAR(topics);
    }
    return topics;
}

/* post_atomic(messages, durability, timeout, dedup=None): messages is a tuple, and not empty. */
PyObject *producer_post_atomic(Producer *self, PyObject *const *args, Py_ssize_t count)
{
    uint64_t timeout_ns = self->timeout_ns;
    enum durability said = DURABILITY_UNSAID;
    const Py_ssize_t messages = count == 3 || count == 4 ? PyTuple_Size(args[0]) : -1;
    if (messages < 1) {
        if (!PyErr_Occurred())
            py_raise("UsageError", NULL, NULL, "could not send an atomic batch without messages");
        return NULL;
    }
    if (messages > (Py_ssize_t)SESSION_WINDOW_MAX) {
        PyObject *values = PyTuple_GetItem(PyTuple_GetItem(args[0], 0), 0);
        PyObject *topic = values ? PyTuple_GetItem(values, 0) : NULL;
        if (topic)
            too_many(self, messages, topic);
        return NULL;
    }
    if (parse_durability(args[1], &said) < 0 || parse_timeout(args[2], &timeout_ns) < 0)
        return NULL;
    struct parcel parcel = {.count = (uint32_t)messages};
    parcel.outgoing = PyMem_Calloc((size_t)messages, sizeof *parcel.outgoing);
    parcel.topics = PyMem_Calloc((size_t)messages, sizeof *parcel.topics);
    parcel.queues = PyMem_Calloc((size_t)messages, sizeof *parcel.queues);
    Batch *batch = batch_empty(self);
    if (batch && !(batch->verdicts = PyMem_Calloc((size_t)messages, sizeof *batch->verdicts)))
        Py_CLEAR(batch);
    if (!parcel.outgoing || !parcel.topics || !parcel.queues || !batch) {
        PyErr_NoMemory();
        Py_CLEAR(batch);
    } else if (parse(self, &parcel, args[0]) < 0 || identify(&parcel, count == 4 ? args[3] : Py_None) < 0 || !(batch->topics = topics_of(&parcel))) {
        Py_CLEAR(batch);
    } else {
        Py_INCREF(parcel.outgoing[0].topic);
        batch->topic = parcel.outgoing[0].topic;
        if (post(self, batch, &parcel, timeout_ns, said) < 0)
            Py_CLEAR(batch);
    }
    drop(&parcel);
    return (PyObject *)batch;
}

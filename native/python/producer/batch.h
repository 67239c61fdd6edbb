/* PendingBatch: what one call sends as many messages, and their verdicts. */
#ifndef ORBITMQ_BATCH_H
#define ORBITMQ_BATCH_H

#include "python/producer/producer.h"

struct piece {
    const char *text; /* NULL: none */
    uint32_t size;
};

struct batch {
    PyObject_HEAD
    Producer *producer;
    PyObject *topic;
    PyObject *topics;   /* of an atomic batch: tuple of each message's topic; or NULL */
    PyObject *bodies;   /* tuple of bytes, which keeps them; NULL once all are sent, like the following */
    PyObject *keys, *tags; /* tuples of str or None, or NULL */
    PyObject *extras;   /* tuple of bytes or None, encoded; or the bytes of all; or NULL */
    PyObject *ids;      /* tuple of str, or NULL */
    struct piece *body; /* where each message's body is, ... */
    struct piece *key, *tag, *extra, *id; /* ... its keys, tags, other properties, and id; NULL: none has any */
    char *numbered;     /* the text of ids of the producer's own */
    struct piece same;  /* the beginning of all properties strings: tags that were given once for all; its text is ours */
    struct table *table; /* instead of bodies, keys and tags; NULL once all are sent */
    struct completion *verdicts;
    uint64_t life;      /* of the session that its first message went into */
    uint64_t sequence;  /* of the newest message sent */
    uint64_t end;       /* of the last appended record */
    uint64_t flushed;   /* the flushed position when the result was taken */
    uint64_t bytes;     /* of the messages still to be sent, as strides */
    uint32_t count;     /* messages; lowered to sent if sending stopped half-way */
    uint32_t sent;
    uint32_t answered;
    uint32_t failed;
    uint32_t first_failed;
    uint32_t queue;     /* whose run it is */
    uint32_t queue_left; /* messages that still go there */
    uint32_t longer;    /* runs to come that take one more than count / queues */
    uint32_t queues;    /* of the topic, when the batch was made */
    enum durability durability;
    struct later later; /* of all */
    bool durable;       /* the result when the first message was sent: one answer for all */
    bool on_disk;       /* what was answered, was when the disk had it */
};

/* ---- parcel.c ---- */

/* A batch's bodies, and its keyword arguments, which follow `count` positional ones. 0, or -1 with an exception. */
int parcel_take(Producer *self, Batch *batch, PyObject *bodies, PyObject *const *args, Py_ssize_t count, PyObject *names,
                uint64_t *timeout_ns);
void parcel_drop(Batch *batch);

/* Bytes of message i's properties string. */
static inline uint64_t parcel_properties_size(const Batch *batch, uint32_t i)
{
    const struct piece tag = batch->tag ? batch->tag[i] : (struct piece){NULL, 0};
    const struct piece key = batch->key ? batch->key[i] : (struct piece){NULL, 0};
    const struct piece id = batch->id ? batch->id[i] : (struct piece){NULL, 0};
    return later_size(&batch->later) + id_property_size(id.text, id.size) + batch->same.size + (batch->extra ? batch->extra[i].size : 0) +
           properties_size(tag.size, tag.text, key.size, key.text);
}

/* Puts them to `at`; returns where they end. */
uint8_t *parcel_properties(const Batch *batch, uint32_t i, uint8_t *at);

/* The queue of the next message. */
uint32_t parcel_queue(Batch *batch);

/* ---- table.c ---- */

/* The arguments of send_columns. 0, or -1 with an exception. */
int table_take(Producer *self, Batch *batch, PyObject *arguments);
void table_drop(Batch *batch);

/* Bytes that message i takes in a frame. */
uint32_t table_stride(const Batch *batch, uint32_t i);

/* Fills the open frame until it, the window or the batch ends. Runs no Python code. */
void table_fill(Batch *batch, struct sender *sender);

/* ---- atomic.c ---- */

PyObject *producer_post_atomic(Producer *self, PyObject *const *args, Py_ssize_t count);

/* ---- pending_batch.c ---- */

Batch *batch_empty(Producer *self);
int batch_init(PyObject *module);
void batch_deliver(Batch *batch, uint32_t index, const struct completion *verdicts, uint32_t count, bool on_disk);
void batch_lose(Batch *batch, uint32_t code);
PyObject *producer_send_batch(Producer *self, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *producer_send_batch_async(Producer *self, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *producer_send_columns(Producer *self, PyObject *arguments);
PyObject *producer_batch(Producer *self, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *producer_push(Producer *self, PyObject *batch);

#endif

/* What one call sends out of Arrow's buffers: bodies and finished properties strings, each a column of bytes, so that no Python
 * object stands for a message. Everything is checked before the first is sent; the buffers are held until the last one is.
 *
 * The caller may write to its buffers at any time, even while we wait for room. So everything that decides where we read, and
 * how much, is copied first, and the copy is checked: offsets, and queues. Data and flags are read once, when a row is sent,
 * and decide nothing.
 *
 *   column    64-bit offsets of rows + 1 entries, never falling, into its data; native byte order
 *   queues    32 bits a row; negative: by the row's key, or in turn if that is empty
 */
#include "python/producer/batch.h"

#include "base/crc32.h"
#include <string.h>

struct column {
    int64_t *offsets; /* our copy; NULL: no such column */
    Py_buffer data;
};

struct table {
    struct column bodies, properties, keys;
    Py_buffer queues, flags;
    uint32_t queue[]; /* the result for queues and keys */
};

static struct piece cell(const struct column *column, uint32_t i)
{
    const int64_t *offsets = column->offsets;
    return (struct piece){(const char *)column->data.buf + offsets[i], (uint32_t)(offsets[i + 1] - offsets[i])};
}

static int take_words(PyObject *value, uint64_t count, size_t width, Py_buffer *view)
{
    if (PyObject_GetBuffer(value, view, PyBUF_SIMPLE) < 0)
        return -1;
    if ((uint64_t)view->len >= count * width && (uintptr_t)view->buf % width == 0)
        return 0;
    PyErr_Format(PyExc_ValueError, "a column of %llu words of %zu bytes has %zd, or is not aligned", (unsigned long long)count,
                 width, view->len);
    return -1;
}

static int take_column(PyObject *offsets, PyObject *data, uint32_t rows, struct column *column)
{
    Py_buffer words = {0};
    const size_t size = ((size_t)rows + 1) * sizeof(int64_t);
    const bool taken = take_words(offsets, (uint64_t)rows + 1, sizeof(int64_t), &words) == 0;
    if (taken && !(column->offsets = PyMem_Malloc(size)))
        PyErr_NoMemory();
    if (column->offsets)
        memcpy(column->offsets, words.buf, size);
    PyBuffer_Release(&words); /* does nothing to one that was not filled */
    if (!column->offsets || PyObject_GetBuffer(data, &column->data, PyBUF_SIMPLE) < 0)
        return -1;
    const int64_t *at = column->offsets;
    for (uint32_t i = 0; i < rows; i++)
        if (at[i] < 0 || at[i + 1] < at[i] || at[i + 1] - at[i] > (int64_t)UINT32_MAX) {
            PyErr_Format(PyExc_ValueError, "row %u of a column goes from byte %lld to %lld", i, (long long)at[i],
                         (long long)at[i + 1]);
            return -1;
        }
    if (at[rows] <= column->data.len)
        return 0;
    PyErr_Format(PyExc_ValueError, "a column of %zd bytes ends at %lld", column->data.len, (long long)at[rows]);
    return -1;
}

static int choose_queue(Producer *self, Batch *batch, uint32_t topic, uint32_t i)
{
    struct table *table = batch->table;
    const int32_t wanted = table->queues.buf ? ((const int32_t *)table->queues.buf)[i] : -1;
    const struct piece key = table->keys.offsets ? cell(&table->keys, i) : (struct piece){NULL, 0};
    if (wanted >= 0)
        return outgoing_queue(self, topic, batch->topic, wanted, NULL, &table->queue[i]);
    if (key.size) { /* like queue_key= of a send */
        table->queue[i] = crc32_update(0, key.text, key.size) % batch->queues;
    } else {
        table->queue[i] = self->next_queue[topic] % batch->queues;
        self->next_queue[topic] = (table->queue[i] + 1) % batch->queues;
    }
    return 0;
}

int table_take(Producer *self, Batch *batch, PyObject *arguments)
{
    PyObject *topic, *bodies[2], *properties[2], *queues, *flags, *keys[2];
    unsigned int rows;
    int durable;
    if (!PyArg_ParseTuple(arguments, "OIOOOOOOOOp", &topic, &rows, &bodies[0], &bodies[1], &properties[0], &properties[1], &queues,
                          &flags, &keys[0], &keys[1], &durable))
        return -1;
    Py_INCREF(topic);
    batch->topic = topic;
    batch->durability = durable ? DURABILITY_FLUSHED : DURABILITY_APPENDED;
    struct table *table = rows <= UINT32_MAX / 8 ? PyMem_Malloc(sizeof *table + (size_t)rows * sizeof table->queue[0]) : NULL;
    if (!table) {
        PyErr_NoMemory();
        return -1;
    }
    memset(table, 0, sizeof *table);
    batch->table = table;
    batch->count = rows;
    if (take_column(bodies[0], bodies[1], rows, &table->bodies) < 0 ||
        take_column(properties[0], properties[1], rows, &table->properties) < 0 ||
        (queues != Py_None && take_words(queues, rows, sizeof(int32_t), &table->queues) < 0) ||
        (flags != Py_None && take_words(flags, rows, sizeof(int32_t), &table->flags) < 0) ||
        (keys[0] != Py_None && take_column(keys[0], keys[1], rows, &table->keys) < 0))
        return -1;
    if (producer_ready(self, born_now()) < 0)
        return -1;
    const uint32_t index = producer_topic(self, topic);
    if (index == TOPIC_NONE)
        return -1;
    /* relaxed: the number of queues only grows, and the handler checks again */
    batch->queues = atomic_load_explicit(&self->link->sender.topics->topic[index].queues, memory_order_relaxed);
    for (uint32_t i = 0; i < rows; i++) {
        const uint64_t body = cell(&table->bodies, i).size, size = cell(&table->properties, i).size;
        if (outgoing_fits(self, index, topic, body, size) < 0 || choose_queue(self, batch, index, i) < 0)
            return -1;
        batch->bytes += send_message_stride(size, body);
    }
    return 0;
}

void table_drop(Batch *batch)
{
    struct table *table = batch->table;
    if (!table)
        return;
    batch->table = NULL; /* first: releasing may run Python code */
    Py_buffer *const held[] = {&table->bodies.data, &table->properties.data, &table->keys.data, &table->queues, &table->flags};
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++)
        PyBuffer_Release(held[i]); /* does nothing to one that was never filled */
    PyMem_Free(table->bodies.offsets);
    PyMem_Free(table->properties.offsets);
    PyMem_Free(table->keys.offsets);
    PyMem_Free(table);
}

uint32_t table_stride(const Batch *batch, uint32_t i)
{
    return (uint32_t)send_message_stride(cell(&batch->table->properties, i).size, cell(&batch->table->bodies, i).size);
}

void table_fill(Batch *batch, struct sender *sender)
{
    const struct table *table = batch->table;
    for (; batch->sent < batch->count; batch->sent++) {
        const uint32_t i = batch->sent;
        const struct piece body = cell(&table->bodies, i), properties = cell(&table->properties, i);
        const struct send_message message = {
            .body_size = body.size,
            .properties_size = properties.size,
            .queue_id = table->queue[i],
            .flag = table->flags.buf ? ((const uint32_t *)table->flags.buf)[i] : 0,
        };
        uint8_t *at = sender_add(sender, &message);
        if (!at)
            return;
        memcpy(at, properties.text, properties.size);
        memcpy(at + properties.size, body.text, body.size);
        batch->bytes -= send_message_stride(properties.size, body.size);
    }
}

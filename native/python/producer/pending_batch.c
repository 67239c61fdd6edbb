/* PendingBatch: many messages of one call. batch_new has everything checked (parcel.c); push() then encodes straight from the
 * bodies into the ring, frame by frame; verdicts come back as pieces of one table.
 */
#include "python/producer/batch.h"
#include "python/producer/producer_docs.h"

#include <string.h>

static PyTypeObject *batch_type;

/* An empty batch: the caller takes what is to be sent, and batch_made checks it. */
Batch *batch_empty(Producer *self)
{
    Batch *batch = PyObject_New(Batch, batch_type);
    if (!batch)
        return NULL;
    memset((char *)batch + sizeof(PyObject), 0, sizeof *batch - sizeof(PyObject));
    Py_INCREF((PyObject *)self);
    batch->producer = self;
    return batch;
}

/* The batch with room for its verdicts; NULL with an exception, which is set already if the arguments were not accepted. */
static Batch *batch_made(Batch *batch, int taken)
{
    if (taken < 0) {
        Py_CLEAR(batch);
    } else if (!(batch->verdicts = PyMem_Malloc((batch->count ? batch->count : 1) * sizeof *batch->verdicts))) {
        PyErr_NoMemory();
        Py_CLEAR(batch);
    }
    return batch;
}

static Batch *batch_new(Producer *self, PyObject *const *args, Py_ssize_t count, PyObject *names, uint64_t *timeout_ns)
{
    PyObject *topic, *bodies;
    if (parse_positional(args, count, names, "bodies", &topic, &bodies) < 0)
        return NULL;
    Batch *batch = batch_empty(self);
    if (!batch)
        return NULL;
    Py_INCREF(topic);
    batch->topic = topic;
    return batch_made(batch, parcel_take(self, batch, bodies, args, count, names, timeout_ns));
}

static void batch_dealloc(Batch *self)
{
    if (self->answered < self->sent)
        link_disown(producer_flight(self->producer), self);
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    parcel_drop(self);
    Py_XDECREF(self->topic);
    Py_XDECREF(self->topics);
    Py_DECREF((PyObject *)self->producer);
    PyMem_Free(self->verdicts);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

/* ---- sending ---- */

/* Fills the open frame with messages until it, the window or the batch ends. Runs no Python code. */
static void fill_frame(Batch *batch, struct sender *sender)
{
    for (; batch->sent < batch->count; batch->sent++) {
        const struct piece body = batch->body[batch->sent];
        const uint32_t queue_left = batch->queue_left, longer = batch->longer, queue = batch->queue;
        const struct send_message message = {
            .body_size = body.size,
            .properties_size = (uint32_t)parcel_properties_size(batch, batch->sent),
            .queue_id = parcel_queue(batch),
            .delay_level = later_word(&batch->later),
        };
        uint8_t *at = sender_add(sender, &message);
        if (!at) { /* no room: its queue has not been assigned yet */
            batch->queue_left = queue_left;
            batch->longer = longer;
            batch->queue = queue;
            return;
        }
        memcpy(parcel_properties(batch, batch->sent, at), body.text, body.size);
        batch->bytes -= send_message_stride(message.properties_size, body.size);
    }
}

static uint32_t stride_of(const Batch *batch, uint32_t i)
{
    if (batch->table)
        return table_stride(batch, i);
    return (uint32_t)send_message_stride(parcel_properties_size(batch, i), batch->body[i].size);
}

/* Sends what there is room for: SENDER_OK if that was everything, or the obstacle; -1 with an exception. */
static int push(Producer *self, Batch *batch)
{
    while (batch->sent < batch->count) {
        const uint64_t born_ms = born_now();
        if (batch->sent && !self->name_size && (!producer_usable(self, born_ms) || batch->life != self->life)) {
            /* continuing would leave a hole in the middle; and nobody waits for another tree to learn that */
            const struct completion lost = {.code = VERDICT_LOST};
            verdict_result(self, batch->topic, &lost, 0);
            return -1;
        }
        if (batch->sent && !self->name_size && self->rides && producer_stopping(self)) {
            py_raise("BrokerStopped", "the rest is not stored; send it again when a broker runs", NULL,
                     "could not send the rest of a batch: the broker is stopping");
            return -1;
        }
        if (producer_ready(self, born_ms) < 0)
            return -1;
        if (batch->sent >= batch->count) /* opening a session runs Python code, which may have cut the batch */
            break;
        batch->life = self->life; /* one session for all, unless the producer has a name */
        const uint32_t topic = producer_topic(self, batch->topic);
        if (topic == TOPIC_NONE)
            return -1;
        if (batch->sent == 0)
            batch->durable = producer_durable(self, topic, batch->durability);
        struct link *link = self->link;
        struct sender *sender = &link->sender;
        if (sender->submitted - sender->settled >= sender->shape.window / 2)
            link_harvest(link);
        uint32_t room = batch->bytes < SENDER_FRAME_BYTES ? (uint32_t)batch->bytes : SENDER_FRAME_BYTES;
        const uint32_t least = stride_of(batch, batch->sent);
        if (room < least)
            room = least;
        const uint32_t first = batch->sent;
        producer_lock(link);
        const enum sender_result result = sender_open(sender, topic, frame_flags(batch->durable, batch->id), born_ms, room);
        if (result == SENDER_OK) {
            (batch->table ? table_fill : fill_frame)(batch, sender);
            sender_close(sender);
        }
        producer_unlock(link);
        if (result != SENDER_OK)
            return (int)result;
        batch->sequence = sender->submitted;
        link_push(link, RUN_BATCH, batch, first, batch->sent - first);
    }
    parcel_drop(batch);
    return SENDER_OK;
}

/* Ends a batch that was sent in part: it is now the batch of those messages, and the exception says so. */
static void cut_short(Batch *batch)
{
    verdict_pending((PyObject *)batch);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    batch->count = batch->sent;
    parcel_drop(batch);
    PyObject *sent = PyLong_FromUnsignedLong(batch->sent);
    if (!sent || !value || PyObject_SetAttrString(value, "sent", sent) < 0)
        PyErr_Clear();
    Py_XDECREF(sent);
    PyErr_Restore(type, value, traceback);
}

/* Sends all of it, and waits for room if the producer waits. */
static int push_all(Producer *self, Batch *batch, uint64_t timeout_ns)
{
    uint64_t deadline_ns = 0;
    if (!self->wait_when_full && producer_look(self)) {
        const struct sender *sender = &self->link->sender;
        if (batch->count > sender->shape.window - (sender->submitted - sender->settled)) {
            py_raise("Full", "raise {window of producer} || send less at once || use {on_full=wait of producer}",
                       Py_BuildValue("{s:O,s:s,s:I}", "topic", batch->topic, "limit", "window", "size", sender->shape.window),
                       "could not send %u messages to topic %R: the window of %u messages has no room for them", batch->count,
                       batch->topic, sender->shape.window);
            cut_short(batch);
            return -1;
        }
    }
    for (;;) {
        const int result = push(self, batch);
        if (result == SENDER_OK)
            return 0;
        if (result < 0 || producer_make_room(self, (enum sender_result)result, batch->topic, batch->count - batch->sent, 1,
                                             self->wait_when_full, timeout_ns, &deadline_ns) < 0) {
            cut_short(batch);
            return -1;
        }
    }
}

/* ---- verdicts ---- */

void batch_deliver(Batch *batch, uint32_t index, const struct completion *verdicts, uint32_t count, bool on_disk)
{
    batch->on_disk = on_disk && (batch->on_disk || batch->answered == 0);
    assert(index == batch->answered && count <= batch->sent - index);
    memcpy(batch->verdicts + index, verdicts, (size_t)count * sizeof *verdicts);
    batch->answered = index + count;
    for (uint32_t i = 0; i < count; i++)
        if (!verdict_stored(verdicts[i].code) && batch->failed++ == 0)
            batch->first_failed = index + i;
    const struct completion *last = &verdicts[count - 1];
    for (; !on_disk && last >= verdicts; last--) {
        const uint64_t end = last->physical_offset + last->size;
        if (verdict_stored(last->code) && end > batch->end)
            batch->end = end;
        if (last->code == VERDICT_APPENDED)
            break; /* those before it, and what they may be duplicates of, are before it in the log */
    }
}

void batch_lose(Batch *batch, uint32_t code)
{
    for (uint32_t i = batch->answered; i < batch->sent; i++) {
        batch->verdicts[i] = (struct completion){.code = code};
        if (batch->failed++ == 0)
            batch->first_failed = i;
    }
    batch->answered = batch->sent;
}

static bool answered(Batch *self)
{
    if (self->answered < self->sent)
        producer_look(self->producer);
    return self->answered == self->count;
}

static struct on_disk wish_of(const Batch *self)
{
    return (struct on_disk){.producer = self->producer, .topic = self->topic, .life = self->life, .end = self->end};
}

static uint64_t flush_end(const Batch *self)
{
    const struct on_disk wish = wish_of(self);
    return self->durable && self->end && disk_open(&wish) ? self->end : 0;
}

/* The message whose verdict tells best why not all are stored. Of an atomic batch that is the one that was refused. */
static uint32_t culprit(const Batch *self)
{
    const struct completion *first = &self->verdicts[self->first_failed];
    return first->code == VERDICT_BATCH_REFUSED && first->detail < self->answered ? first->detail : self->first_failed;
}

static PyObject *topic_of(const Batch *self, uint32_t i) { return self->topics ? PyTuple_GetItem(self->topics, i) : self->topic; }

static PyObject *failure(Batch *self)
{
    const uint32_t first = culprit(self);
    verdict_result(self->producer, topic_of(self, first), &self->verdicts[first], 0);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *receipts = PyObject_CallMethod((PyObject *)self->producer, "_receipts", "O", self);
    PyObject *index = PyLong_FromUnsignedLong(first);
    PyObject *failed = PyLong_FromUnsignedLong(self->failed);
    if (!receipts || !index || !failed || PyObject_SetAttrString(value, "receipts", receipts) < 0 ||
        PyObject_SetAttrString(value, "index", index) < 0 || PyObject_SetAttrString(value, "failed", failed) < 0)
        PyErr_Clear();
    Py_XDECREF(failed);
    Py_XDECREF(index);
    Py_XDECREF(receipts);
    PyErr_Restore(type, value, traceback);
    return NULL;
}

static PyObject *batch_wait(Batch *self, uint64_t timeout_ns)
{
    const uint64_t deadline_ns = deadline_after(timeout_ns);
    if (self->sent < self->count) {
        PyErr_SetString(PyExc_RuntimeError, "this batch is not sent yet");
        return NULL;
    }
    while (!answered(self)) {
        switch (producer_wait_verdict(self->producer, self->sequence, deadline_ns)) {
        case PRODUCER_ERROR:
            return NULL;
        case PRODUCER_TIMEOUT:
            return verdict_timeout(self->topic, timeout_ns, "could not get the receipts of a batch to");
        default:
            break;
        }
    }
    const struct on_disk wish = wish_of(self);
    if (self->durable && self->end) {
        struct completion verdict = {.code = VERDICT_APPENDED};
        if (disk_wait(&wish, timeout_ns, deadline_ns, &verdict) < 0)
            return NULL;
        if (verdict.code != VERDICT_APPENDED)
            return verdict_result(self->producer, self->topic, &verdict, 0);
    }
    self->flushed = self->on_disk ? FOREVER : disk_flushed(&wish);
    if (self->failed)
        return failure(self);
    return PyObject_CallMethod((PyObject *)self->producer, "_receipts", "O", self);
}

/* ---- the producer's methods ---- */

PyObject *producer_send_batch_async(Producer *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    uint64_t timeout_ns;
    Batch *batch = batch_new(self, args, count, names, &timeout_ns);
    if (batch && push_all(self, batch, timeout_ns) < 0)
        Py_CLEAR(batch);
    return (PyObject *)batch;
}

PyObject *producer_send_batch(Producer *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    uint64_t timeout_ns;
    Batch *batch = batch_new(self, args, count, names, &timeout_ns);
    if (!batch)
        return NULL;
    PyObject *receipts = NULL;
    if (push_all(self, batch, timeout_ns) == 0 && !(receipts = batch_wait(batch, timeout_ns)))
        cut_short(batch);
    Py_DECREF((PyObject *)batch);
    return receipts;
}

/* send_columns(topic, rows, bodies' offsets and data, properties' offsets and data, queues, flags, keys' offsets and data,
 * durable). */
PyObject *producer_send_columns(Producer *self, PyObject *arguments)
{
    Batch *batch = batch_empty(self);
    if (batch)
        batch = batch_made(batch, table_take(self, batch, arguments));
    if (batch && push_all(self, batch, self->timeout_ns) < 0)
        Py_CLEAR(batch);
    return (PyObject *)batch;
}

PyObject *producer_batch(Producer *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    uint64_t timeout_ns;
    return (PyObject *)batch_new(self, args, count, names, &timeout_ns);
}

PyObject *producer_push(Producer *self, PyObject *object)
{
    if (Py_TYPE(object) != batch_type || ((Batch *)object)->producer != self)
        return PyErr_Format(PyExc_TypeError, "push takes a batch of this producer");
    Batch *batch = (Batch *)object;
    for (;;) {
        /* An event loop pushes, and must not wait for a session: it opens one in a thread, and tries again. */
        if ((batch->sent == 0 || self->name_size) && !self->closed && !(producer_usable(self, born_now()) && !(self->rides && producer_stopping(self))))
            Py_RETURN_FALSE;
        const int result = push(self, batch);
        if (result == SENDER_OK)
            Py_RETURN_TRUE;
        if (result < 0 || result == SENDER_TOO_LARGE) {
            if (result > 0)
                producer_make_room(self, SENDER_TOO_LARGE, batch->topic, 1, 1, false, 0, &(uint64_t){0});
            cut_short(batch);
            return NULL;
        }
        const struct sender *sender = &self->link->sender;
        link_harvest(self->link);
        if (result == SENDER_RING_FULL || sender->submitted - sender->settled >= sender->shape.window)
            Py_RETURN_FALSE;
    }
}

/* ---- the type ---- */

static PyObject *batch_done(Batch *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(answered(self) && flush_end(self) == 0);
}

static PyObject *batch_result(Batch *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    uint64_t timeout_ns = FOREVER;
    if (parse_result_timeout(args, count, names, &timeout_ns) < 0)
        return NULL;
    return batch_wait(self, timeout_ns);
}

static PyObject *batch_receipt(Batch *self, PyObject *number)
{
    const Py_ssize_t i = PyNumber_AsSsize_t(number, PyExc_IndexError);
    if (i == -1 && PyErr_Occurred())
        return NULL;
    if (i < 0 || (uint64_t)i >= self->answered)
        return PyErr_Format(PyExc_IndexError, "no receipt %zd", i);
    return verdict_result(self->producer, topic_of(self, (uint32_t)i), &self->verdicts[i], self->flushed);
}

/* cut(): ends a batch that was sent in part; from then on it is the batch of those messages. */
static PyObject *batch_cut(Batch *self, PyObject *unused)
{
    (void)unused;
    self->count = self->sent;
    parcel_drop(self);
    return PyLong_FromUnsignedLong(self->sent);
}

static Py_ssize_t batch_length(Batch *self) { return (Py_ssize_t)self->count; }

static PyObject *batch_await(Batch *self)
{
    return PyObject_CallMethod((PyObject *)self->producer, "_awaiting", "O", self);
}

static PyObject *batch_flush_end(Batch *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(answered(self) ? flush_end(self) : 0);
}

static PyObject *batch_answered(Batch *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(answered(self));
}

/* The verdicts in their stored form: 32 bytes each (struct completion), native-endian, for the messages answered so far. */
static int batch_buffer(Batch *self, Py_buffer *view, int flags)
{
    return PyBuffer_FillInfo(view, (PyObject *)self, self->verdicts, (Py_ssize_t)(self->answered * sizeof *self->verdicts), 1, flags);
}

static PyMethodDef batch_methods[] = {
    {"done", (PyCFunction)batch_done, METH_NOARGS, DOC_DONE},
    {"result", (PyCFunction)(void (*)(void))batch_result, METH_FASTCALL | METH_KEYWORDS, DOC_BATCH_RESULT},
    {"receipt", (PyCFunction)batch_receipt, METH_O, DOC_RECEIPT},
    {"cut", (PyCFunction)batch_cut, METH_NOARGS, DOC_CUT},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef batch_getset[] = {
    {"flush_end", (getter)batch_flush_end, NULL, DOC_FLUSH_END, NULL},
    {"answered", (getter)batch_answered, NULL, DOC_ANSWERED, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot batch_slots[] = {
    {Py_tp_doc, (void *)"Messages on their way, from send_batch_async. result() waits for all their receipts; in asyncio it can be\n"
      "awaited. len(): how many there are."},
    {Py_tp_dealloc, (void *)batch_dealloc},
    {Py_tp_methods, batch_methods},
    {Py_tp_getset, batch_getset},
    {Py_sq_length, (void *)batch_length},
    {Py_bf_getbuffer, (void *)batch_buffer},
    {Py_am_await, (void *)batch_await},
    {0, NULL},
};

static PyType_Spec batch_spec = {
    .name = "orbitmq.native._types.PendingBatch",
    .basicsize = sizeof(Batch),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = batch_slots,
};

int batch_init(PyObject *module) { return (batch_type = py_add_type(module, &batch_spec)) ? 0 : -1; }

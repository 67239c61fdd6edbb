/* Delivers a Reader's fetches piece by piece: as messages, as bodies, or one record by its place. */
#include "python/consumer/reader_object.h"
#include "client/reader_copy.h"

int64_t py_reader_gather(struct reader_object *self, uint32_t most, uint64_t bytes, enum reader_use use)
{
    struct reader *reader = self->reader;
    if (reader->unchecked && use == READER_LOOKS)
        py_reader_put_back(self); /* an earlier call was going to copy them */
    if (self->taken == reader->count) {
        self->taken = 0;
        const bool fault = reader_fetch(reader, most, bytes, use) == 0 && (reader->fault.record != RECORD_GOOD || reader->fault.error);
        if (fault && !(self->strict && py_reader_removal(self))) {
            py_reader_raise(self);
            return -1;
        }
    }
    if (self->strict && py_reader_removal(self)) {
        py_reader_raise_removal(self);
        return -1;
    }
    const uint32_t rest = reader->count - self->taken;
    return rest < most ? rest : most;
}

void py_reader_put_back(struct reader_object *self)
{
    struct reader *reader = self->reader;
    for (uint32_t i = reader->count; i-- > self->taken;) {
        const struct message_ref *ref = &reader->refs[i];
        reader_seek(reader, ref->cursor, ref->queue_offset);
    }
    reader_release(reader);
    self->taken = 0;
}

PyObject *py_delivery_damaged(struct reader_object *self)
{
    const struct reader_fault fault = self->reader->fault;
    py_reader_put_back(self);
    self->reader->fault = fault;
    reader_pass(self->reader);
    return py_reader_raise(self);
}

/* ---- messages ---- */

/* pin: that of the reference's file, or NULL with an exception set. */
static PyObject *message_of(PyObject *pin, const struct message_ref *ref)
{
    return pin ? py_message_new(pin, ref->record, ref->size, ref->body_at, ref->body_size) : NULL;
}

/* The next `count` gathered messages, delivered. */
static PyObject *message_list(struct reader_object *self, int64_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    PyObject *pin = NULL;
    const struct log_file *pinned = NULL;
    const struct message_ref *refs = self->reader->refs + self->taken;
    for (int64_t i = 0; list && i < count; i++) {
        if (refs[i].file != pinned) {
            Py_XDECREF(pin);
            pin = py_pin_of(self, &refs[i]);
            pinned = refs[i].file;
        }
        PyObject *message = message_of(pin, &refs[i]);
        if (!message || PyList_SetItem(list, (Py_ssize_t)i, message) < 0)
            Py_CLEAR(list);
    }
    Py_XDECREF(pin);
    if (list)
        py_reader_delivered(self, (uint32_t)count);
    return list;
}

PyObject *py_delivery_messages(PyObject *object, PyObject *most_object)
{
    struct reader_object *self = py_reader_self(object);
    uint32_t most;
    if (!py_take_count(most_object, &most))
        return NULL;
    const int64_t count = py_reader_gather(self, most, UINT64_MAX, READER_LOOKS);
    return count < 0 ? NULL : message_list(self, count);
}

PyObject *py_delivery_range(PyObject *object, PyObject *const *arguments, Py_ssize_t arity)
{
    struct reader_object *self = py_reader_self(object);
    uint64_t cursor, first;
    uint32_t most;
    if (!py_arity("range", arity, 3) || !py_take_u64(arguments[0], &cursor) || !py_take_u64(arguments[1], &first) ||
        !py_take_count(arguments[2], &most))
        return NULL;
    if (cursor >= self->reader->cursor_count) {
        PyErr_SetString(PyExc_IndexError, "no such cursor");
        return NULL;
    }
    self->taken = 0;
    const uint32_t count = reader_fetch_range(self->reader, (uint32_t)cursor, first, most);
    if (!count && (self->reader->fault.record != RECORD_GOOD || self->reader->fault.error))
        return py_reader_raise(self);
    return message_list(self, count);
}

/* The first undelivered message; there is one. */
static PyObject *next_message(struct reader_object *self)
{
    const struct message_ref *ref = self->reader->refs + self->taken;
    PyObject *pin = py_pin_of(self, ref);
    PyObject *message = message_of(pin, ref);
    Py_XDECREF(pin);
    if (message)
        py_reader_delivered(self, 1);
    return message;
}

PyObject *py_delivery_message(PyObject *object, PyObject *size)
{
    struct reader_object *self = py_reader_self(object);
    uint32_t most;
    if (!py_take_count(size, &most))
        return NULL;
    const int64_t count = py_reader_gather(self, most, UINT64_MAX, READER_LOOKS);
    if (count <= 0)
        return count < 0 ? NULL : Py_NewRef(Py_None);
    return next_message(self);
}

PyObject *py_delivery_gathered(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct reader_object *self = py_reader_self(object);
    return self->taken < self->reader->count && !self->reader->unchecked ? next_message(self) : Py_NewRef(Py_None);
}

PyObject *py_delivery_record(PyObject *object, PyObject *offset_object)
{
    struct reader_object *self = py_reader_self(object);
    uint64_t offset;
    if (!py_take_u64(offset_object, &offset))
        return NULL;
    py_reader_put_back(self);
    if (!reader_record(self->reader, offset))
        return py_reader_raise(self);
    const struct message_ref *ref = self->reader->refs;
    PyObject *pin = py_pin_of(self, ref);
    PyObject *message = message_of(pin, ref);
    Py_XDECREF(pin);
    reader_release(self->reader);
    return message;
}

/* Of `count` gathered messages, those up to the one whose body reaches `bytes`: an earlier call may have fetched for more. */
static int64_t within(const struct message_ref *refs, int64_t count, uint64_t bytes)
{
    uint64_t sum = 0;
    int64_t i = 0;
    while (i < count && sum < bytes)
        sum += refs[i++].body_size;
    return i;
}

/* A copy of the body of a message of the fetch. NULL: it is damaged, with the reader's fault set; or with an exception. */
static PyObject *body_of(struct reader *reader, const struct message_ref *ref)
{
    if (reader_checked(reader, ref))
        return py_body_bytes(ref->record, ref->body_at, ref->body_size);
    PyObject *body = PyBytes_FromStringAndSize(NULL, ref->body_size);
    if (body && !reader_copy_body(reader, ref, (uint8_t *)PyBytes_AsString(body)))
        Py_CLEAR(body);
    return body;
}

PyObject *py_delivery_bodies(PyObject *object, PyObject *const *arguments, Py_ssize_t argument_count)
{
    struct reader_object *self = py_reader_self(object);
    struct reader *reader = self->reader;
    uint32_t most;
    uint64_t bytes;
    if (!py_arity("bodies", argument_count, 2) || !py_take_count(arguments[0], &most) || !py_take_u64(arguments[1], &bytes))
        return NULL;
    int64_t count = py_reader_gather(self, most, bytes, READER_COPIES);
    if (count < 0)
        return NULL;
    const struct message_ref *refs = reader->refs + self->taken;
    count = within(refs, count, bytes);
    PyObject *list = PyList_New((Py_ssize_t)count);
    int64_t done = 0;
    for (; list && done < count; done++) {
        PyObject *body = body_of(reader, &refs[done]);
        if (!body && !PyErr_Occurred()) { /* damaged; the next call begins with it */
            if (done == 0 || PyList_SetSlice(list, (Py_ssize_t)done, (Py_ssize_t)count, NULL) < 0)
                Py_CLEAR(list);
            break;
        }
        if (!body || PyList_SetItem(list, (Py_ssize_t)done, body) < 0)
            Py_CLEAR(list);
    }
    if (list)
        py_reader_delivered(self, (uint32_t)done);
    else if (!PyErr_Occurred())
        py_delivery_damaged(self);
    return list;
}

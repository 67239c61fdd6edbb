/* Reader: the consumer's view of the store for Python. Every method holds the interpreter lock for its whole length: a batch
 * takes microseconds, and giving the lock back beside a busy thread would cost milliseconds to get again.
 *
 * A batch is handed out piece by piece: refs[taken ...] are gathered but not delivered, and positions are those of the first
 * undelivered message. A Pin is a CommitLog file that messages keep mapped; there is at most one per file, found through
 * `pins`, which owns nothing: a Pin strikes itself out when its last message goes. */
#include "columns.h"
#include "fast_message.h"

#include <errno.h>

struct reader_object {
    PyObject_HEAD
    struct reader *reader;
    PyObject *owner; /* keeps control and topics mapped; NULL after close */
    uint32_t taken;  /* messages of the batch that were delivered */
    bool closed;
    struct column_note *notes;
    uint32_t notes_room;
    struct columns_size measured; /* what copy() will copy */
    PyObject *pins[LOG_MAP_SLOTS];
};

struct pin {
    PyObject_HEAD
    struct reader_object *reader;
    struct log_file *file;
};

static PyTypeObject *pin_type, *reader_type;

static struct reader_object *self_of(PyObject *self) { return (struct reader_object *)self; }

/* ---- pins ---- */

static void pin_dealloc(PyObject *self)
{
    struct pin *pin = (struct pin *)self;
    PyTypeObject *type = Py_TYPE(self);
    struct reader_object *reader = pin->reader;
    if (reader) {
        reader->pins[pin->file - reader->reader->log.files] = NULL;
        log_map_unpin(&reader->reader->log, pin->file);
        if (reader->closed) /* nobody will come by to do it */
            log_map_forget(&reader->reader->log, UINT64_MAX);
        Py_DECREF(reader);
    }
    PyObject_Free(self);
    Py_DECREF(type);
}

/* A borrowed pin would be enough for the first message; a new reference keeps it alive until all of a batch are made. */
static PyObject *pin_of(struct reader_object *self, const struct message_ref *ref)
{
    const size_t index = (size_t)(ref->file - self->reader->log.files);
    if (self->pins[index])
        return Py_NewRef(self->pins[index]);
    struct log_file *file = log_map_pin(&self->reader->log, ref->physical_offset);
    if (!file)
        return PyErr_SetFromErrno(PyExc_OSError);
    assert(file == ref->file); /* the batch has it pinned */
    struct pin *pin = (struct pin *)PyType_GenericAlloc(pin_type, 0);
    if (!pin) {
        log_map_unpin(&self->reader->log, file);
        return NULL;
    }
    pin->reader = (struct reader_object *)Py_NewRef((PyObject *)self);
    pin->file = file;
    self->pins[index] = (PyObject *)pin;
    return (PyObject *)pin;
}

static PyType_Slot pin_slots[] = {
    {Py_tp_doc, "A CommitLog file kept mapped by messages."},
    {Py_tp_dealloc, (void *)pin_dealloc},
    {0, NULL},
};

static PyType_Spec pin_spec = {
    .name = "orbitmq.native._fast.Pin",
    .basicsize = sizeof(struct pin),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = pin_slots,
};

/* ---- errors ---- */

static const char *record_fault_text(enum record_fault fault)
{
    switch (fault) {
    case RECORD_GOOD: break;
    case RECORD_IS_BLANK: return "a blank record stands there";
    case RECORD_END: return "nothing was written there";
    case RECORD_BAD_MAGIC: return "its magic is unknown";
    case RECORD_BAD_SIZE: return "its size does not fit its parts";
    case RECORD_BAD_BODY_CRC: return "its body does not match its CRC";
    case RECORD_BAD_CRC: return "it does not match its CRC property";
    case RECORD_BAD_PLACE: return "it belongs to another place";
    }
    return "it is damaged";
}

static PyObject *raise_fault(struct reader_object *self)
{
    struct reader *reader = self->reader;
    const struct reader_fault fault = reader->fault;
    reader->fault = (struct reader_fault){0};
    if (fault.error == ENOMEM)
        return PyErr_NoMemory();
    if (fault.error == EMFILE)
        return fast_raise("Full", "release messages, or copy what they hold", Py_BuildValue("{s:i}", "limit", (int)LOG_MAP_SLOTS),
                          "could not map another CommitLog file: live messages hold %d files", (int)LOG_MAP_SLOTS);
    PyObject *values = Py_BuildValue("{s:K,s:K}", "offset", (unsigned long long)fault.physical_offset, "queue_offset",
                                     (unsigned long long)fault.queue_offset);
    char where[TOPIC_NAME_MAX + 1] = "";
    long queue_id = -1;
    if (fault.cursor < reader->cursor_count) {
        const struct reader_cursor *cursor = &reader->cursors[fault.cursor];
        const struct reader_name *name = &reader->names[cursor->name];
        memcpy(where, name->text, name->size);
        queue_id = (long)cursor->queue_id;
        PyObject *topic = PyUnicode_FromString(where), *number = PyLong_FromLong(queue_id);
        if (!values || !topic || !number || PyDict_SetItemString(values, "topic", topic) < 0 ||
            PyDict_SetItemString(values, "queue", number) < 0)
            Py_CLEAR(values);
        Py_XDECREF(topic);
        Py_XDECREF(number);
    }
    if (fault.error && fault.in_queue)
        return fast_raise("StoreError", NULL, values, "could not read the ConsumeQueue of %s, queue %ld, at offset %llu: %s", where,
                          queue_id, (unsigned long long)fault.queue_offset, strerror(fault.error));
    if (fault.error)
        return fast_raise("StoreError", NULL, values, "could not map the CommitLog file of physical offset %llu: %s",
                          (unsigned long long)fault.physical_offset, strerror(fault.error));
    if (queue_id < 0)
        return fast_raise("CorruptRecord", NULL, values, "could not read the record at physical offset %llu: %s",
                          (unsigned long long)fault.physical_offset, record_fault_text(fault.record));
    return fast_raise("CorruptRecord", "seek past it to go on", values,
                      "could not read message %llu of %s, queue %ld, at physical offset %llu: %s",
                      (unsigned long long)fault.queue_offset, where, queue_id, (unsigned long long)fault.physical_offset,
                      record_fault_text(fault.record));
}

/* ---- arguments ---- */

static bool usable(struct reader_object *self)
{
    if (!self->closed)
        return true;
    fast_raise("Closed", NULL, NULL, "could not read: the consumer is closed");
    return false;
}

static bool take_u64(PyObject *value, uint64_t *out)
{
    *out = PyLong_AsUnsignedLongLong(value);
    return !(*out == UINT64_MAX && PyErr_Occurred());
}

static bool take_count(PyObject *value, uint32_t *out)
{
    uint64_t wide;
    if (!take_u64(value, &wide))
        return false;
    *out = wide > (1u << 24) ? 1u << 24 : (uint32_t)wide;
    return true;
}

static bool arity(const char *name, Py_ssize_t given, Py_ssize_t wanted)
{
    if (given == wanted)
        return true;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, %zd given", name, wanted, given);
    return false;
}

static bool take_cursor(struct reader_object *self, PyObject *value, uint32_t *out)
{
    uint64_t wide;
    if (!take_u64(value, &wide))
        return false;
    if (wide >= self->reader->cursor_count) {
        PyErr_SetString(PyExc_IndexError, "no such cursor");
        return false;
    }
    *out = (uint32_t)wide;
    return true;
}

/* ---- queues and positions ---- */

/* Gives back what was gathered but not delivered. */
static void put_back(struct reader_object *self)
{
    struct reader *reader = self->reader;
    for (uint32_t i = reader->count; i-- > self->taken;) {
        const struct message_ref *ref = &reader->refs[i];
        reader_seek(reader, ref->cursor, ref->queue_offset);
    }
    reader_release(reader);
    self->taken = 0;
}

static PyObject *reader_object_add(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    struct reader_object *self = self_of(object);
    uint64_t slot, position;
    if (!arity("add", count, 2) || !usable(self) || !take_u64(arguments[0], &slot) || !take_u64(arguments[1], &position))
        return NULL;
    const int64_t index = slot > UINT32_MAX ? (errno = EINVAL, -1) : reader_add(self->reader, (uint32_t)slot, position);
    if (index < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    return PyLong_FromLongLong(index);
}

static PyObject *reader_object_add_offline(PyObject *object, PyObject *arguments)
{
    struct reader_object *self = self_of(object);
    const char *topic;
    Py_ssize_t size;
    unsigned queue;
    unsigned long long begin, end;
    if (!PyArg_ParseTuple(arguments, "s#IKK:add_offline", &topic, &size, &queue, &begin, &end) || !usable(self))
        return NULL;
    const int64_t index = size > (Py_ssize_t)TOPIC_NAME_MAX
                              ? (errno = EINVAL, -1)
                              : reader_add_offline(self->reader, (const uint8_t *)topic, (uint32_t)size, queue, begin, end);
    if (index < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    return PyLong_FromLongLong(index);
}

static PyObject *reader_object_clear(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct reader_object *self = self_of(object);
    if (!usable(self))
        return NULL;
    reader_release(self->reader);
    self->taken = 0;
    reader_clear(self->reader);
    Py_RETURN_NONE;
}

static PyObject *reader_object_bounds(PyObject *object, PyObject *which)
{
    struct reader_object *self = self_of(object);
    uint32_t index;
    uint64_t min, max;
    if (!usable(self) || !take_cursor(self, which, &index))
        return NULL;
    reader_bounds(self->reader, index, &min, &max);
    return Py_BuildValue("(KK)", (unsigned long long)min, (unsigned long long)max);
}

static PyObject *reader_object_seek(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    struct reader_object *self = self_of(object);
    uint32_t index;
    uint64_t position;
    if (!arity("seek", count, 2) || !usable(self) || !take_cursor(self, arguments[0], &index) ||
        !take_u64(arguments[1], &position))
        return NULL;
    put_back(self);
    reader_seek(self->reader, index, position);
    Py_RETURN_NONE;
}

static PyObject *reader_object_positions(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct reader_object *self = self_of(object);
    if (!usable(self))
        return NULL;
    struct reader *reader = self->reader;
    PyObject *list = PyList_New(reader->cursor_count);
    for (uint32_t i = 0; list && i < reader->cursor_count; i++) {
        PyObject *position = PyLong_FromUnsignedLongLong(reader->cursors[i].position);
        if (!position || PyList_SetItem(list, i, position) < 0)
            Py_CLEAR(list);
    }
    /* undelivered messages, the last first, so that the first of each queue stays */
    for (uint32_t i = reader->count; list && i-- > self->taken;) {
        PyObject *position = PyLong_FromUnsignedLongLong(reader->refs[i].queue_offset);
        if (!position || PyList_SetItem(list, reader->refs[i].cursor, position) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *reader_object_search_time(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    struct reader_object *self = self_of(object);
    uint32_t index;
    uint64_t store_ms, offset;
    if (!arity("search_time", count, 2) || !usable(self) || !take_cursor(self, arguments[0], &index) ||
        !take_u64(arguments[1], &store_ms))
        return NULL;
    put_back(self);
    const bool found = reader_search_time(self->reader, index, store_ms, &offset);
    reader_release(self->reader);
    return found ? PyLong_FromUnsignedLongLong(offset) : raise_fault(self);
}

static PyObject *reader_object_filter(PyObject *object, PyObject *tags)
{
    struct reader_object *self = self_of(object);
    if (!usable(self))
        return NULL;
    const Py_ssize_t count = PySequence_Size(tags);
    if (count < 0 || count > 4096)
        return count < 0 ? NULL : PyErr_Format(PyExc_ValueError, "too many tags: %zd", count);
    struct slice *slices = PyMem_Calloc((size_t)count + 1, sizeof *slices);
    if (!slices)
        return PyErr_NoMemory();
    int result = 0;
    for (Py_ssize_t i = 0; i < count && result == 0; i++) {
        PyObject *tag = PySequence_GetItem(tags, i);
        char *data;
        Py_ssize_t size;
        result = tag ? PyBytes_AsStringAndSize(tag, &data, &size) : -1;
        if (result == 0)
            slices[i] = (struct slice){(const uint8_t *)data, (uint32_t)size};
        Py_XDECREF(tag); /* the sequence holds it */
    }
    put_back(self);
    if (result == 0 && reader_filter(self->reader, slices, (uint32_t)count)) {
        PyErr_NoMemory();
        result = -1;
    }
    PyMem_Free(slices);
    return result == 0 ? Py_NewRef(Py_None) : NULL;
}

/* ---- batches ---- */

/* Makes sure that undelivered messages are at hand, if there are any to be had. Returns how many, at most `most`; -1 with
 * an exception set. */
static int64_t gather(struct reader_object *self, uint32_t most)
{
    if (!usable(self))
        return -1;
    struct reader *reader = self->reader;
    if (self->taken == reader->count) {
        self->taken = 0;
        if (reader_fill(reader, most) == 0 && (reader->fault.record != RECORD_GOOD || reader->fault.error)) {
            raise_fault(self);
            return -1;
        }
    }
    const uint32_t rest = reader->count - self->taken;
    return rest < most ? rest : most;
}

/* After the last message of a batch its files are let go, so that an idle consumer pins nothing. */
static inline void delivered(struct reader_object *self, uint32_t count)
{
    self->taken += count;
    if (self->taken == self->reader->count) {
        reader_release(self->reader);
        self->taken = 0;
    }
}

static PyObject *reader_object_messages(PyObject *object, PyObject *most_object)
{
    struct reader_object *self = self_of(object);
    uint32_t most;
    if (!take_count(most_object, &most))
        return NULL;
    const int64_t count = gather(self, most);
    if (count < 0)
        return NULL;
    PyObject *list = PyList_New((Py_ssize_t)count);
    PyObject *pin = NULL;
    const struct log_file *pinned = NULL;
    const struct message_ref *refs = self->reader->refs + self->taken;
    for (int64_t i = 0; list && i < count; i++) {
        if (refs[i].file != pinned) {
            Py_XDECREF(pin);
            pin = pin_of(self, &refs[i]);
            pinned = refs[i].file;
        }
        PyObject *message =
            pin ? fast_message_new(pin, refs[i].record, refs[i].size, refs[i].body_at, refs[i].body_size) : NULL;
        if (!message || PyList_SetItem(list, (Py_ssize_t)i, message) < 0)
            Py_CLEAR(list);
    }
    Py_XDECREF(pin);
    if (list)
        delivered(self, (uint32_t)count);
    return list;
}

/* message(batch): the next message, out of a batch of that size, or None. */
static PyObject *reader_object_message(PyObject *object, PyObject *batch)
{
    struct reader_object *self = self_of(object);
    uint32_t most;
    if (!take_count(batch, &most))
        return NULL;
    const int64_t count = gather(self, most);
    if (count <= 0)
        return count < 0 ? NULL : Py_NewRef(Py_None);
    const struct message_ref *ref = self->reader->refs + self->taken;
    PyObject *pin = pin_of(self, ref);
    PyObject *message = pin ? fast_message_new(pin, ref->record, ref->size, ref->body_at, ref->body_size) : NULL;
    Py_XDECREF(pin);
    if (message)
        delivered(self, 1);
    return message;
}

static PyObject *bodies(struct reader_object *self, uint32_t count)
{
    PyObject *list = PyList_New(count);
    const struct message_ref *refs = self->reader->refs + self->taken;
    for (uint32_t i = 0; list && i < count; i++) {
        PyObject *body = fast_body_bytes(refs[i].record, refs[i].body_at, refs[i].body_size);
        if (!body || PyList_SetItem(list, (Py_ssize_t)i, body) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *reader_object_bodies(PyObject *object, PyObject *most_object)
{
    struct reader_object *self = self_of(object);
    uint32_t most;
    if (!take_count(most_object, &most))
        return NULL;
    const int64_t count = gather(self, most);
    PyObject *list = count < 0 ? NULL : bodies(self, (uint32_t)count);
    if (list)
        delivered(self, (uint32_t)count);
    return list;
}

/* ---- columns ---- */

static PyObject *reader_object_measure(PyObject *object, PyObject *const *arguments, Py_ssize_t argument_count)
{
    struct reader_object *self = self_of(object);
    uint32_t most;
    uint64_t selection;
    if (!arity("measure", argument_count, 2) || !take_u64(arguments[0], &selection) || !take_count(arguments[1], &most))
        return NULL;
    const int64_t count = gather(self, most);
    if (count < 0)
        return NULL;
    if (count > self->notes_room) {
        struct column_note *notes = PyMem_Realloc(self->notes, (size_t)count * sizeof *notes);
        if (!notes)
            return PyErr_NoMemory();
        self->notes = notes;
        self->notes_room = (uint32_t)count;
    }
    struct columns_size *size = &self->measured;
    columns_measure(self->reader->refs + self->taken, (uint32_t)count, (uint32_t)selection, self->notes, size);
    return Py_BuildValue("(IKKKIII)", size->rows, (unsigned long long)size->body, (unsigned long long)size->tags,
                         (unsigned long long)size->keys, size->tags_null, size->keys_null, size->compressed);
}

/* copy(16 addresses): body offsets, body, tags offsets, tags, tags validity, keys offsets, keys, keys validity, topic, queue,
 * offset, physical, born, stored, flag; 0: not wanted. Delivers the rows measured. */
#define COLUMN_ADDRESSES 15

static PyObject *reader_object_copy(PyObject *object, PyObject *const *arguments, Py_ssize_t argument_count)
{
    struct reader_object *self = self_of(object);
    void *to[COLUMN_ADDRESSES];
    if (!arity("copy", argument_count, COLUMN_ADDRESSES) || !usable(self))
        return NULL;
    for (int i = 0; i < COLUMN_ADDRESSES; i++) {
        to[i] = PyLong_AsVoidPtr(arguments[i]);
        if (!to[i] && PyErr_Occurred())
            return NULL;
    }
    if (self->measured.rows > self->reader->count - self->taken) {
        PyErr_SetString(PyExc_RuntimeError, "copy before measure");
        return NULL;
    }
    const struct columns columns = {
        .body = {to[0], to[1], NULL},
        .tags = {to[2], to[3], to[4]},
        .keys = {to[5], to[6], to[7]},
        .topic = to[8],
        .queue = to[9],
        .offset = to[10],
        .physical = to[11],
        .born_ms = to[12],
        .stored_ms = to[13],
        .flag = to[14],
    };
    columns_copy(self->reader->refs + self->taken, &self->measured, self->notes, self->reader->cursors, &columns);
    delivered(self, self->measured.rows);
    self->measured = (struct columns_size){0};
    Py_RETURN_NONE;
}

/* peek_bodies(count): bodies of undelivered messages, decompressed; for columns with compressed rows. */
static PyObject *reader_object_peek_bodies(PyObject *object, PyObject *count_object)
{
    struct reader_object *self = self_of(object);
    uint32_t count;
    if (!usable(self) || !take_count(count_object, &count))
        return NULL;
    const uint32_t rest = self->reader->count - self->taken;
    return bodies(self, count < rest ? count : rest);
}

/* ---- the rest ---- */

static PyObject *reader_object_names(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct reader_object *self = self_of(object);
    if (!usable(self))
        return NULL;
    const struct reader *reader = self->reader;
    PyObject *list = PyList_New(reader->name_count);
    for (uint32_t i = 0; list && i < reader->name_count; i++) {
        PyObject *name = PyUnicode_DecodeUTF8((const char *)reader->names[i].text, reader->names[i].size, "replace");
        if (!name || PyList_SetItem(list, i, name) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *reader_object_record(PyObject *object, PyObject *offset_object)
{
    struct reader_object *self = self_of(object);
    uint64_t offset;
    if (!usable(self) || !take_u64(offset_object, &offset))
        return NULL;
    put_back(self);
    if (!reader_record(self->reader, offset))
        return raise_fault(self);
    const struct message_ref *ref = self->reader->refs;
    PyObject *pin = pin_of(self, ref);
    PyObject *message = pin ? fast_message_new(pin, ref->record, ref->size, ref->body_at, ref->body_size) : NULL;
    Py_XDECREF(pin);
    reader_release(self->reader);
    return message;
}

static PyObject *reader_object_ready(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct reader_object *self = self_of(object);
    if (!usable(self))
        return NULL;
    return PyBool_FromLong(self->taken < self->reader->count || reader_ready(self->reader));
}

static PyObject *reader_object_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct reader_object *self = self_of(object);
    if (!self->closed) {
        self->closed = true;
        reader_close(self->reader);
        Py_CLEAR(self->owner);
    }
    Py_RETURN_NONE;
}

static PyObject *reader_object_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"control", "topics", "owner", "store", "log_file_size", "queue_file_units", NULL};
    PyObject *control_object = NULL, *topics_object = NULL, *owner = NULL;
    const char *store = NULL;
    unsigned long long log_file_size = 0;
    unsigned queue_file_units = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|OOO$sKI:Reader", names, &control_object, &topics_object, &owner,
                                     &store, &log_file_size, &queue_file_units))
        return NULL;
    const struct control *control = NULL;
    const struct topics *topics = NULL;
    if (control_object && topics_object) {
        control = PyLong_AsVoidPtr(control_object);
        topics = control ? PyLong_AsVoidPtr(topics_object) : NULL;
        if (PyErr_Occurred())
            return NULL;
        store = control ? control->settings.store : NULL;
        log_file_size = control ? control->settings.log_file_size : 0;
        queue_file_units = control ? control->settings.queue_file_units : 0;
    }
    if (!store || (control && !topics) || log_file_size == 0 || queue_file_units == 0 || strlen(store) >= 4000) {
        PyErr_SetString(PyExc_ValueError, "a reader needs a control block and topic table, or a store with its file sizes");
        return NULL;
    }
    struct reader *reader = reader_open(control, topics, store, log_file_size, queue_file_units);
    if (!reader)
        return PyErr_NoMemory();
    struct reader_object *self = self_of(PyType_GenericAlloc(type, 0));
    if (!self) {
        reader_close(reader);
        reader_free(reader);
        return NULL;
    }
    self->reader = reader;
    self->owner = Py_XNewRef(owner);
    return (PyObject *)self;
}

static void reader_object_dealloc(PyObject *object)
{
    struct reader_object *self = self_of(object);
    PyTypeObject *type = Py_TYPE(object);
    if (!self->closed && self->reader)
        reader_close(self->reader);
    if (self->reader)
        reader_free(self->reader); /* pins hold us, so none is left */
    PyMem_Free(self->notes);
    Py_XDECREF(self->owner);
    PyObject_Free(object);
    Py_DECREF(type);
}

enum reader_number { ADDRESS, COUNT, SKIPPED, VERIFY };

static PyObject *reader_object_number(PyObject *object, void *which)
{
    const struct reader_object *self = self_of(object);
    switch ((enum reader_number)(uintptr_t)which) {
    case ADDRESS: return PyLong_FromVoidPtr(self->reader);
    case COUNT: return PyLong_FromUnsignedLong(self->reader->cursor_count);
    case SKIPPED: return PyLong_FromUnsignedLongLong(self->reader->skipped);
    case VERIFY: return PyBool_FromLong(self->reader->verify);
    }
    Py_RETURN_NONE;
}

static int reader_object_set_verify(PyObject *object, PyObject *value, void *unused)
{
    (void)unused;
    const int verify = value ? PyObject_IsTrue(value) : 1;
    if (verify < 0)
        return -1;
    self_of(object)->reader->verify = verify;
    return 0;
}

static PyGetSetDef reader_attributes[] = {
    {"address", reader_object_number, NULL, "int: of the struct reader, for waits through cffi", (void *)ADDRESS},
    {"count", reader_object_number, NULL, "int: cursors", (void *)COUNT},
    {"skipped", reader_object_number, NULL, "int: messages that retention took before they were read", (void *)SKIPPED},
    {"verify", reader_object_number, reader_object_set_verify, "bool: check the CRC of each body", (void *)VERIFY},
    {NULL, NULL, NULL, NULL, NULL},
};

#define FAST(name) {#name, (PyCFunction)(void (*)(void))reader_object_##name, METH_FASTCALL, NULL}
#define ONE(name) {#name, reader_object_##name, METH_O, NULL}
#define NONE(name) {#name, reader_object_##name, METH_NOARGS, NULL}

static PyMethodDef reader_methods[] = {
    FAST(add),
    {"add_offline", reader_object_add_offline, METH_VARARGS, NULL},
    NONE(clear),
    ONE(bounds),
    FAST(seek),
    NONE(positions),
    FAST(search_time),
    ONE(filter),
    ONE(messages),
    ONE(message),
    ONE(bodies),
    FAST(measure),
    FAST(copy),
    ONE(peek_bodies),
    NONE(names),
    ONE(record),
    NONE(ready),
    NONE(close),
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_doc, "Reads queues of a store in batches. Belongs to one thread at a time."},
    {Py_tp_new, (void *)reader_object_new},
    {Py_tp_dealloc, (void *)reader_object_dealloc},
    {Py_tp_getset, reader_attributes},
    {Py_tp_methods, reader_methods},
    {0, NULL},
};

static PyType_Spec reader_spec = {
    .name = "orbitmq.native._fast.Reader",
    .basicsize = sizeof(struct reader_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = reader_slots,
};

int fast_add_consumer(PyObject *module)
{
    if (fast_add_message(module) < 0)
        return -1;
    pin_type = fast_add_type(module, &pin_spec);
    reader_type = pin_type ? fast_add_type(module, &reader_spec) : NULL;
    return reader_type ? 0 : -1;
}

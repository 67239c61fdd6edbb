/* The Reader's batches as Arrow buffers: measure says how large they must be, copy fills them where Python allocated them. */
#include "fast_reader.h"

PyObject *fast_columns_measure(PyObject *object, PyObject *const *arguments, Py_ssize_t argument_count)
{
    struct reader_object *self = fast_reader_self(object);
    uint32_t most;
    uint64_t selection;
    if (!fast_arity("measure", argument_count, 2) || !fast_take_u64(arguments[0], &selection) || !fast_take_count(arguments[1], &most))
        return NULL;
    const int64_t count = fast_reader_gather(self, most);
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

/* copy(addresses): body offsets, body, tags offsets, tags, tags validity, keys offsets, keys, keys validity, topic, queue,
 * offset, physical, born, stored, flag; 0: not wanted. Delivers the rows measured. */
#define COLUMN_ADDRESSES 15

PyObject *fast_columns_copy(PyObject *object, PyObject *const *arguments, Py_ssize_t argument_count)
{
    struct reader_object *self = fast_reader_self(object);
    void *to[COLUMN_ADDRESSES];
    if (!fast_arity("copy", argument_count, COLUMN_ADDRESSES) || !fast_reader_usable(self))
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
    fast_reader_delivered(self, self->measured.rows);
    self->measured = (struct columns_size){0};
    Py_RETURN_NONE;
}

PyObject *fast_columns_names(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct reader_object *self = fast_reader_self(object);
    if (!fast_reader_usable(self))
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

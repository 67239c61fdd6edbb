/* Pin: a CommitLog file that messages keep mapped. */
#include "python/consumer/reader_object.h"

struct pin {
    PyObject_HEAD
    struct reader_object *reader;
    struct log_file *file;
};

static PyTypeObject *pin_type;

static void pin_dealloc(PyObject *self)
{
    struct pin *pin = (struct pin *)self;
    PyTypeObject *type = Py_TYPE(self);
    struct reader_object *reader = pin->reader;
    if (reader) {
        reader->pins[pin->file - reader->reader->log.files] = NULL;
        log_map_unpin(&reader->reader->log, pin->file);
        if (reader->closed) /* nobody else will do it */
            log_map_forget(&reader->reader->log, UINT64_MAX);
        Py_DECREF(reader);
    }
    PyObject_Free(self);
    Py_DECREF(type);
}

/* A borrowed pin would be enough for the first message; a new reference keeps it alive until all messages of a fetch are
 * made. */
PyObject *py_pin_of(struct reader_object *self, const struct message_ref *ref)
{
    const size_t index = (size_t)(ref->file - self->reader->log.files);
    if (self->pins[index])
        return Py_NewRef(self->pins[index]);
    struct log_file *file = log_map_pin(&self->reader->log, ref->physical_offset);
    if (!file)
        return PyErr_SetFromErrno(PyExc_OSError);
    assert(file == ref->file); /* the fetch has it pinned */
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

/* Message.reply asks for it. */
static PyObject *pin_home(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *home = ((struct pin *)self)->reader->home;
    return Py_NewRef(home ? home : Py_None);
}

static PyGetSetDef pin_attributes[] = {
    {"home", pin_home, NULL, "the connection over which the messages are replied to, or None", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot pin_slots[] = {
    {Py_tp_doc, "A CommitLog file kept mapped by messages."},
    {Py_tp_dealloc, (void *)pin_dealloc},
    {Py_tp_getset, pin_attributes},
    {0, NULL},
};

static PyType_Spec pin_spec = {
    .name = "orbitmq.native._types.Pin",
    .basicsize = sizeof(struct pin),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = pin_slots,
};

int py_add_pin(PyObject *module)
{
    pin_type = py_add_type(module, &pin_spec);
    return pin_type ? 0 : -1;
}

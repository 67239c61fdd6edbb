/* What the files of the Python Reader share: fast_reader.c (queues and batches), fast_pin.c (files that messages keep mapped),
 * fast_columns.c (Arrow buffers), fast_waiter.c (sleeping until there is news).
 *
 * A batch is handed out piece by piece: refs[taken ...] are gathered but not delivered, and positions are those of the first
 * undelivered message. A Pin is a CommitLog file that messages keep mapped; there is at most one per file, found through
 * `pins`, which owns nothing: a Pin strikes itself out when its last message goes.
 */
#ifndef ORBITMQ_FAST_READER_H
#define ORBITMQ_FAST_READER_H

#include "columns.h"
#include "fast_message.h"

struct reader_object {
    PyObject_HEAD
    struct reader *reader;
    PyObject *owner; /* keeps control and topics mapped; NULL after close */
    uint32_t taken;  /* messages of the batch that were delivered */
    bool closed;
    bool busy;       /* a thread waits with it, without the interpreter lock ... */
    unsigned busy_in; /* ... of the process with this fast_forks(): in a forked child there is no such thread */
    struct column_note *notes;
    uint32_t notes_room;
    struct columns_size measured; /* what copy() will copy */
    PyObject *pins[LOG_MAP_SLOTS];
};

static inline struct reader_object *fast_reader_self(PyObject *self) { return (struct reader_object *)self; }

/* Arguments of METH_FASTCALL methods; false with an exception set. */
bool fast_arity(const char *name, Py_ssize_t given, Py_ssize_t wanted);
bool fast_take_u64(PyObject *value, uint64_t *out);
bool fast_take_count(PyObject *value, uint32_t *out); /* at most 16 M */

/* False with Closed raised, or UsageError while another thread waits with it. */
bool fast_reader_usable(const struct reader_object *self);

/* The Reader that a Python object is, or NULL with an exception: it is none, or not usable. */
struct reader_object *fast_reader_of(PyObject *object);

/* Makes sure that undelivered messages are at hand, if there are any to be had. Returns how many, at most `most`; -1 with
 * an exception set. */
int64_t fast_reader_gather(struct reader_object *self, uint32_t most);

/* Counts messages as delivered. After the last of a batch its files are let go, so that an idle consumer pins nothing. */
static inline void fast_reader_delivered(struct reader_object *self, uint32_t count)
{
    self->taken += count;
    if (self->taken == self->reader->count) {
        reader_release(self->reader);
        self->taken = 0;
    }
}

/* Raises what reader->fault says, and clears it. */
PyObject *fast_reader_raise(struct reader_object *self);

/* The bodies of the next undelivered messages, as bytes; delivers nothing. */
PyObject *fast_reader_bodies(struct reader_object *self, uint32_t count);

/* A new reference to the pin of a reference's file. */
PyObject *fast_pin_of(struct reader_object *self, const struct message_ref *ref);
int fast_add_pin(PyObject *module);

/* Methods of the Reader that stand in fast_columns.c. */
PyObject *fast_columns_measure(PyObject *object, PyObject *const *arguments, Py_ssize_t count);
PyObject *fast_columns_copy(PyObject *object, PyObject *const *arguments, Py_ssize_t count);
PyObject *fast_columns_names(PyObject *object, PyObject *unused);

int fast_add_waiter(PyObject *module);

#endif

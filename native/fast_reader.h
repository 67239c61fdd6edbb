/* What the files of the Python Reader share:
 *
 *   fast_reader.c    the type Reader: its life, its queues and positions
 *   fast_delivery.c  its batches as messages and bodies
 *   fast_columns.c   its batches as Arrow buffers
 *   fast_pin.c       CommitLog files that messages keep mapped
 *   fast_fault.c     what it raises
 *   fast_waiter.c    the type Waiter: sleeping until there is news
 *
 * A batch is handed out piece by piece: refs[taken ...] are gathered but not delivered, and positions are those of the first
 * undelivered message. A Pin is a CommitLog file that messages keep mapped; there is at most one per file, found through
 * `pins`, which owns nothing: a Pin strikes itself out when its last message goes.
 */
#ifndef ORBITMQ_FAST_READER_H
#define ORBITMQ_FAST_READER_H

#include "columns.h"
#include "fast_arguments.h"
#include "fast_message.h"

struct reader_object {
    PyObject_HEAD
    struct reader *reader;
    PyObject *owner; /* keeps control and topics mapped; NULL after close */
    uint32_t taken;  /* messages of the batch that were delivered */
    uint64_t told;   /* of reader->skipped, what our user knows of */
    bool strict;     /* raise OffsetOutOfRange where messages were removed, before what follows them */
    bool closed;
    bool busy;       /* a method or a wait is at work, which may have given back the interpreter lock ... */
    unsigned busy_in; /* ... of the process with this fast_forks(): in a forked child there is no such thread */
    PyObject *pins[LOG_MAP_SLOTS];
};

static inline struct reader_object *fast_reader_self(PyObject *self) { return (struct reader_object *)self; }

/* False with Closed raised, or UsageError while it is busy. */
bool fast_reader_usable(const struct reader_object *self);

/* Around whatever may run Python code, or gives back the interpreter lock. */
static inline void fast_reader_begin(struct reader_object *self)
{
    self->busy = true;
    self->busy_in = fast_forks();
}
static inline void fast_reader_end(struct reader_object *self) { self->busy = false; }

/* The Reader that a Python object is, or NULL with an exception: it is none, or not usable. */
struct reader_object *fast_reader_of(PyObject *object);

/* ---- fast_delivery.c ---- */

/* Makes sure that undelivered messages are at hand, if there are any to be had. Returns how many, at most `most`; -1 with
 * an exception set. */
int64_t fast_reader_gather(struct reader_object *self, uint32_t most);

/* True when messages were removed before they were read, and nobody was told yet. */
static inline bool fast_reader_removal(const struct reader_object *self) { return self->reader->skipped != self->told; }

/* Gives back what was gathered and not delivered. */
void fast_reader_put_back(struct reader_object *self);

/* Counts messages as delivered. After the last of a batch its files are let go, so that an idle consumer pins nothing. */
static inline void fast_reader_delivered(struct reader_object *self, uint32_t count)
{
    self->taken += count;
    if (self->taken == self->reader->count) {
        reader_release(self->reader);
        self->taken = 0;
    }
}

/* Methods of the Reader. messages(most) and bodies(most): the next ones, as a list. message(batch): the next one, out of a batch
 * of that size, or None; gathered(): likewise, but never looks for more. record(physical offset): the message there; raises
 * where none is. */
PyObject *fast_delivery_messages(PyObject *object, PyObject *most);
PyObject *fast_delivery_message(PyObject *object, PyObject *batch);
PyObject *fast_delivery_gathered(PyObject *object, PyObject *unused);
PyObject *fast_delivery_bodies(PyObject *object, PyObject *most);
PyObject *fast_delivery_record(PyObject *object, PyObject *physical_offset);

/* ---- fast_columns.c ---- */

/* Methods of the Reader. columns(selection, most, body_limit): up to `most` messages as buffers. names(): what the topic column's
 * numbers stand for. */
PyObject *fast_columns_batch(PyObject *object, PyObject *const *arguments, Py_ssize_t count);
PyObject *fast_columns_names(PyObject *object, PyObject *unused);

/* ---- fast_pin.c ---- */

/* A new reference to the pin of a reference's file, or NULL with an exception set. */
PyObject *fast_pin_of(struct reader_object *self, const struct message_ref *ref);
int fast_add_pin(PyObject *module);

/* ---- fast_fault.c ---- */

/* Raises what reader->fault says, and clears it. */
PyObject *fast_reader_raise(struct reader_object *self);

/* Raises OffsetOutOfRange for one queue of which messages were removed, and counts it as told. */
PyObject *fast_reader_raise_removal(struct reader_object *self);

/* ---- fast_waiter.c ---- */

int fast_add_waiter(PyObject *module);

#endif

/* What the files of the Python Reader share:
 *
 *   reader_object.c    the type Reader: its life, its queues and positions
 *   delivery.c  its fetches as messages and bodies
 *   arrow.c   its fetches as Arrow buffers
 *   column_memory.c   the memory of these
 *   pin.c       CommitLog files that messages keep mapped
 *   fault.c     what it raises
 *   pull_hold_object.c    the type PullHold: sleeping until there is news
 *
 * A fetch is handed out piece by piece: refs[taken ...] are gathered but not delivered, and positions are those of the first
 * undelivered message. A Pin is a CommitLog file that messages keep mapped; there is at most one per file, found through
 * `pins`, which owns nothing: a Pin strikes itself out when its last message goes.
 */
#ifndef ORBITMQ_READER_OBJECT_H
#define ORBITMQ_READER_OBJECT_H

#include "client/columns.h"
#include "python/arguments.h"
#include "python/message.h"

struct reader_object {
    PyObject_HEAD
    struct reader *reader;
    PyObject *owner; /* keeps control and topics mapped; NULL after close */
    PyObject *home;  /* the connection over which its messages are replied to, or NULL */
    uint32_t taken;  /* messages of the fetch that were delivered */
    uint64_t told;   /* of reader->skipped, how many our user has been told about */
    bool strict;     /* raise OffsetOutOfRange if messages were removed, before what follows them */
    bool closed;
    bool busy;       /* a method or a wait is at work, which may have given back the interpreter lock ... */
    unsigned busy_in; /* ... of the process with this py_forks(): in a forked child there is no such thread */
    PyObject *pins[LOG_MAP_SLOTS];
};

static inline struct reader_object *py_reader_self(PyObject *self) { return (struct reader_object *)self; }

/* False with Closed raised, or UsageError while it is busy. */
bool py_reader_usable(const struct reader_object *self);

/* Wraps code that may run Python code, or releases the interpreter lock. */
static inline void py_reader_begin(struct reader_object *self)
{
    self->busy = true;
    self->busy_in = py_forks();
}
static inline void py_reader_end(struct reader_object *self) { self->busy = false; }

/* The Reader that a Python object is, or NULL with an exception: it is another type, or cannot be used now. */
struct reader_object *py_reader_of(PyObject *object);

/* ---- delivery.c ---- */

/* Makes sure that undelivered messages are gathered, if there are any; what is fetched now has about `bytes` bytes of bodies and properties.
 * Returns how many, at most `most`; -1 with an exception set. */
int64_t py_reader_gather(struct reader_object *self, uint32_t most, uint64_t bytes, enum reader_use use);

/* Raises that the first undelivered message is damaged, as the reader's fault says, and gives back what was gathered. */
PyObject *py_delivery_damaged(struct reader_object *self);

/* True if messages were removed before they were read, and that was not reported yet. */
static inline bool py_reader_removal(const struct reader_object *self) { return self->reader->skipped != self->told; }

/* Gives back what was gathered and not delivered. */
void py_reader_put_back(struct reader_object *self);

/* Counts messages as delivered. After the last one of a fetch its files are unpinned, so that an idle consumer pins nothing. */
static inline void py_reader_delivered(struct reader_object *self, uint32_t count)
{
    self->taken += count;
    if (self->taken == self->reader->count) {
        reader_release(self->reader);
        self->taken = 0;
    }
}

/* Methods of the Reader. messages(most) and bodies(most, bytes): the next ones, as a list. message(size): the
 * next one, out of a fetch of that size, or None; range(cursor, first, count): those, as a list; gathered(): the same, but never looks for more. record(physical offset): the message there;
 * raises if there is none. */
PyObject *py_delivery_messages(PyObject *object, PyObject *most);
PyObject *py_delivery_range(PyObject *object, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_delivery_message(PyObject *object, PyObject *size);
PyObject *py_delivery_gathered(PyObject *object, PyObject *unused);
PyObject *py_delivery_bodies(PyObject *object, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_delivery_record(PyObject *object, PyObject *physical_offset);

/* ---- arrow.c ---- */

/* Methods of the Reader. columns(selection, most, body_limit): up to `most` messages as buffers. names(): the names behind the
 * topic column's numbers. */
PyObject *py_columns(PyObject *object, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_columns_names(PyObject *object, PyObject *unused);

/* ---- pin.c ---- */

/* A new reference to the pin of a reference's file, or NULL with an exception set. */
PyObject *py_pin_of(struct reader_object *self, const struct message_ref *ref);
int py_add_pin(PyObject *module);

/* ---- fault.c ---- */

/* Raises what reader->fault says, and clears it. */
PyObject *py_reader_raise(struct reader_object *self);

/* Raises OffsetOutOfRange for one queue of which messages were removed, and counts that as reported. */
PyObject *py_reader_raise_removal(struct reader_object *self);

/* ---- pull_hold_object.c ---- */

int py_add_pull_hold(PyObject *module);

#endif

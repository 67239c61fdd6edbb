/* A named producer gives each message an id (docs/idempotent-producers.md). What is in flight when its tree dies is stranded: the link stays,
 * with the frames in its ring (client/sender_again.c) and the runs that say whose they are. The next session sends all of it again, before
 * anything new; the owners of the runs do not notice. It is lost, as it is for other producers, if no session comes in time.
 */
#include "python/producer/producer.h"

#include "base/clock.h"
#include <string.h>

uint32_t producer_number(Producer *self, char *at)
{
    char digits[20], *digit = digits + sizeof digits;
    uint64_t number = ++self->numbered;
    do
        *--digit = (char)('0' + number % 10);
    while (number /= 10);
    const uint32_t size = (uint32_t)(digits + sizeof digits - digit);
    memcpy(at, self->name, self->name_size);
    memcpy(at + self->name_size, digit, size);
    return self->name_size + size;
}

/* _identify(name): what the ids begin with; before the first session. */
PyObject *producer_identify(Producer *self, PyObject *name)
{
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(name, &size);
    if (!text)
        return NULL;
    if (size > (Py_ssize_t)NAME_ROOM)
        return PyErr_Format(PyExc_ValueError, "ids that begin with %zd bytes", size);
    memcpy(self->name, text, (size_t)size);
    self->name_size = (uint32_t)size;
    self->numbered = 0;
    Py_RETURN_NONE;
}

void producer_resend(Producer *self)
{
    struct link *from = self->stranded;
    if (!from)
        return;
    self->stranded = NULL;
    bool sent;
    uint32_t count;
    while ((count = sender_again(&self->link->sender, &from->sender, born_now(), &sent)))
        link_move(self->link, from, count, sent, self->life);
    self->failed += from->failed;
    link_release(from);
}

void producer_give_up(Producer *self, uint32_t code)
{
    struct link *link = self->stranded;
    if (!link)
        return;
    self->stranded = NULL;
    if (code == VERDICT_FORKED)
        link->users = 1; /* the parent's waiting threads do not exist here */
    link_lose(link, code);
    if (code != VERDICT_FORKED)
        self->failed += link->failed;
    link_release(link);
}

/* _lose(): the patience with an absent broker is over. */
PyObject *producer_lose(Producer *self, PyObject *nothing)
{
    (void)nothing;
    producer_give_up(self, VERDICT_LOST);
    Py_RETURN_NONE;
}

enum producer_wait producer_resume(Producer *self, uint64_t deadline_ns)
{
    const uint64_t now = clock_ns();
    const double left = deadline_ns == FOREVER ? 1e9 : deadline_ns > now ? (double)(deadline_ns - now) / 1e9 : 0;
    PyObject *resumed = PyObject_CallMethod((PyObject *)self, "_resume", "d", left);
    if (!resumed)
        return PRODUCER_ERROR;
    const int again = PyObject_IsTrue(resumed);
    Py_DECREF(resumed);
    return again < 0 ? PRODUCER_ERROR : again ? PRODUCER_AGAIN : PRODUCER_TIMEOUT;
}

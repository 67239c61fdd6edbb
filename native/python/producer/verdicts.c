/* Turns verdicts into what their receivers get: a receipt, or the exception for the code. */
#include "python/producer/producer.h"
#include "format/reserved.h"

#include <stdio.h>
#include <string.h>

PyObject *verdict_timeout(PyObject *topic, uint64_t timeout_ns, const char *what)
{
    PyObject *seconds = PyFloat_FromDouble((double)timeout_ns / 1e9);
    if (seconds)
        py_raise("TimedOut", "raise {timeout}", Py_BuildValue("{s:O,s:O}", "topic", topic, "timeout", seconds),
                   "%s %R within %S s", what, topic, seconds);
    Py_XDECREF(seconds);
    return NULL;
}

void verdict_pending(PyObject *pending)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (!value || PyObject_SetAttrString(value, "pending", pending) < 0)
        PyErr_Clear(); /* the attribute only helps; the exception matters */
    PyErr_Restore(type, value, traceback);
}

#define QUOTED_MAX (5 * TOPIC_NAME_MAX + 3)

/* A name as a shell takes it, as shlex.quote writes it. */
static const char *quoted(const char *name, char to[QUOTED_MAX])
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    if (*name && strspn(name, plain) == strlen(name))
        return name;
    char *end = to;
    *end++ = '\'';
    for (uint32_t i = 0; i < TOPIC_NAME_MAX && name[i]; i++) {
        if (name[i] == '\'') {
            memcpy(end, "'\"'\"", 4);
            end += 4;
        }
        *end++ = name[i];
    }
    *end++ = '\'';
    *end = 0;
    return to;
}

PyObject *verdict_unknown_topic(Producer *producer, PyObject *topic)
{
    struct link *link = producer->link;
    if (link)
        link->users++; /* it holds the table while Python reads it, whatever other threads do to the producer */
    const unsigned long long table = link ? (uintptr_t)link->sender.topics : 0;
    PyObject *never = PyObject_CallMethod((PyObject *)producer, "_unknown_topic", "OK", topic, table);
    if (link)
        link_release(link);
    return never;
}

#define SYNC_HINT                                                                                                              \
    "the message is not stored, and sending it again is safe; look after the disk (dmesg says what failed), then restart the "    \
    "broker, which writes again what the disk may lack; {after_failed_sync=go-on of broker} takes messages meanwhile"
#define NOT_ON_DISK_HINT                                                                                                       \
    "it may be lost or stored: look after the disk (dmesg says what failed), restart the broker, which writes again what the "    \
    "disk may lack, and look for the message by its key before sending it again"

static PyObject *not_writable(PyObject *topic)
{
    Py_ssize_t size;
    const char *name = PyUnicode_AsUTF8AndSize(topic, &size);
    const char *why = name ? reserved_topic_why((const uint8_t *)name, (uint32_t)size) : NULL;
    char hint[QUOTED_MAX + 256], room[QUOTED_MAX];
    snprintf(hint, sizeof hint, "allow it: orbitmq topic permissions %s --write", name ? quoted(name, room) : "NAME");
    PyErr_Clear();
    return py_raise("NoPermission", why ? NULL : hint, Py_BuildValue("{s:O}", "topic", topic), "could not send to topic %R: %s",
                      topic, why ? why : "it may not be written");
}

static PyObject *rejected(Producer *producer, PyObject *topic, const struct completion *verdict)
{
    switch (verdict->code) {
    case VERDICT_UNKNOWN_TOPIC:
        return verdict_unknown_topic(producer, topic);
    case VERDICT_NO_PERMISSION:
        return not_writable(topic);
    case VERDICT_RESERVED:
        return py_raise("PropertyError", "leave out what RocketMQ names DELAY, WAIT, CLUSTER and the like",
                          Py_BuildValue("{s:O}", "topic", topic),
                          "could not send to topic %R: a property has a name that is reserved", topic);
    case VERDICT_UNKNOWN_QUEUE:
        return py_raise("UnknownQueue", "give the topic more queues || leave out {queue}",
                          Py_BuildValue("{s:O,s:I,s:I}", "topic", topic, "queue", verdict->queue_id, "queues", verdict->detail),
                          "could not send to queue %u of topic %R: it has %u queues, numbered from 0", verdict->queue_id, topic,
                          verdict->detail);
    case VERDICT_BODY_TOO_LARGE:
        return py_raise("MessageTooLarge", "raise {message_max of broker}",
                          Py_BuildValue("{s:O,s:I}", "topic", topic, "limit", verdict->detail),
                          "could not send to topic %R: the record passes the broker's limit of %u bytes", topic, verdict->detail);
    case VERDICT_PROPERTIES_TOO_LARGE:
        return py_raise("PropertiesTooLarge", "send fewer keys or properties, or put them into the body",
                          Py_BuildValue("{s:O,s:I}", "topic", topic, "limit", verdict->detail),
                          "could not send to topic %R: the properties pass the limit of %u bytes", topic, verdict->detail);
    case VERDICT_DEDUP_FULL:
        return py_raise("Full", "wait until some are older than {dedup_window_s of broker} || raise {dedup_ids of broker}",
                        Py_BuildValue("{s:O,s:s,s:I}", "topic", topic, "limit", "dedup_ids", "size", verdict->detail),
                        "could not send to topic %R: the broker already remembers %u ids, the most that it may", topic,
                        verdict->detail);
    case VERDICT_BATCH_DIFFERS:
        return py_raise("UsageError", "use an id for one batch only", Py_BuildValue("{s:I}", "value", verdict->detail),
                        "could not send an atomic batch: a different batch, of %u messages, is stored under its id",
                        verdict->detail);
    case VERDICT_BATCH_REFUSED:
        return py_raise("BatchRefused", NULL, Py_BuildValue("{s:O,s:I}", "topic", topic, "index", verdict->detail),
                          "could not send to topic %R: message %u of the same atomic batch was refused, so none of them is stored", topic,
                          verdict->detail);
    case VERDICT_BATCH_TOO_LARGE:
        return py_raise("MessageTooLarge", "send fewer messages at once || raise {lane_capacity of broker}",
                          Py_BuildValue("{s:O,s:I}", "topic", topic, "limit", verdict->detail),
                          "could not send an atomic batch: with this message to topic %R it passes the broker's limit of %u bytes", topic,
                          verdict->detail);
    case VERDICT_STORE_FULL:
        return PyObject_CallMethod((PyObject *)producer, "_store_full", "OI", topic, verdict->detail);
    case VERDICT_STORE_FAILED:
        return py_raise("StoreFailed",
                          "the message is not stored, and sending it again is safe; look after the disk, then restart the broker",
                          Py_BuildValue("{s:O,s:I}", "topic", topic, "errno", verdict->detail),
                          "could not store the message to %R: the log takes no more (%s)", topic, strerror((int)verdict->detail));
    case VERDICT_SYNC_FAILED:
        return py_raise("StoreFailed", SYNC_HINT, Py_BuildValue("{s:O,s:I}", "topic", topic, "errno", verdict->detail),
                          "could not send to topic %R: a sync of the log to the disk has failed (%s), and the broker takes no "
                          "messages until it is restarted",
                          topic, strerror((int)verdict->detail));
    case VERDICT_NOT_ON_DISK:
        return py_raise("StoreFailed", NOT_ON_DISK_HINT,
                          Py_BuildValue("{s:O,s:I,s:K}", "topic", topic, "errno", verdict->detail, "physical_offset",
                                        (unsigned long long)verdict->physical_offset),
                          "could not confirm that a message to topic %R is on disk: it was appended, but the sync of "
                          "the log failed (%s)",
                          topic, strerror((int)verdict->detail));
    case VERDICT_READ_ONLY: {
        const bool damaged = producer->link && producer->link->sender.control->settings.read_only == READ_ONLY_DAMAGED;
        return py_raise("NoPermission",
                          damaged ? "repair the store (orbitmq repair), then restart the broker"
                                  : "start the broker without {read_only of broker} to send",
                          Py_BuildValue("{s:O}", "topic", topic), "could not send to topic %R: the store was opened read-only, %s", topic,
                          damaged ? "because its log is damaged" : "as its broker was told to");
    }
    case VERDICT_SETTLED:
        return py_raise("TransactionSettled", NULL,
                          Py_BuildValue("{s:s}", "outcome",
                                        verdict->detail == HALF_COMMITTED     ? "committed"
                                        : verdict->detail == HALF_ROLLED_BACK ? "rolled back"
                                                                              : NULL),
                          "could not end a transaction: %s", verdict->detail == HALF_COMMITTED     ? "it was committed before"
                          : verdict->detail == HALF_ROLLED_BACK ? "it was rolled back before"
                                                                : "it has ended before");
    case VERDICT_UNKNOWN_HALF:
        return py_raise("UnknownTransaction", "a transaction belongs to one store, and its half message is removed with the log's old files", NULL,
                          "could not end a transaction: the log has no such half message");
    case VERDICT_BEHIND:
        return py_raise("Full", "end it again; `orbitmq status` shows how far reput is",
                        Py_BuildValue("{s:s,s:I}", "limit", "reput", "size", verdict->detail),
                        "could not end a transaction: the broker's queues are more than %u messages behind its log", verdict->detail);
    case VERDICT_FENCED:
        return py_raise("Fenced", NULL, Py_BuildValue("{}"),
                          verdict->detail == UINT32_MAX
                              ? "could not commit offsets with an atomic batch: the consumer is no member of its group any more, so nothing is stored"
                              : "could not commit offsets with an atomic batch: the group's offsets have changed since this consumer began, "
                                "so nothing is stored");
    case VERDICT_COMMITS_FULL:
        return py_raise("Full", "commit the offsets of fewer groups and queues with atomic batches",
                          Py_BuildValue("{s:s,s:I}", "limit", "commits", "size", verdict->detail),
                          "could not commit offsets with an atomic batch: the broker already keeps those of %u queues of groups, "
                          "the most that it may",
                          verdict->detail);
    case VERDICT_HALVES_FULL:
        return py_raise("Full", "end the oldest transaction first; `orbitmq transactions` lists those that have not ended",
                          Py_BuildValue("{s:O,s:I,s:s}", "topic", topic, "most", verdict->detail, "limit", "transactions"),
                          "could not begin a transaction for topic %R: more than %u were begun since the oldest that has not ended", topic,
                          verdict->detail);
    case VERDICT_LOST:
        return py_raise("PerhapsStored", "look for it by its key before sending it again",
                          Py_BuildValue("{s:O}", "topic", topic),
                          "could not learn what became of a message to %R: the broker stopped with it in flight", topic);
    case VERDICT_FORKED:
        return py_raise("Closed", NULL, Py_BuildValue("{s:O}", "topic", topic),
                          "could not wait for a message to %R: it was sent by the process that this one was forked from", topic);
    default:
        return py_raise("ProtocolError", NULL, Py_BuildValue("{s:O,s:I}", "topic", topic, "code", verdict->code),
                          "could not read the verdict on a message to %R: code %u is unknown", topic, verdict->code);
    }
}

PyObject *verdict_result(Producer *producer, PyObject *topic, const struct completion *verdict, uint64_t flushed)
{
    if (!verdict_stored(verdict->code))
        return rejected(producer, topic, verdict);
    return receipt_new(producer, topic, verdict, flushed >= verdict->physical_offset + verdict->size);
}

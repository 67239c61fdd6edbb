/* Turns what stopped a Reader into the exception for it. */
#include "python/consumer/reader_object.h"

#include <errno.h>

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
    case RECORD_LOST: return "it was damaged, and a repair gave it up";
    }
    return "it is damaged";
}

static bool all_pinned(const struct log_map *log)
{
    unsigned pinned = 0;
    for (unsigned i = 0; i < LOG_MAP_SLOTS; i++)
        pinned += log_file_pinned(&log->files[i]);
    return pinned == LOG_MAP_SLOTS;
}

/* Python finds the setting to name: shm/means.py. */
static bool means_short(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

PyObject *py_reader_raise(struct reader_object *self)
{
    struct reader *reader = self->reader;
    const struct reader_fault fault = reader->fault;
    reader->fault = (struct reader_fault){0};
    if (fault.error == EMFILE && !fault.in_queue && all_pinned(&reader->log))
        return py_raise("Full", "release messages, or copy what they hold", Py_BuildValue("{s:s,s:i}", "limit", "log files", "most", (int)LOG_MAP_SLOTS),
                          "could not map another CommitLog file: live messages hold %d files", (int)LOG_MAP_SLOTS);
    if (means_short(fault.error)) {
        errno = fault.error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    PyObject *values = Py_BuildValue("{s:K,s:K,s:i}", "offset", (unsigned long long)fault.physical_offset, "queue_offset",
                                     (unsigned long long)fault.queue_offset, "fault", (int)fault.record);
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
        return py_raise("StoreError", "look after the disk: dmesg says what failed", values, "could not read the ConsumeQueue of %s, queue %ld, at offset %llu: %s", where,
                          queue_id, (unsigned long long)fault.queue_offset, strerror(fault.error));
    if (fault.error)
        return py_raise("StoreError", "look after the disk: dmesg says what failed", values, "could not map the CommitLog file of physical offset %llu: %s",
                          (unsigned long long)fault.physical_offset, strerror(fault.error));
    if (queue_id < 0)
        return py_raise("CorruptRecord", NULL, values, "could not read the record at physical offset %llu: %s",
                          (unsigned long long)fault.physical_offset, record_fault_text(fault.record));
    return py_raise("CorruptRecord", "go on behind it with {skip_damaged} || see how much is damaged with `orbitmq verify`", values,
                      "could not read message %llu of %s, queue %ld, at physical offset %llu: %s",
                      (unsigned long long)fault.queue_offset, where, queue_id, (unsigned long long)fault.physical_offset,
                      record_fault_text(fault.record));
}

PyObject *py_reader_raise_removal(struct reader_object *self)
{
    struct reader *reader = self->reader;
    uint32_t index = 0;
    while (index < reader->cursor_count && !reader->cursors[index].removed)
        index++;
    assert(index < reader->cursor_count);
    struct reader_cursor *cursor = &reader->cursors[index];
    const struct reader_name *name = &reader->names[cursor->name];
    const unsigned long long count = cursor->removed, minimum = cursor->removed_end;
    uint64_t min, maximum;
    reader_bounds(reader, index, &min, &maximum);
    self->told += cursor->removed;
    cursor->removed = 0;
    return py_raise("OffsetOutOfRange", "poll again to go on at the first that is left",
                      Py_BuildValue("{s:s,s:I,s:K,s:K,s:K,s:K}", "topic", (const char *)name->text, "queue", cursor->queue_id,
                                    "offset", minimum - count, "minimum", minimum, "maximum", (unsigned long long)maximum,
                                    "removed", count),
                      "could not read offset %llu of %s, queue %u: retention removed %llu messages; it holds %llu to %llu",
                      minimum - count, (const char *)name->text, cursor->queue_id, count, minimum,
                      (unsigned long long)maximum);
}

/* Receipts, made without their __init__: Receipt is a frozen dataclass with slots, and filling it from Python would cost more
 * than all the rest of a send (0.8 us of 1.1 with warm caches, three times that if many processes take turns).
 */
#include "python/producer/producer.h"

enum member { TOPIC, QUEUE, OFFSET, PHYSICAL_OFFSET, SIZE, DURABILITY, STORE_HOST, DUPLICATE, MEMBERS };
static const char *const names[MEMBERS] = {"topic", "queue", "offset", "physical_offset", "size", "durability", "store_host",
                                          "duplicate"};

/* Kept for as long as the process lives. */
static PyTypeObject *type;
static PyObject *members[MEMBERS]; /* the slots' descriptors, all of one type */
static descrsetfunc set;           /* that type's */
static PyObject *appended, *flushed;

/* At the first receipt and not at import, because the class is in a layer above this module. */
static int prepare(void)
{
    PyObject *module = PyImport_ImportModule("orbitmq.client.receipt");
    PyObject *found = module ? PyObject_GetAttrString(module, "Receipt") : NULL;
    Py_XDECREF(module);
    for (int i = 0; found && i < MEMBERS; i++)
        if (!members[i] && !(members[i] = PyObject_GetAttrString(found, names[i])))
            Py_CLEAR(found);
    if (found && !appended)
        appended = PyUnicode_InternFromString("appended");
    if (found && !flushed)
        flushed = PyUnicode_InternFromString("flushed");
    if (!found || !appended || !flushed) {
        Py_XDECREF(found);
        return -1;
    }
    set = (descrsetfunc)PyType_GetSlot(Py_TYPE(members[TOPIC]), Py_tp_descr_set);
    type = (PyTypeObject *)found;
    return 0;
}

/* Stores value, whose reference it takes; false with an exception, also if value is NULL and an exception is set already. */
static bool fill(PyObject *receipt, enum member member, PyObject *value)
{
    const bool good = value && set(members[member], receipt, value) == 0;
    Py_XDECREF(value);
    return good;
}

static PyObject *another(PyObject *object)
{
    Py_INCREF(object);
    return object;
}

PyObject *receipt_new(const Producer *producer, PyObject *topic, const struct completion *verdict, bool on_disk)
{
    if (!type && prepare() < 0)
        return NULL;
    PyObject *receipt = PyType_GenericAlloc(type, 0);
    if (receipt && fill(receipt, TOPIC, another(topic)) && fill(receipt, QUEUE, PyLong_FromUnsignedLong(verdict->queue_id)) &&
        fill(receipt, OFFSET, PyLong_FromUnsignedLongLong(verdict->queue_offset)) &&
        fill(receipt, PHYSICAL_OFFSET, PyLong_FromUnsignedLongLong(verdict->physical_offset)) &&
        fill(receipt, SIZE, PyLong_FromUnsignedLong(verdict->size)) &&
        fill(receipt, DURABILITY, another(on_disk ? flushed : appended)) && fill(receipt, STORE_HOST, another(producer->host)) &&
        fill(receipt, DUPLICATE, another(verdict->code == VERDICT_DUPLICATE ? Py_True : Py_False)))
        return receipt;
    Py_XDECREF(receipt);
    return NULL;
}

/* The blocks that are kept are those that were freed last: a batch is about as large as the one before it. The interpreter lock guards
 * them: the end of an object holds it, in whichever thread of Arrow's that happens. */
#include "python/consumer/column_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SMALL (64u << 10)      /* bytes; below this, malloc keeps what is freed */
#define KEPT_BYTES (32u << 20) /* limit of all free blocks together */
#define KEPT_BLOCKS 64

struct memory {
    PyObject_HEAD
    uint8_t *data;
    uint64_t room;
    uint64_t size;
};

static PyTypeObject *memory_type;
static struct {
    uint8_t *data;
    uint64_t room;
} kept[KEPT_BLOCKS]; /* the one that was freed last at the end */
static uint32_t kept_count;
static uint64_t kept_bytes;

static void forget(uint32_t index)
{
    kept_bytes -= kept[index].room;
    kept_count--;
    memmove(&kept[index], &kept[index + 1], (kept_count - index) * sizeof *kept);
}

/* A block of at least *room bytes, which becomes its size; NULL: there is no memory. */
static uint8_t *take_block(uint64_t *room)
{
    if (*room < SMALL)
        return malloc(*room ? *room : 1);
    for (uint32_t i = kept_count; i-- > 0;) {
        if (kept[i].room < *room || kept[i].room / 2 > *room)
            continue;
        uint8_t *data = kept[i].data;
        *room = kept[i].room;
        forget(i);
        return data;
    }
    if (*room >> 47)
        return NULL;
    *room = (*room + *room / 8 + SMALL - 1) / SMALL * SMALL; /* the next batch may be a little larger */
    void *data = mmap(NULL, *room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return data == MAP_FAILED ? NULL : data;
}

static void give_block(uint8_t *data, uint64_t room)
{
    if (!data)
        return;
    if (room < SMALL) {
        free(data);
        return;
    }
    if (room > KEPT_BYTES) {
        munmap(data, room);
        return;
    }
    while (kept_count == KEPT_BLOCKS || kept_bytes + room > KEPT_BYTES) {
        munmap(kept[0].data, kept[0].room);
        forget(0);
    }
    kept[kept_count].data = data;
    kept[kept_count++].room = room;
    kept_bytes += room;
}

PyObject *py_column_memory(uint64_t size)
{
    struct memory *memory = (struct memory *)PyType_GenericAlloc(memory_type, 0);
    if (!memory)
        return NULL;
    memory->room = memory->size = size;
    memory->data = take_block(&memory->room);
    if (memory->data)
        return (PyObject *)memory;
    Py_DECREF(memory);
    return PyErr_NoMemory();
}

bool py_column_memory_resize(PyObject *object, uint64_t size)
{
    struct memory *memory = (struct memory *)object;
    if (size > memory->room) {
        uint64_t room = size;
        uint8_t *data = take_block(&room);
        if (!data) {
            PyErr_NoMemory();
            return false;
        }
        memcpy(data, memory->data, memory->size);
        give_block(memory->data, memory->room);
        memory->data = data;
        memory->room = room;
    }
    memory->size = size;
    return true;
}

uint8_t *py_column_memory_data(PyObject *memory) { return ((struct memory *)memory)->data; }
uint64_t py_column_memory_size(PyObject *memory) { return ((struct memory *)memory)->size; }

static int memory_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    const struct memory *memory = (struct memory *)self;
    return PyBuffer_FillInfo(view, self, memory->data, (Py_ssize_t)memory->size, 1, flags);
}

static Py_ssize_t memory_length(PyObject *self) { return (Py_ssize_t)((struct memory *)self)->size; }

static void memory_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct memory *memory = (struct memory *)self;
    give_block(memory->data, memory->room);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyType_Slot memory_slots[] = {
    {Py_tp_doc, "A buffer of a record batch's column, read-only. Its memory serves a later batch when nobody uses it any more."},
    {Py_tp_dealloc, (void *)memory_dealloc},
    {Py_bf_getbuffer, (void *)memory_getbuffer},
    {Py_sq_length, (void *)memory_length},
    {0, NULL},
};

static PyType_Spec memory_spec = {
    .name = "orbitmq.native._types.ColumnMemory",
    .basicsize = sizeof(struct memory),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = memory_slots,
};

int py_add_column_memory(PyObject *module)
{
    memory_type = py_add_type(module, &memory_spec);
    return memory_type ? 0 : -1;
}

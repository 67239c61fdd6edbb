/* Blocks come in classes, four between a power of two and the next. The allocator keeps small ones itself. The interpreter lock
 * guards the kept blocks: the end of an object holds it, in whichever thread of Arrow's that happens. */
#include "python/consumer/column_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SMALL (64u << 10)         /* bytes; below this, malloc keeps what is freed */
#define KEPT_BYTES (64u << 20)    /* limit of all free blocks together */
#define KEPT_OF_A_CLASS 16
#define CLASSES (4 * 48)          /* up to 2^48 bytes */

struct memory {
    PyObject_HEAD
    uint8_t *data;
    uint64_t room;
    uint64_t size;
};

static PyTypeObject *memory_type;
static struct {
    uint8_t *block[KEPT_OF_A_CLASS];
    uint32_t count;
} kept[CLASSES];
static uint64_t kept_bytes;

/* The number of the smallest class with this room, and its room. */
static uint32_t class_of(uint64_t *room)
{
    const uint32_t power = 63 - (uint32_t)__builtin_clzll(*room); /* of two, at most *room */
    const uint64_t quarter = UINT64_C(1) << (power - 2);
    const uint64_t quarters = (*room + quarter - 1) / quarter; /* 4 to 8 */
    *room = quarters * quarter;
    return power * 4 + (uint32_t)quarters - 4; /* 8 quarters are the first class of the next power */
}

static uint8_t *take_block(uint64_t *room)
{
    if (*room < SMALL)
        return malloc(*room ? *room : 1);
    if (*room >> 47)
        return NULL;
    const uint32_t class = class_of(room);
    if (kept[class].count) {
        kept_bytes -= *room;
        return kept[class].block[--kept[class].count];
    }
    void *block = mmap(NULL, *room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return block == MAP_FAILED ? NULL : block;
}

static void give_block(uint8_t *data, uint64_t room)
{
    if (!data)
        return;
    if (room < SMALL) {
        free(data);
        return;
    }
    const uint32_t class = class_of(&room);
    if (kept[class].count < KEPT_OF_A_CLASS && room <= KEPT_BYTES - kept_bytes) {
        kept[class].block[kept[class].count++] = data;
        kept_bytes += room;
    } else {
        munmap(data, room);
    }
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

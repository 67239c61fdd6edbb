/* The memory of a batch's columns, as Python objects with the buffer protocol.
 *
 * A page that a process touches for the first time costs more than the kilobyte of bodies that is copied onto it, and an
 * allocator gives large blocks back to the system as soon as they are free. So blocks that Arrow has released are kept for the
 * next batches.
 */
#ifndef ORBITMQ_COLUMN_MEMORY_H
#define ORBITMQ_COLUMN_MEMORY_H

#include "python/arguments.h"

/* Room for `size` bytes, with any content. NULL with MemoryError set. */
PyObject *py_column_memory(uint64_t size);

/* Makes it `size` bytes long. What was in it stays, and may move. False with MemoryError set. */
bool py_column_memory_resize(PyObject *memory, uint64_t size);

uint8_t *py_column_memory_data(PyObject *memory);
uint64_t py_column_memory_size(PyObject *memory);

int py_add_column_memory(PyObject *module);

#endif

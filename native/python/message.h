/* The Message of the extension module: a record in memory that somebody else keeps, decoded attribute by attribute. */
#ifndef ORBITMQ_MESSAGE_H
#define ORBITMQ_MESSAGE_H

#include "python/objects.h"
#include "format/record.h"

int py_add_message(PyObject *module);

/* A message over a record whose shape was checked. keeper (a new reference is taken) keeps the memory mapped. */
PyObject *py_message_new(PyObject *keeper, const uint8_t *record, uint32_t size, uint32_t body_at, uint32_t body_size);

/* A copy of the body as its producer sent it; decompressed if the record says that it is compressed. */
PyObject *py_body_bytes(const uint8_t *record, uint32_t body_at, uint32_t body_size);

#endif

/* later.c: when messages are to be delivered. */
#ifndef ORBITMQ_LATER_H
#define ORBITMQ_LATER_H

#include "python/objects.h"
#include "shared/session.h"

/* When messages are to be delivered. */
struct later {
    uint32_t level; /* 0: none */
    uint32_t given; /* how many of the three arguments */
    uint64_t at_ms; /* since 1970; 0: at once */
    bool cancels;   /* it is no message, and cancels the one at this queue offset: */
    uint64_t offset;
    uint32_t own;      /* SEND_HALF, SEND_SETTLE or SEND_OFFSETS, of the library's own; 0: none of them */
    uint32_t own_size; /* of what that adds to the properties */
    const uint8_t *own_bytes; /* borrowed */
};

static inline bool later_waits(const struct later *later) { return later->level || later->at_ms || later->cancels || later->own; }
/* For send_message: the level, and what it adds to the properties. */
static inline uint32_t later_word(const struct later *later) { return later->own ? later->own : later->cancels ? SEND_CANCEL : later->at_ms ? SEND_AT : later->level; }
static inline uint32_t later_size(const struct later *later) { return later->own ? later->own_size : later->at_ms || later->cancels ? SEND_AT_SIZE : 0; }
uint8_t *later_put(const struct later *later, uint8_t *at);

/* The arguments; later_one after the last. -1 with an exception. */
int later_level(PyObject *value, struct later *later);
int later_delay(PyObject *value, struct later *later);
int later_at(PyObject *value, struct later *later);
int later_cancel(PyObject *value, struct later *later); /* the library's own: client/delay/cancel.py */
int later_own(PyObject *value, struct later *later, uint32_t word); /* likewise, as bytes: client/transaction/transaction.py, settling.py, group_offsets.py */
int later_one(const struct later *later);

#endif

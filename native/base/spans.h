/* Runs of bytes of the log: disjoint, ascending, added in order. */
#ifndef ORBITMQ_SPANS_H
#define ORBITMQ_SPANS_H

#include <stdbool.h>
#include <stdint.h>

struct span {
    uint64_t begin, end;
};

struct spans {
    struct span *list;
    uint32_t count, room;
};

/* Returns 0 or ENOMEM. */
int spans_add(struct spans *spans, uint64_t begin, uint64_t end);
void spans_free(struct spans *spans);

/* True when a byte of [begin, end) lies in one of them. */
bool spans_touch(const struct spans *spans, uint64_t begin, uint64_t end);

#endif

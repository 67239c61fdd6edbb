/* What a check of the store has found, in the order in which it was found: a list that its reader empties between two steps. */
#ifndef ORBITMQ_FINDINGS_H
#define ORBITMQ_FINDINGS_H

#include <stdbool.h>
#include <stdint.h>

#define FINDINGS_MANY 4096u /* a check pauses with so many; one record adds a few at most */

enum finding_kind {
    FINDING_RECORD = 1, /* bytes [offset, offset + size) are no record; detail: enum record_fault */
    FINDING_UNREADABLE, /* the same; detail: errno */
};

/* Plain, for Python. Which fields count says the kind. */
struct finding {
    uint32_t kind;
    uint32_t detail;
    uint64_t offset, size; /* in the CommitLog, bytes */
};

struct findings {
    struct finding *list;
    uint32_t count, room;
    bool lost; /* there was no memory for one */
};

void findings_add(struct findings *findings, const struct finding *finding);
void findings_free(struct findings *findings);

static inline bool findings_many(const struct findings *findings) { return findings->count >= FINDINGS_MANY || findings->lost; }

#endif

/* The result for one message. The numbers are OrbitMQ's; verdicts.c turns them into exceptions. */
#ifndef ORBITMQ_VERDICT_H
#define ORBITMQ_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

enum verdict {
    VERDICT_NONE = 0,
    VERDICT_APPENDED = 1,
    VERDICT_UNKNOWN_TOPIC = 2,      /* the index in the frame names no live topic, or another one */
    VERDICT_NO_PERMISSION = 3,      /* the topic may not be written */
    VERDICT_UNKNOWN_QUEUE = 4,      /* detail: queues of the topic */
    VERDICT_BODY_TOO_LARGE = 5,     /* detail: the limit on the record, bytes */
    VERDICT_PROPERTIES_TOO_LARGE = 6, /* detail: the limit, bytes */
    VERDICT_STORE_FULL = 7,         /* no next CommitLog file: no space, descriptors or mappings; detail: errno */
    VERDICT_STORE_FAILED = 8,       /* the log is in its error state; detail: errno */
    VERDICT_RESERVED = 10,          /* a property has a name that no sender may set */
    VERDICT_READ_ONLY = 9,          /* the store was opened read-only */
    VERDICT_DUPLICATE = 12,         /* stored before under the same id, within the window; the place is the first's */
    VERDICT_DEDUP_FULL = 13,        /* no more ids can be remembered; detail: the limit */
    VERDICT_BATCH_DIFFERS = 22,     /* under the id of the atomic batch something else was stored; detail: messages of that */
    VERDICT_BATCH_REFUSED = 16,     /* another message of the atomic batch was refused; detail: its index */
    VERDICT_BATCH_TOO_LARGE = 19,   /* the atomic batch; detail: most bytes of its records */
    VERDICT_SYNC_FAILED = 11,       /* a sync of the log has failed, and nothing more is accepted; detail: errno */
    VERDICT_SETTLED = 14,           /* the half message was settled before; detail: enum half_state */
    VERDICT_UNKNOWN_HALF = 15,      /* there is no such half message */
    VERDICT_FENCED = 17,            /* the group is not where the offsets of an atomic batch say; detail: which of them; UINT32_MAX: the
                                     * sender is no member */
    VERDICT_COMMITS_FULL = 20,      /* no more groups and queues can be committed with atomic batches; detail: the limit */
    VERDICT_UNKNOWN_MESSAGE = 21,   /* the log has no message at this place, or one that no group can have had */
    VERDICT_BEHIND = 23,            /* the queues are too far behind the log to look for a record now; detail: records passed over */
    VERDICT_HALVES_FULL = 18,       /* too many half messages since the oldest that is not settled; detail: the limit */
};

#define VERDICTS 24u /* one more than the largest */

/* True if the message is in the log. */
static inline bool verdict_stored(uint32_t code) { return code == VERDICT_APPENDED || code == VERDICT_DUPLICATE; }

#endif

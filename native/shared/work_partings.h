/* The file orbitmq/retries: how far the dispatcher is with what it puts into the log, and why work failed. Only the dispatcher maps it.
 *
 *   | header | WORK_PARTINGS slots |
 *
 * Which messages are to be put elsewhere stands in their words (WORK_PARTING, work_file.h); they become done when what was made of them
 * is in the log. This file says what is under way:
 *
 *   from      before a portion is published: the end of the log then. 0: nothing is under way. After a death of the whole tree the
 *             log is read from here on, for records that name what they were made of (format/retry.h)
 *   counted   position in the lane; what the writer noted before it stands in the words. Of this generation's lane
 *   slots     the reasons, until their messages are in the log; key 0: free, stored last. Lost is only the text if one is lost
 *
 * Native byte order; after another boot of the machine nothing here counts, as in the words.
 */
#ifndef ORBITMQ_WORK_PARTINGS_H
#define ORBITMQ_WORK_PARTINGS_H

#include "shared/work_ring.h"

#define WORK_PARTINGS_MAGIC UINT64_C(0x316374657274696f) /* "oitretc1" */
#define WORK_PARTINGS 256u

struct work_parting {
    _Alignas(SEGMENT_LINE) _Atomic uint64_t key; /* of the queue; never 0 if used */
    uint64_t offset;
    uint32_t size;
    uint8_t text[WORK_TEXT_MAX];
};

struct work_partings {
    uint64_t magic;
    uint64_t generation;
    uint8_t boot[16];
    _Alignas(SEGMENT_LINE) _Atomic uint64_t from;
    _Atomic uint64_t counted;
    struct work_parting slot[WORK_PARTINGS];
};

#define WORK_PARTINGS_SIZE sizeof(struct work_partings)

#endif

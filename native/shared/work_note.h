/* What the dispatcher is handing out at this moment. It stands in the control block from before the words say "in hand" until the
 * hand-out is published. If the dispatcher dies between, its successor knows which messages were marked for a session that never
 * heard of them, and frees them as if nothing had happened.
 */
#ifndef ORBITMQ_WORK_NOTE_H
#define ORBITMQ_WORK_NOTE_H

#include "shared/segment.h"

#define WORK_NOTE_RANGES 32u

struct work_note {
    /* the dispatcher's alone. count: of ranges, stored after them with release; 0: nothing is under way. No other process reads it, and a
     * successor comes after its predecessor's death */
    _Alignas(SEGMENT_LINE) _Atomic uint32_t count;
    uint32_t slot, epoch; /* of the session */
    uint64_t tail;        /* its hand-outs, before these */
    struct work_range {
        uint64_t opening; /* of the group */
        uint64_t first;
        uint32_t queue;   /* queue slot */
        uint32_t count;
    } range[WORK_NOTE_RANGES];
};

#endif

/* The property that marks the records of an atomic batch of more than one message: ATOMIC, "index:count", both decimal. It comes first
 * in the properties string. The records of an atomic batch follow one another in one log file, so after a power cut a scan of the log
 * recognises an atomic batch of which the end is missing (log_scan.h). Only the broker writes it, and no copy of a message keeps it.
 */
#ifndef ORBITMQ_ATOMIC_H
#define ORBITMQ_ATOMIC_H

#include "format/properties.h"

#define ATOMIC_MARK_MAX 32u /* most bytes of one, its last separator included */

struct mark {
    uint32_t index; /* of the record in its atomic batch, from 0 */
    uint32_t count; /* records of the atomic batch, 2 or more */
    uint32_t size;  /* bytes of the property and its last separator */
};

/* Writes the property and PROPERTY_END; returns their size. */
uint32_t mark_put(uint8_t to[ATOMIC_MARK_MAX], uint32_t index, uint32_t count);

/* True if the properties begin with such a mark. */
bool mark_read(struct slice properties, struct mark *mark);

#endif

/* What a check of the store has found, in the order in which it was found: a list that its reader empties between two steps. */
#ifndef ORBITMQ_FINDINGS_H
#define ORBITMQ_FINDINGS_H

#include <stdbool.h>
#include <stdint.h>

#define FINDINGS_MANY 4096u /* a check pauses with so many; one record adds a few at most */

enum finding_kind {
    FINDING_NONE = 0,
    FINDING_RECORD,     /* bytes [offset, offset + size) are no record; detail: enum record_fault; found: good records before them,
                           expected: store timestamp of the last of these; count 1: they have the shape of one record */
    FINDING_UNREADABLE, /* the same; detail: errno */
    /* of a queue, units or messages [first, first + count) */
    FINDING_UNIT_MISSING,  /* the log has their records, the first at offset; detail UNIT_BEFORE: they lie before the first record */
    FINDING_UNIT_WRONG,    /* they differ from the records, the first at offset; detail: enum unit_part, the first's values */
    FINDING_UNIT_EXTRA,    /* they name no record of the queue; the first says found */
    FINDING_QUEUE_OFFSET,  /* the record at offset says that its queue offset is found, where expected is due */
    FINDING_QUEUE_GAP,     /* the log does not have them, though it has the next one, at offset */
    FINDING_LOST,          /* their records lie in bytes that are no record; the first, as far as is known, at found; all of them
                              in the `size` bytes before offset, where a good record of the queue follows there */
    /* of the index file whose number is `queue`, entries [first, first + count) */
    FINDING_KEY_MISSING,   /* count keys of records from offset to offset + size are in no entry; queue means nothing */
    FINDING_ENTRY_WRONG,   /* they name no record with such a key; the first says found */
    FINDING_ENTRY_TIME,    /* the first says that its record is found seconds younger than the file's begin; it is expected */
    FINDING_ENTRY_CHAIN,   /* the first names entry found as the next one, where the slot had expected */
    FINDING_SLOT,          /* the first, of slots, names entry found, where the newest is expected */
    FINDING_INDEX_HEADER,  /* detail: enum index_field; it says found, where expected is right */
    FINDING_INDEX_REST,    /* behind the last entry not all is zero; found: the first such byte of the file */
    FINDING_INDEX_UNREADABLE, /* detail: errno */
};

enum index_field { INDEX_BEGIN_MS = 1, INDEX_END_MS, INDEX_BEGIN_OFFSET, INDEX_END_OFFSET, INDEX_SLOTS_USED, INDEX_NEXT_ENTRY };
enum unit_part { UNIT_PLACE = 1, UNIT_SIZE, UNIT_TAGS, UNIT_BEFORE };

/* Plain, for Python. The kind says which fields count. */
struct finding {
    uint32_t kind;
    uint32_t detail;
    uint32_t queue;        /* number of the queue or the index file, for kinds of one */
    uint64_t offset, size; /* in the CommitLog, bytes */
    uint64_t first, count;
    uint64_t expected, found;
};

struct findings {
    struct finding *list;
    uint32_t count, room;
    bool lost; /* there was no memory for a finding */
};

void findings_add(struct findings *findings, const struct finding *finding);
void findings_free(struct findings *findings);

static inline bool findings_many(const struct findings *findings) { return findings->count >= FINDINGS_MANY || findings->lost; }

#endif

/* Checks the IndexFiles against the log. reput adds keys in the log's order, so entries and keys are read side by side: if one
 * has something that the other lacks, that is a fault. On the way each file's chains are followed in memory: the newest entry
 * of every slot must be the one that the next entry of the slot names, and at the end the one that the slot names.
 */
#ifndef ORBITMQ_INDEX_CHECK_H
#define ORBITMQ_INDEX_CHECK_H

#include "check/findings.h"
#include "format/index_file.h"
#include "base/spans.h"

#define INDEX_LAST_KEYS 32u

struct index_check {
    const char *store;
    uint32_t slots, entries;
    const uint64_t *names;  /* of the files, ascending */
    uint32_t count;
    bool has_header;        /* `header` counts for the newest file, not the file's own: what lies behind it is not settled */
    struct index_header newest;
    uint64_t begin;         /* the beginning of the log: entries that point before it belong to messages that are gone */
    uint64_t indexed;       /* entries at or behind this position are not judged: they may be rolled back */
    const struct spans *gaps;
    struct findings *findings;
    /* the file at hand */
    uint32_t file;          /* its number; count: there is none left */
    int descriptor;         /* -1: not opened yet */
    bool lenient;           /* it is the newest file, for which has_header counts */
    struct index_header header;
    uint64_t begin_ms;      /* as the log has it, once known */
    uint64_t end_ms_before; /* end timestamp of the file before */
    uint32_t at;            /* the entry at hand */
    uint32_t slots_used;
    uint32_t *heads;        /* by slot, the newest entry so far */
    uint8_t *data;          /* entries [from, to) */
    uint32_t from, to;
    uint64_t first_offset, last_offset, last_ms; /* of its entries; last_ms 0: not known */
    /* the record whose keys were asked for last, and some of them */
    uint64_t record;
    uint32_t hashes[INDEX_LAST_KEYS], hash_count;
    struct finding missing, wrong, time, chain; /* growing ones */
    uint64_t read;          /* bytes */
};

/* names and the pointers put in later are kept. Returns 0 or ENOMEM. */
int index_check_open(struct index_check *check, const char *store, uint32_t slots, uint32_t entries, const uint64_t *names,
                     uint32_t count);
void index_check_close(struct index_check *check);

/* The next key of the log, in the order in which reput adds them. */
void index_check_key(struct index_check *check, uint32_t hash, uint64_t physical_offset, uint64_t store_ms);

/* Call after the last key: looks at some of the entries that are left. False if there was none; then everything is reported. */
bool index_check_rest(struct index_check *check);

#endif

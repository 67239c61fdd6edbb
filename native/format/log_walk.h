/* Walks the CommitLog forward and does not stop at damage. It returns every good record, and every gap: a run of bytes that are
 * neither a good record nor a good blank marker. After a gap it continues with the next thing that is whole by its magic, its
 * place and its CRCs. A scan (log_scan.h) ends where a walk has its first gap.
 *
 * A gap is in one file. Something that looks like a record (its shape and its place are right, and something whole follows it)
 * and has a wrong CRC is a gap of its own, so that damaged neighbours are reported one by one.
 */
#ifndef ORBITMQ_LOG_WALK_H
#define ORBITMQ_LOG_WALK_H

#include "format/log_window.h"
#include "format/record.h"

/* Larger than any record: a size beyond it is damage, and memory stays bounded. */
#define WALK_RECORD_MAX (64u << 20)

struct log_gap {
    uint64_t offset, end;
    enum record_fault fault; /* of what lies at offset */
    int error;               /* errno, where it could not be read; then fault means nothing */
    bool shaped;             /* the walk's view says what the record claims to be */
};

struct log_walk {
    struct log_window window;
    uint64_t offset;   /* everything before it has been returned */
    uint64_t good_end; /* end of the last good record or blank marker; before the first one, where the walk began */
    uint64_t end;      /* the walk ends here */
    uint64_t zeros_to; /* [offset, zeros_to) is known to be zero, if that is not empty */
    uint64_t search;   /* within a gap: where the search continues */
    bool in_gap;
    uint64_t blanks;   /* file ends passed over */
    /* what was returned last */
    uint64_t at;                 /* LOG_RECORD: its place */
    struct record_view view;     /* points into the window until the next step */
    struct log_gap gap;          /* LOG_GAP */
};

enum log_event {
    LOG_RECORD = 0,
    LOG_GAP = 1,
    LOG_PAUSE = 2,  /* `stop` is reached */
    LOG_END = 3,    /* nothing but zeros lies between offset and end */
    LOG_FAILED = 4, /* no memory */
};

/* from: a record boundary; end: of the last file, or the place from which a running broker's log is not settled yet. Returns 0
 * or ENOMEM. */
int log_walk_open(struct log_walk *walk, const char *store, uint64_t file_size, uint64_t from, uint64_t end);
void log_walk_close(struct log_walk *walk);

/* The next record or gap; LOG_PAUSE once the walk has reached `stop`, so that the caller can show progress. */
enum log_event log_walk_next(struct log_walk *walk, uint64_t stop);

#endif

/* Reads a store once, from its first log file on, and notes what is not as it should be. It writes nothing, believes nothing but
 * the log, and needs the same memory for a store of any size. store/verify.py drives it.
 */
#ifndef ORBITMQ_VERIFY_H
#define ORBITMQ_VERIFY_H

#include "findings.h"

struct verify;

/* Plain, for Python. */
struct verify_state {
    uint64_t offset;      /* the log was read up to here */
    uint64_t good_end;    /* end of the last good record or blank marker, or where the log begins */
    uint64_t records, blanks;
    uint64_t log_bytes;   /* read so far */
    uint64_t last_ms;     /* store timestamp of the last good record, 0: none */
};

enum verify_result { VERIFY_MORE = 0, VERIFY_END = 1, VERIFY_FAILED = 2 };

/* The log is read from begin, where its first file starts, to end: of its last file, or of what a running broker has settled. NULL
 * with errno ENOMEM. */
struct verify *verify_open(const char *store, uint64_t file_size, uint64_t begin, uint64_t end);
void verify_close(struct verify *verify);

/* Goes on for about limit_bytes of log, less when there is much to tell. VERIFY_FAILED: no memory. */
enum verify_result verify_step(struct verify *verify, uint64_t limit_bytes);

void verify_look(const struct verify *verify, struct verify_state *state);

/* Moves at most `most` findings to `to`, oldest first, and returns how many. */
uint32_t verify_findings(struct verify *verify, struct finding *to, uint32_t most);

#endif

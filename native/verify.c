/* One walk over the log drives everything: each good record says what must stand in its queue and in the index. */
#include "verify.h"
#include "log_walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct verify {
    struct log_walk walk;
    struct findings findings;
    struct verify_state state;
};

struct verify *verify_open(const char *store, uint64_t file_size, uint64_t begin, uint64_t end)
{
    struct verify *verify = calloc(1, sizeof *verify);
    if (!verify)
        return NULL;
    if (log_walk_open(&verify->walk, store, file_size, begin, end) != 0) {
        free(verify);
        errno = ENOMEM;
        return NULL;
    }
    return verify;
}

void verify_close(struct verify *verify)
{
    log_walk_close(&verify->walk);
    findings_free(&verify->findings);
    free(verify);
}

static void note_record(struct verify *verify)
{
    const struct log_walk *walk = &verify->walk;
    verify->state.records++;
    verify->state.last_ms = walk->view.store_ms;
}

static void note_gap(struct verify *verify)
{
    const struct log_gap *gap = &verify->walk.gap;
    const struct finding finding = {
        .kind = gap->error ? FINDING_UNREADABLE : FINDING_RECORD,
        .detail = gap->error ? (uint32_t)gap->error : (uint32_t)gap->fault,
        .offset = gap->offset,
        .size = gap->end - gap->offset,
    };
    findings_add(&verify->findings, &finding);
}

enum verify_result verify_step(struct verify *verify, uint64_t limit_bytes)
{
    const uint64_t stop = verify->walk.offset + limit_bytes;
    while (!findings_many(&verify->findings)) {
        switch (log_walk_next(&verify->walk, stop)) {
        case LOG_RECORD: note_record(verify); break;
        case LOG_GAP: note_gap(verify); break;
        case LOG_PAUSE: return VERIFY_MORE;
        case LOG_END: return VERIFY_END;
        case LOG_FAILED: return VERIFY_FAILED;
        }
    }
    return verify->findings.lost ? VERIFY_FAILED : VERIFY_MORE;
}

void verify_look(const struct verify *verify, struct verify_state *state)
{
    *state = verify->state;
    state->offset = verify->walk.offset;
    state->good_end = verify->walk.good_end;
    state->blanks = verify->walk.blanks;
    state->log_bytes = verify->walk.window.read;
}

uint32_t verify_findings(struct verify *verify, struct finding *to, uint32_t most)
{
    struct findings *findings = &verify->findings;
    const uint32_t count = findings->count < most ? findings->count : most;
    if (count == 0)
        return 0;
    memcpy(to, findings->list, count * sizeof *to);
    findings->count -= count;
    memmove(findings->list, findings->list + count, findings->count * sizeof *to);
    return count;
}

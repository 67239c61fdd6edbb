/* One walk over the log drives everything: each good record says what must be in its queue and in the index. */
#include "check/verify.h"
#include "format/delay.h"
#include "check/index_check.h"
#include "format/log_walk.h"
#include "format/properties.h"
#include "check/queue_check.h"

#include <errno.h>
#include <stdlib.h>

struct verify {
    struct verify_plan plan;
    struct log_walk walk;
    struct queue_check queues;
    struct index_check index;
    struct spans gaps;
    struct findings findings;
    struct verify_state state;
    /* the hash of "topic#" for the topic at hand */
    int32_t prefix;
    uint32_t topic_size;
    uint8_t topic[TOPIC_SIZE_MAX];
};

struct verify *verify_open(const struct verify_plan *plan)
{
    struct verify *verify = calloc(1, sizeof *verify);
    if (!verify)
        return NULL;
    verify->plan = *plan;
    plan = &verify->plan;
    verify->index.descriptor = -1;
    verify->walk.window.descriptor = -1;
    if (log_walk_open(&verify->walk, plan->store, plan->log_file_size, plan->begin, plan->end) != 0 ||
        queue_check_open(&verify->queues, plan->store, plan->queue_file_units, plan->queues) != 0 ||
        index_check_open(&verify->index, plan->store, plan->index_slots, plan->index_entries, plan->index_names,
                         plan->index_count) != 0) {
        verify_close(verify);
        errno = ENOMEM;
        return NULL;
    }
    verify->queues.begin = verify->index.begin = plan->begin;
    verify->queues.indexed = verify->index.indexed = plan->indexed;
    verify->queues.settled = plan->settled;
    verify->queues.gaps = verify->index.gaps = &verify->gaps;
    verify->queues.findings = verify->index.findings = &verify->findings;
    verify->index.has_header = plan->has_header;
    verify->index.newest = plan->header;
    return verify;
}

void verify_close(struct verify *verify)
{
    log_walk_close(&verify->walk);
    queue_check_close(&verify->queues);
    index_check_close(&verify->index);
    spans_free(&verify->gaps);
    findings_free(&verify->findings);
    free(verify);
}

static int32_t prefix_of(struct verify *verify, struct slice topic)
{
    if (topic.size != verify->topic_size || memcmp(topic.data, verify->topic, topic.size) != 0) {
        verify->prefix = java_hash(java_hash(0, topic.data, topic.size), (const uint8_t *)"#", 1);
        verify->topic_size = topic.size;
        memcpy(verify->topic, topic.data, topic.size);
    }
    return verify->prefix;
}

/* UNIQ_KEY, then each word of KEYS, as many as one index file can hold: as reput adds them. */
static void check_keys(struct verify *verify, const struct record_view *view, const struct known_properties *known)
{
    struct slice rest = known->keys, key = known->unique_key;
    uint32_t room = verify->plan.index_entries - 1;
    if (!key.size && !properties_next_word(&rest, &key))
        return;
    const int32_t prefix = prefix_of(verify, view->topic);
    do
        index_check_key(&verify->index, index_key_hash(prefix, key.data, key.size), view->physical_offset, view->store_ms);
    while (--room && properties_next_word(&rest, &key));
}

static int note_record(struct verify *verify)
{
    const struct record_view *view = &verify->walk.view;
    verify->state.records++;
    if (view->store_ms < verify->state.last_ms)
        verify->state.rising_from = view->physical_offset;
    verify->state.last_ms = view->store_ms;
    struct known_properties known;
    properties_known(view->properties.data, view->properties.size, &known);
    const bool rolled_back = (view->sys_flag & SYSFLAG_TRANSACTION) == SYSFLAG_ROLLED_BACK;
    if (view->physical_offset < verify->plan.indexed && !rolled_back)
        check_keys(verify, view, &known);
    if (!record_queued(view->sys_flag))
        return 0;
    const int64_t code = delay_or_tags_code(view->topic, view->properties, known.tags, view->store_ms, view->prepared_offset);
    return queue_check_record(&verify->queues, view, code);
}

static int note_gap(struct verify *verify)
{
    const struct log_gap *gap = &verify->walk.gap;
    const struct finding finding = {
        .kind = gap->error ? FINDING_UNREADABLE : FINDING_RECORD,
        .detail = gap->error ? (uint32_t)gap->error : (uint32_t)gap->fault,
        .offset = gap->offset,
        .size = gap->end - gap->offset,
        .found = verify->state.records,
        .expected = verify->state.last_ms,
        .count = gap->shaped,
    };
    findings_add(&verify->findings, &finding);
    return spans_add(&verify->gaps, gap->offset, gap->end);
}

static enum verify_result more(const struct verify *verify, bool memory)
{
    return !memory || verify->findings.lost ? VERIFY_FAILED : VERIFY_MORE;
}

enum verify_result verify_step(struct verify *verify, uint64_t limit_bytes)
{
    const uint64_t stop = verify->walk.offset + limit_bytes;
    bool memory = true;
    while (memory && !findings_many(&verify->findings)) {
        switch (log_walk_next(&verify->walk, stop)) {
        case LOG_RECORD: memory = note_record(verify) == 0; break;
        case LOG_GAP: memory = note_gap(verify) == 0; break;
        case LOG_PAUSE: return VERIFY_MORE;
        case LOG_END: return VERIFY_END;
        case LOG_FAILED: memory = false; break;
        }
    }
    return more(verify, memory);
}

enum verify_result verify_units(struct verify *verify, const uint8_t *topic, uint32_t topic_size, uint32_t queue_id,
                                uint64_t first, uint32_t count)
{
    struct queue_name name = {.queue_id = queue_id, .topic_size = (uint8_t)topic_size};
    memcpy(name.topic, topic, topic_size);
    const uint64_t good_end = verify->walk.good_end, floor = verify->plan.floor;
    verify->queues.certain = good_end > floor ? good_end : floor;
    return more(verify, queue_check_rest(&verify->queues, &name, first, count) == 0);
}

enum verify_result verify_rest(struct verify *verify)
{
    if (index_check_rest(&verify->index))
        return more(verify, true);
    queue_check_end(&verify->queues);
    return verify->findings.lost ? VERIFY_FAILED : VERIFY_END;
}

void verify_look(const struct verify *verify, struct verify_state *state)
{
    *state = verify->state;
    state->offset = verify->walk.offset;
    state->good_end = verify->walk.good_end;
    state->blanks = verify->walk.blanks;
    state->log_bytes = verify->walk.window.read;
    state->queue_bytes = verify->queues.read;
    state->index_bytes = verify->index.read;
    state->queue_count = verify->queues.table.count;
}

bool verify_see_queue(const struct verify *verify, uint32_t number, struct verify_queue *queue)
{
    if (number >= verify->queues.table.count)
        return false;
    const struct checked_queue *checked = &verify->queues.queues[number];
    *queue = (struct verify_queue){verify->queues.table.names[number], checked->seen, checked->first, checked->next};
    return true;
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

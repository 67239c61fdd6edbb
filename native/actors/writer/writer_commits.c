/* Offsets of groups that are committed with an atomic batch. The writer orders everything, so it says whose comes first: a record of
 * offsets says where the group has been in each queue, and if that is not where the group is, nothing of its atomic batch is appended
 * (docs/exactly-once.md).
 *
 * Where the groups are is in the control block (commit_table.h), without the write group that is being made. `now` is a copy with it, of
 * this writer alone. What a group has changed is noted in `made`, and told to the table after its commit; a writer that is killed in
 * between has not raised `next`, and its successor reads the records from there on in the queue, once reput has indexed them all. In a
 * new tree it does the same from what a file says (actors/groups/group_commits.py).
 */
#include "actors/writer/writer_parts.h"
#include "base/crash_point.h"
#include "format/consume_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

bool writer_commits_open(struct writer *writer)
{
    struct writer_commits *commits = &writer->commits;
    void *memory = mmap(NULL, sizeof *commits->now, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    commits->now = memory == MAP_FAILED ? NULL : memory; /* zeros, whose pages have no memory until somebody writes there */
    commits->made = malloc(WRITER_COMMITS_MAX * sizeof *commits->made);
    if (!commits->now || !commits->made)
        return false;
    commit_table_copy(commits->now, &writer->attachment->control->commits);
    return true;
}

void writer_commits_close(struct writer *writer)
{
    if (writer->commits.now)
        munmap(writer->commits.now, sizeof *writer->commits.now);
    free(writer->commits.made);
}

static bool read_body(const struct lane_record *record, struct slice *body)
{
    struct record_view view;
    if (record_parse((const uint8_t *)(record + 1), record->image_size, &view) != RECORD_GOOD)
        return false; /* a handler lets none pass */
    *body = view.body;
    return true;
}

bool writer_commits_full(const struct writer *writer) { return writer->commits.count > WRITER_COMMITS_MAX - COMMITS_MOST; }

enum verdict writer_commits_judge(struct writer *writer, const struct lane_record *record, uint32_t *detail)
{
    const struct commit_table *now = writer->commits.now;
    struct slice body;
    struct group_commits commits;
    struct group_commit next;
    if (!read_body(record, &body) || !group_commits_begin(body, &commits))
        return VERDICT_FENCED;
    uint32_t fresh = 0;
    for (*detail = 0; group_commits_next(&commits, &next); ++*detail) {
        const struct commit_key key = commit_key(commits.group, next.topic, next.queue);
        if (commit_table_get(now, &key) != next.from)
            return VERDICT_FENCED;
        fresh += next.from == COMMIT_FROM_NOTHING;
    }
    *detail = COMMIT_KEYS_MAX;
    return commit_table_room(now, fresh) ? VERDICT_APPENDED : VERDICT_COMMITS_FULL;
}

void writer_commits_note(struct writer *writer, const struct lane_record *record, uint64_t end)
{
    struct writer_commits *own = &writer->commits;
    struct slice body;
    struct group_commits commits;
    struct group_commit next;
    if (!read_body(record, &body) || !group_commits_begin(body, &commits))
        return;
    while (group_commits_next(&commits, &next)) {
        const struct commit_key key = commit_key(commits.group, next.topic, next.queue);
        commit_table_set(own->now, &key, next.to);
        own->made[own->count++] = (struct made_commit){key, next.to, end};
    }
    /* relaxed: our own; append() has counted the record */
    own->next = atomic_load_explicit(&topics_queue(writer->attachment->topics, record->queue_slot)->next_offset, memory_order_relaxed);
    CRASH_POINT("writer_commits_noted");
}

void writer_commits_take_back(struct writer *writer)
{
    struct writer_commits *own = &writer->commits;
    uint32_t kept = 0;
    commit_table_copy(own->now, &writer->attachment->control->commits);
    for (uint32_t i = 0; i < own->count; i++)
        if (own->made[i].end <= writer->failed_at) {
            own->made[kept++] = own->made[i];
            commit_table_set(own->now, &own->made[i].key, own->made[i].to);
        }
    own->count = kept;
    own->next = 0; /* nothing is appended any more; the next writer reads again what this group has told */
}

void writer_committed(struct writer *writer)
{
    struct writer_commits *own = &writer->commits;
    struct commit_table *table = &writer->attachment->control->commits;
    if (own->count == 0)
        return;
    for (uint32_t i = 0; i < own->count; i++) {
        commit_table_set(table, &own->made[i].key, own->made[i].to);
        CRASH_POINT("writer_commits_told");
    }
    own->count = 0;
    if (own->next)
        atomic_store_explicit(&table->next, own->next, memory_order_relaxed); /* relaxed: only a successor relies on it, after our death */
    CRASH_POINT("writer_commits_counted");
}

/* ---- takeover, and the start of a tree ---- */

void writer_commits_begin(struct writer *writer, uint64_t next, const uint64_t *entries, uint32_t count)
{
    struct commit_table *table = &writer->attachment->control->commits;
    for (uint32_t i = 0; i < count; i++) {
        const struct commit_key key = {{entries[3 * i], entries[3 * i + 1]}};
        if (key.word[0])
            commit_table_set(table, &key, entries[3 * i + 2]);
    }
    atomic_store_explicit(&table->next, next, memory_order_relaxed); /* relaxed: as in writer_committed */
}

static void apply_record(struct commit_table *table, const struct record_view *view)
{
    struct group_commits commits;
    struct group_commit next;
    if (!group_commits_whole(view->body) || !group_commits_begin(view->body, &commits))
        return;
    while (group_commits_next(&commits, &next)) {
        const struct commit_key key = commit_key(commits.group, next.topic, next.queue);
        commit_table_set(table, &key, next.to);
    }
}

bool writer_read_commits(struct writer *writer, const uint8_t *units, uint32_t count)
{
    struct commit_table *table = &writer->attachment->control->commits;
    struct log_map map; /* as in writer_read_ops */
    log_map_open(&map, writer->attachment->control->settings.store, writer->file_size, false);
    uint64_t next = atomic_load_explicit(&table->next, memory_order_relaxed); /* relaxed: our own */
    int error = 0;
    for (uint32_t i = 0; i < count; i++, next++) {
        const struct queue_unit unit = queue_unit_load(units + (uint64_t)i * CONSUME_QUEUE_UNIT);
        const uint8_t *at = log_map_at(&map, unit.physical_offset);
        if (!at && log_map_passing(errno)) { /* a group would be where it was */
            error = errno;
            break;
        }
        const uint64_t left = writer->file_size - unit.physical_offset % writer->file_size;
        struct record_view view;
        if (at && unit.size <= left && record_check(at, unit.size, unit.physical_offset, &view) == RECORD_GOOD)
            apply_record(table, &view);
        CRASH_POINT("writer_commits_read");
    }
    log_map_close(&map);
    attachment_beat(writer->attachment);
    atomic_store_explicit(&table->next, next, memory_order_relaxed); /* relaxed: as in writer_committed */
    errno = error;
    return !error;
}

void writer_commits_ready(struct writer *writer)
{
    struct commit_table *table = &writer->attachment->control->commits;
    commit_table_copy(writer->commits.now, table);
    atomic_store_explicit(&table->ready, 1, memory_order_release); /* release: all of it before; for a successor, and for who looks */
}

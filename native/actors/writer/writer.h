/* The CommitLog writer: the only process that writes log bytes, and the only one that assigns offsets. */
#ifndef ORBITMQ_WRITER_H
#define ORBITMQ_WRITER_H

#include "actors/run.h"
#include "shared/attachment.h"

#define WRITER_GROUP_BYTES (256u << 10) /* a write group ends with the record that passes this */

struct writer;

struct writer *writer_open(struct attachment *attachment);
void writer_close(struct writer *writer);

/* Takes over from a predecessor, or from recovery: publishes the commit record's wrote position, delivers again what was
 * applied, zeroes what may be behind it, and takes the queues' next offsets once reput has reached it. RUN_TIME: not yet, call
 * again; RUN_FAILED: errno in the page. Returns RUN_NEED when the takeover is complete and steps may begin. */
/* The end, as a physical offset, of what a predecessor may have left behind the log; 0: it left nothing. writer_take_over
 * zeroes it and syncs the zeros. Before that, the caller durably notes the offset (store/unsynced.py). */
uint64_t writer_left_over(struct writer *writer);

enum run_result writer_take_over(struct writer *writer, uint32_t limit_ms);

/* At the start of a tree, before the first step: half messages up to `next`, those before `floor` are settled; then those that the operation
 * messages of these ConsumeQueue units name; then it is ready. False, with errno: the log cannot be mapped now. */
void writer_halves_begin(struct writer *writer, uint64_t floor, uint64_t next);
bool writer_read_ops(struct writer *writer, const uint8_t *units, uint32_t count);
void writer_halves_ready(struct writer *writer);

/* The same for the offsets of groups that were committed with atomic batches. At the start of a tree: entries, of three words each, as
 * control_commits_copy gave them, and the first record that they may lack. Then, by each writer: the ConsumeQueue units of all records from
 * control_commits_next on. */
void writer_commits_begin(struct writer *writer, uint64_t next, const uint64_t *entries, uint32_t count);
bool writer_read_commits(struct writer *writer, const uint8_t *units, uint32_t count);
void writer_commits_ready(struct writer *writer);

/* Appends at most one write group; returns the number of messages it answered. */
uint32_t writer_step(struct writer *writer);

/* What a loop needs around the steps: is there anything to do that the last one did not see (looked at between announcement and
 * sleep)? True if the writer waits for the next CommitLog file, not for a handler; before a sleep, so that the allocator is rung. And
 * what must be done from time to time; `idle`: the last step found nothing. */
bool writer_has_news(const struct writer *writer);
bool writer_ask_for_file(struct writer *writer);
void writer_tick(struct writer *writer, bool idle);

enum run_result writer_run(struct writer *writer, uint32_t limit_ms);

#endif

/* reput: reads the CommitLog forward and builds ConsumeQueues and IndexFiles from it. The log is its only source. */
#ifndef ORBITMQ_REPUT_H
#define ORBITMQ_REPUT_H

#include "actors/run.h"
#include "shared/attachment.h"

struct reput;

/* Opens the commit file <store>/orbitmq/reput and rolls the index back to it. Indexing starts at control->reput, which recovery
 * has set, or, if a predecessor died, at the commit file's position. Every queue counts as changed. For a store that must not
 * be changed, recovery has set it to the log's end, and neither file is opened. NULL with errno. */
struct reput *reput_open(struct attachment *attachment);
void reput_close(struct reput *reput);

/* Indexes at most limit_bytes of the log, or one record; publishes, commits and wakes. Returns the number of records passed. If
 * something stopped it earlier, the reason is in control->reput.error: ENOSPC and the like go away by themselves. EBADMSG (the
 * log holds something that is not a record) does not, and puts the page into ACTOR_FAILED. */
uint32_t reput_step(struct reput *reput, uint32_t limit_bytes);

/* The current position. The published position never falls; this one may be below it after a predecessor's death. */
uint64_t reput_position(const struct reput *reput);

/* Call after RUN_NEED, and after a step that ended at a record whose queue is not in the table: the record is the one at
 * reput_position. Returns the size of its topic's name (`name` has room for TOPIC_NAME_MAX bytes); 0 if nothing is missing. */
uint32_t reput_missing(const struct reput *reput, uint8_t *name, uint32_t *queue);

/* What the caller decides about it, unless it has the queue added. pass: no queue will ever lead to the record; it only stays
 * in the log. stop: not with this table; as with EBADMSG, nothing is indexed any more, and the error persists until the tree
 * ends. */
void reput_pass(struct reput *reput);
void reput_stop(struct reput *reput, uint32_t error);

/* What a loop needs around the steps. turn: one step; RUN_NEED and RUN_FAILED as below, else RUN_TIME; moved: it passed something.
 * has_news, looked at between announcement and sleep: is there anything that a step could do now? patience_ns: how long a sleep may
 * be; shorter if the last step found no room on the disk, for which no bell rings. tick: what must be done from time to time; idle:
 * the last step found nothing. */
enum run_result reput_turn(struct reput *reput, bool *moved, uint32_t *messages);
bool reput_has_news(const struct reput *reput);
uint64_t reput_patience_ns(const struct reput *reput);
void reput_tick(struct reput *reput, bool idle);

/* True once after deleted topics may have got files from this process. let_go: the queue's file is closed, so that it may be removed; the
 * next unit makes a new one. */
bool reput_late(struct reput *reput);
void reput_let_go(struct reput *reput, uint32_t slot);

/* RUN_NEED: the log holds a queue that the topic table does not know (another broker's log, or a table lost with
 * config/topics.json); see above. RUN_FAILED: once, when an error has come that persists; later calls only wait. */
enum run_result reput_run(struct reput *reput, uint32_t limit_ms);

#endif

/* reput: reads the CommitLog forward and builds ConsumeQueues and IndexFiles from it; nothing else tells it anything. */
#ifndef ORBITMQ_REPUT_H
#define ORBITMQ_REPUT_H

#include "run.h"
#include "tree.h"

struct reput;

/* Opens the commit file <store>/orbitmq/reput and rolls the index back to it. Indexing starts at control->reput, which recovery has
 * set, or, when a predecessor died, at the commit file's position. Every queue counts as changed. NULL with errno. */
struct reput *reput_open(struct tree *tree);
void reput_close(struct reput *reput);

/* Indexes at most limit_bytes of the log, or one record; publishes, commits and wakes. Returns the number of records passed. What
 * stopped it short of that stands in control->reput.error: ENOSPC and the like go away by themselves, EBADMSG (the log
 * holds something that is no record) does not and puts the page into ACTOR_FAILED. */
uint32_t reput_step(struct reput *reput, uint32_t limit_bytes);

/* Where it stands; the published position never falls, this one may be below it after a predecessor's death. */
uint64_t reput_position(const struct reput *reput);

/* After RUN_NEED, and after a step that stopped: the topic (its name's size is returned, name has room for TOPIC_NAME_MAX bytes)
 * and the least number of queues it must have; 0 if nothing is missing. */
uint32_t reput_missing(const struct reput *reput, uint8_t *name, uint32_t *queues);

/* RUN_NEED: the log holds a topic that the topic table does not know (a table lost with config/topics.json); reput_missing
 * says which, and the caller has it added before it runs on. */
enum run_result reput_run(struct reput *reput, uint32_t limit_ms);

#endif

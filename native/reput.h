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

/* Indexes at most limit_bytes of the log; returns the number of messages. */
uint32_t reput_step(struct reput *reput, uint32_t limit_bytes);

/* RUN_NEED: the log holds a topic that the topic table does not know (a table lost with config/topics.json); reput_missing
 * says which, and the caller has it added before it runs on. */
enum run_result reput_run(struct reput *reput, uint32_t limit_ms);

#endif

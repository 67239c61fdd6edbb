/* The dispatcher: hands each message of a group of workers to one of them for a time, and takes their answers.
 *
 * What is done, in hand, waiting or free stands in a file for each (group, queue), a word for each message (work_file.h). A worker's
 * session has two rings (work_ring.h): what it was handed out, and what it answers. Both carry ranges, so a thousand messages cost
 * two records. The worker reads the messages themselves from the store's files, as a consumer does.
 *
 * Which groups, queues and workers there are says the work plan (store/work/plan.py), which the coordinator replaces and Python hands over:
 * dispatcher_begin, then each group with its workers and queues, then dispatcher_settle.
 *
 * Killed at any step, it leaves this to its successor:
 *   words half stored for a hand-out that was not published   the note (work_note.h) names them; they are free again
 *   an answer half applied                                     is applied again: what is in its sender's name already stays
 *   answers applied, their room not given back                 `taken` of the session's entry says how far they are applied
 *   a client not rung                                          every sleep ends after BELL_LIMIT_NS
 *   a portion of retries and dead letters                      the writer takes it; the words say which messages (dispatcher_put.c)
 */
#ifndef ORBITMQ_DISPATCHER_H
#define ORBITMQ_DISPATCHER_H

#include "actors/run.h"
#include "shared/attachment.h"
#include "shared/work_partings.h"

#define DISPATCHER_KNOWN_MAX (1u << 20)

struct dispatcher;

/* NULL if memory is short. */
struct dispatcher *dispatcher_open(struct attachment *attachment);
void dispatcher_close(struct dispatcher *dispatcher);
/* How many messages of a key-ordered group it knows at most; then it looks at no further ones until some are done. Before the first plan
 * that names such a group. A broker says DISPATCHER_KNOWN_MAX. */
void dispatcher_know(struct dispatcher *dispatcher, uint32_t most);
/* boot: 16 bytes that name this boot of the machine. */
void dispatcher_boot(struct dispatcher *dispatcher, const uint8_t *boot);
/* path: of orbitmq/retries, reserved whole. Returns 0 or an errno: nothing is put into the log then. After dispatcher_boot. */
int dispatcher_partings(struct dispatcher *dispatcher, const char *path);
/* Reads a piece of what the log knows after a death of the whole tree; true once all of it is read. */
bool dispatcher_load(struct dispatcher *dispatcher);
/* The group whose topics for retries and dead letters are missing, after RUN_NEED; "": none. Forgotten with this call. */
void dispatcher_missing(struct dispatcher *dispatcher, char name[128]);

/* A plan of this version follows. */
void dispatcher_begin(struct dispatcher *dispatcher, uint32_t version);
/* What waits for what in a group: nothing; a message for those of its key before it; or each run of a queue for the one before it. */
enum work_order { WORK_ORDER_NONE = 0, WORK_ORDER_KEY = 1, WORK_ORDER_QUEUE = 2 };
#define WORK_RUN_MAX 32u /* messages of such a run, as many as RocketMQ's clients pop at once */
/* Returns the group's number for the two calls below; -1: no memory. opening: never 0, another one each time the group begins to work.
 * order: changes only while it has no workers. */
int32_t dispatcher_group(struct dispatcher *dispatcher, uint64_t opening, const char *name, bool paused, uint32_t max_tries,
                         enum work_order order);
/* topic: number of its topic within the group, below 64. offset: where the group is, if the file does not say better. Returns 0 or an errno:
 * the queue is not handed out then. */
int dispatcher_queue(struct dispatcher *dispatcher, int32_t group, uint32_t slot, uint32_t topic, const char *path, uint64_t opening,
                     uint64_t offset);
/* topics: a bit for each topic that it takes. most: messages in its hands. Returns 0 or ENOMEM. */
int dispatcher_worker(struct dispatcher *dispatcher, int32_t group, uint32_t slot, uint32_t epoch, uint64_t topics, uint32_t most,
                      uint64_t visibility_ms);
/* One of the group's filters. name: a number of its own, never 0: another one if the filter is another. topics: a bit for each of which
 * it chooses the messages. tags: none: all of them. sql: no text: all. Returns 0 or an errno: the plan cannot be taken then. */
int dispatcher_filter(struct dispatcher *dispatcher, int32_t group, uint64_t name, uint64_t topics, const struct slice *tags, uint32_t count,
                      struct slice sql);
/* The plan is complete: what it does not name is forgotten. */
void dispatcher_settle(struct dispatcher *dispatcher);

/* One bounded step; returns how many messages were handed out or answered. */
uint32_t dispatcher_step(struct dispatcher *dispatcher);

/* RUN_NEED: there is a new plan, or dispatcher_missing has something to say. */
enum run_result dispatcher_run(struct dispatcher *dispatcher, uint32_t limit_ms);

#endif

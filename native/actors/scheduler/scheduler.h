/* The scheduler: puts each delayed message into the log again when it is due, this time for the topic that it is for.
 *
 * It reads the queues of SCHEDULE_TOPIC_XXXX, one for each level, in which due times rise, and looks only at the first message of each.
 * So what it holds in memory does not depend on how much is pending. Due messages go through a lane of its own to the CommitLog
 * writer, a portion at a time (put_lane.h): encode, publish, wait until the writer has freed them, read its notes, count (delay_record.h).
 *
 * Each message comes once, whatever is killed; docs/delay.md says how. In short:
 *   scheduler   the lane's records name the messages that they are made of, and stay until they are counted. A successor finds behind
 *               `lane` of the delay record what its predecessor published, and counts it when the writer has freed it. What was not
 *               published does not exist.
 *   writer      applies a lane's record once (writer.c), as a handler's.
 *   the tree    the log's own records name the messages that they are made of (delay_mark). The next start reads config/delayOffset.json
 *               and orbitmq/delayed, and then the log, from the position in the latter on.
 */
#ifndef ORBITMQ_SCHEDULER_H
#define ORBITMQ_SCHEDULER_H

#include "actors/run.h"
#include "shared/attachment.h"

struct scheduler;

/* NULL if memory is short. */
struct scheduler *scheduler_open(struct attachment *attachment);
void scheduler_close(struct scheduler *scheduler);

/* False in the first life of a tree, until scheduler_begin and the reading of the log after it are over. */
bool scheduler_knows(const struct scheduler *scheduler);

/* What the files say. next: offsets by level - 1. timer: known, due_ms, offset and floor of struct timer_progress. from: a physical
 * offset below which every record that a scheduler has put there is counted in them. */
void scheduler_begin(struct scheduler *scheduler, const uint64_t next[18], const uint64_t timer[4], uint64_t from);

/* orbitmq/delayed exists. Nothing is put into the log before: without it, nobody would look for that. */
void scheduler_kept(struct scheduler *scheduler);

/* It could not be written now: asks again after a while. */
void scheduler_not_kept(struct scheduler *scheduler);

/* One bounded piece of work; returns how much there was, 0 if there is nothing to do now. */
uint32_t scheduler_step(struct scheduler *scheduler);

/* RUN_NEED: scheduler_kept is to be called, once that is true. */
enum run_result scheduler_run(struct scheduler *scheduler, uint32_t limit_ms);

/* Waits until what was published is counted; false if the writer does not take it within limit_ms. */
bool scheduler_drain(struct scheduler *scheduler, uint32_t limit_ms);

/* For tests: how far ahead of the machine's the two clocks are that say what is due, CLOCK_REALTIME and CLOCK_MONOTONIC. */
void scheduler_set_clocks(struct scheduler *scheduler, int64_t real_ms, int64_t monotonic_ms);

/* For tests: how many messages with a time are held in memory; at least 2, and before anything has come. */
void scheduler_set_room(struct scheduler *scheduler, uint32_t room);
void scheduler_set_most(struct scheduler *scheduler, uint32_t most);

/* For the files, by the scheduler or after its end. False: they cannot say it now, because something was published that is not counted,
 * or a message is done that comes after one that is not. */
struct delay_seen {
    uint64_t next[18];
    uint64_t timer[4]; /* as in scheduler_begin */
    uint64_t end; /* as in struct delay_slot */
};
bool scheduler_seen(const struct control *control, const struct lane *lane, struct delay_seen *seen);

#endif

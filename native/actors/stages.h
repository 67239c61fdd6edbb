/* Handler, writer and reput in one process: a message that comes alone wakes one process of the broker instead of three, and on
 * few processors each stage finds the record in the cache in which the one before it left it.
 *
 * Nothing else is different. Each stage is what it is in a process of its own: its step, its page, its crash points, its
 * successor. This loop only steps them in the order in which a message passes them, and sleeps when none of them has work.
 */
#ifndef ORBITMQ_STAGES_H
#define ORBITMQ_STAGES_H

#include "actors/handler/handler.h"
#include "actors/reput/reput.h"
#include "actors/writer/writer.h"

struct stages;

/* attachment: the handler's. The stages stay the caller's, and are closed after this. NULL if memory is short. */
struct stages *stages_open(struct attachment *attachment, struct handler *handler, struct writer *writer, struct reput *reput);
void stages_close(struct stages *stages);

/* Which of the stages may be stepped now. The handler always may. */
enum stages_ready {
    STAGES_WRITES = 1, /* the writer has taken over. Before, a run ends as soon as reput has reached what it waits for */
    STAGES_READS = 2,  /* Python does not do just now what reput has asked for */
};

/* Steps and sleeps until limit_ms are over. RUN_NEED and RUN_FAILED come from reput (reput/reput.h). */
enum run_result stages_run(struct stages *stages, uint32_t ready, uint32_t limit_ms);

/* Steps each stage once; returns the number of messages that they have passed on. The writer must have taken over. */
uint32_t stages_step(struct stages *stages);

#endif

/* The send handler: takes frames from the sessions it owns, validates them, and writes finished images into its lane.
 *
 * It trusts nothing that a client wrote. Each header is copied out before it is looked at, each length is bounded by the record
 * that holds it, and bodies are copied into the lane before their CRC is computed. A session whose ring contradicts itself is
 * marked SESSION_FAULTY and left alone.
 */
#ifndef ORBITMQ_HANDLER_H
#define ORBITMQ_HANDLER_H

#include "actors/run.h"
#include "shared/attachment.h"

struct handler;

/* Continues where a predecessor left off (handler_intake.c says how). NULL if memory is short. */
struct handler *handler_open(struct attachment *attachment, uint32_t lane);
void handler_close(struct handler *handler);

/* One bounded step over the sessions with news; returns the number of messages put into the lane. */
uint32_t handler_step(struct handler *handler);

/* Puts about this much into the lane in one step at most, instead of as much as it holds. */
void handler_limit_step(struct handler *handler, uint64_t bytes);

/* What a loop needs around the steps: is there anything to do that the last one did not see (looked at between announcement and
 * sleep)? And what must be done from time to time. */
bool handler_has_news(const struct handler *handler);
void handler_tick(struct handler *handler, uint64_t now_ms);
struct bell *handler_bell(struct handler *handler);

/* Steps and sleeps until limit_ms are over. */
enum run_result handler_run(struct handler *handler, uint32_t limit_ms);

#endif

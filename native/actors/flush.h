/* The flush service: makes the log durable, at intervals or on demand. */
#ifndef ORBITMQ_FLUSH_H
#define ORBITMQ_FLUSH_H

#include "actors/run.h"
#include "shared/attachment.h"

struct flush;

struct flush *flush_open(struct attachment *attachment);
void flush_close(struct flush *flush);

/* Syncs everything up to the wrote position, which it reads first; returns the number of bytes made durable. */
uint64_t flush_step(struct flush *flush);

enum run_result flush_run(struct flush *flush, uint32_t limit_ms);

#endif

/* The allocator: keeps the writer's next file and its next pages ready, so that neither is made while senders wait.
 *
 * Python makes a file (store/commit_log/mapped_file.py). Pages are made ready by reading them. The file is reserved but unwritten, so the
 * kernel supplies zeroed, clean pages without asking the disk, and the writer's first store to each page finds it there. Only a
 * few pages are kept ahead, because pages that nobody writes are memory that nobody else can use.
 */
#ifndef ORBITMQ_ALLOCATOR_H
#define ORBITMQ_ALLOCATOR_H

#include "actors/run.h"
#include "shared/attachment.h"

#define ALLOCATOR_AHEAD (64u << 20) /* bytes of ready pages before the wrote position; refilled below half of it */

struct allocator;

struct allocator *allocator_open(struct attachment *attachment);
void allocator_close(struct allocator *allocator);

/* Makes the next few pages ready; returns bytes, 0 when enough is. */
uint64_t allocator_step(struct allocator *allocator);

/* RUN_NEED: the next CommitLog file is to be made, then call again. */
enum run_result allocator_run(struct allocator *allocator, uint32_t limit_ms);

#endif

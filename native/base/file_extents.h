/* What the file system reports about the blocks under a file. */
#ifndef ORBITMQ_FILE_EXTENTS_H
#define ORBITMQ_FILE_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether any of [begin, end) lies in blocks that are reserved and were never written, as the file system has it: they read
as zeros once
 * memory is gone. After a sync that would be a contradiction. It happens: where ext4 could not write a page of reserved
 * blocks, it forgets that they were only reserved, writes the page when it changes again, and never marks the blocks as
 * written. False where the file system does not tell. */
bool file_extents_unwritten(int descriptor, uint64_t begin, uint64_t end);

#endif

/* The bytes of a log file written again, as they are: for a sync that may have failed before.
 *
 * The kernel reports a page that it could not write once, and takes it for written from then on. Another fdatasync finds nothing to
 * do and succeeds. Only pages that are dirty are written, so whoever cannot know that an earlier sync succeeded makes them dirty first.
 */
#ifndef ORBITMQ_LOG_REWRITE_H
#define ORBITMQ_LOG_REWRITE_H

#include <stdint.h>

/* Writes bytes [begin, end) of an open file again, and those before them on the same page. Nobody may be changing them; what follows
 * them is left alone, so the writer may append meanwhile. Syncs nothing. Returns 0 or an errno. */
int log_rewrite(int descriptor, uint64_t begin, uint64_t end);

/* The same past the page cache, for blocks that the file system would not mark as written otherwise (file_extents.h). direct: the file
 * once more, opened with O_DIRECT. The rest of the last page is written too: nobody else may have the file open for writing. */
int log_rewrite_direct(int descriptor, int direct, uint64_t begin, uint64_t end);

#endif

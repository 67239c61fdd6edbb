/* Writes the bytes of a log file again, as they are, because an earlier sync may have failed.
 *
 * The kernel reports a page that it could not write once, and treats it as written from then on. Another fdatasync finds
 * nothing to do and succeeds. Only dirty pages are written. So a process that cannot know whether an earlier sync succeeded
 * makes them dirty first.
 */
#ifndef ORBITMQ_LOG_REWRITE_H
#define ORBITMQ_LOG_REWRITE_H

#include <stdint.h>

/* Writes bytes [begin, end) of an open file again, and those before them on the same page. Nobody may change them meanwhile.
 * What follows them is left alone, so the writer may append. Syncs nothing. Returns 0 or an errno. */
int log_rewrite(int descriptor, uint64_t begin, uint64_t end);

/* The same past the page cache, for blocks that the file system would not mark as written otherwise (file_extents.h). direct:
 * the same file, opened with O_DIRECT. The rest of the last page is written too, so nobody else may have the file open for
 * writing. */
int log_rewrite_direct(int descriptor, int direct, uint64_t begin, uint64_t end);

#endif

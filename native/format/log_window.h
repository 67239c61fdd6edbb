/* A piece of the CommitLog in memory, for a caller that reads all of the log once, in whatever state it is.
 *
 * Unlike log_map it maps nothing. If the disk cannot read a page, or a file is shorter than it should be, that is an errno here
 * and a SIGBUS there. The memory stays the same however large the log is.
 */
#ifndef ORBITMQ_LOG_WINDOW_H
#define ORBITMQ_LOG_WINDOW_H

#include "base/store_path.h"
#include <stdint.h>

struct log_window {
    char folder[STORE_FOLDER_ROOM]; /* <store>/commitlog */
    uint64_t file_size;
    int descriptor;      /* of the file that begins at file_start, or -1 */
    uint64_t file_start;
    uint8_t *data;       /* bytes [from, to) of the log, all of one file */
    uint64_t capacity;
    uint64_t from, to;
    uint64_t bad;        /* after a failed read: the first byte that could not be read */
    uint64_t read;       /* bytes read so far */
};

/* Returns 0 or ENOMEM. */
int log_window_open(struct log_window *window, const char *store, uint64_t file_size);
void log_window_close(struct log_window *window);

/* The address of a physical offset with at least `need` bytes that can be read; *available says how many. need is at least 1
 * and does not pass the end of the file. NULL with errno: ENOENT (no such file), ENODATA (it is shorter), ENOMEM, or an errno
 * of open or read. Earlier addresses are void. */
const uint8_t *log_window_at(struct log_window *window, uint64_t offset, uint64_t need, uint64_t *available);

/* The first byte in [offset, end) that is not zero; `end` if there is none. Files that do not exist count as zeros, and so does
 * what cannot be read. The window is void afterwards. */
uint64_t log_window_nonzero(struct log_window *window, uint64_t offset, uint64_t end);

#endif

/* Reads a stretch of a file whole. */
#ifndef ORBITMQ_FILE_READ_H
#define ORBITMQ_FILE_READ_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/* Reads [at, at + size) into `to`; continues after signals and short reads. Returns the number of bytes: fewer at the end of the file, and
 * where it cannot be read. Then *error is the errno, otherwise 0. */
static inline size_t file_read(int descriptor, void *to, size_t size, uint64_t at, int *error)
{
    size_t done = 0;
    *error = 0;
    while (done < size) {
        const ssize_t got = pread(descriptor, (char *)to + done, size - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            *error = errno;
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    return done;
}

#endif

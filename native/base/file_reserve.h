/* Reserves blocks of a file, so that a store through its mapping cannot cause SIGBUS on a full disk. */
#ifndef ORBITMQ_FILE_RESERVE_H
#define ORBITMQ_FILE_RESERVE_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>

/* Reserves bytes [from, to); continues after signals. Returns 0 or an errno, usually ENOSPC. */
static inline int file_reserve(int descriptor, uint64_t from, uint64_t to)
{
    int error;
    do
        error = posix_fallocate(descriptor, (off_t)from, (off_t)(to - from));
    while (error == EINTR);
    return error;
}

#endif

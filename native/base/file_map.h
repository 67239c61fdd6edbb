/* Maps the beginning of an existing file, of which at least so much must be there. */
#ifndef ORBITMQ_FILE_MAP_H
#define ORBITMQ_FILE_MAP_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Maps [0, size) of the file read-write and shared; the caller unmaps it. NULL with errno: EILSEQ if the file is smaller, ELOOP if the
 * last part of the path is a link. */
static inline void *file_map(const char *path, uint64_t size)
{
    const int descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0)
        return NULL;
    struct stat status;
    int error = fstat(descriptor, &status) != 0 ? errno : (uint64_t)status.st_size < size ? EILSEQ : 0;
    void *const memory = error ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (!error && memory == MAP_FAILED)
        error = errno;
    close(descriptor);
    if (!error)
        return memory;
    errno = error;
    return NULL;
}

#endif

#include "actors/writer/small_write.h"
#include "base/crash_point.h"
#include "format/log_map.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void small_write_open(struct small_write *write) { *write = (struct small_write){.descriptor = -1}; }

void small_write_close(struct small_write *write)
{
    if (write->descriptor >= 0)
        close(write->descriptor);
    write->descriptor = -1;
}

void small_write_enter(struct small_write *write, const char *folder, uint64_t start, uint8_t *file)
{
    assert(write->count == 0);
    small_write_close(write);
    write->descriptor = log_file_open(folder, start, O_WRONLY);
    write->file = file;
}

bool small_write_takes(const struct small_write *write, uint64_t at)
{
    return write->count == 0 || (write->count < SMALL_WRITE_PARTS && at == write->at + write->size);
}

void small_write_add(struct small_write *write, uint64_t at, const void *bytes, uint64_t size)
{
    assert(small_write_takes(write, at));
    if (write->count == 0) {
        write->at = at;
        write->size = 0;
    }
    write->parts[write->count++] = (struct iovec){(void *)(uintptr_t)bytes, size};
    write->size += size;
}

/* Writes parts until one fails; returns the errno. `*parts`, `*bytes`: how many are complete, and where the next one goes. */
static int write_parts(const struct small_write *write, uint32_t *parts, uint64_t *bytes)
{
    struct iovec left[SMALL_WRITE_PARTS];
    memcpy(left, write->parts, write->count * sizeof *left);
    uint64_t at = write->at; /* after what was written, also of an incomplete part */
    while (*parts < write->count) {
        struct iovec *next = &left[*parts];
        const ssize_t done = pwritev(write->descriptor, next, (int)(write->count - *parts), (off_t)at);
        if (done < 0 && errno != EINTR)
            return errno;
        if (done == 0)
            return EIO;
        uint64_t put = done > 0 ? (uint64_t)done : 0;
        at += put;
        for (; *parts < write->count && put >= next->iov_len; next++) {
            put -= next->iov_len;
            *bytes += write->parts[(*parts)++].iov_len;
        }
        if (put) {
            next->iov_base = (uint8_t *)next->iov_base + put;
            next->iov_len -= put;
        }
    }
    return 0;
}

/* No descriptor, or no memory just now: the mapping needs none. */
static bool says_nothing_of_the_disk(int error) { return error == EBADF || log_map_passing(error); }

int small_write_end(struct small_write *write, uint64_t *failed)
{
    uint32_t whole = 0;
    uint64_t to = write->at;
    int error = write->count == 0 ? 0 : write->descriptor < 0 ? EBADF : write_parts(write, &whole, &to);
    if (says_nothing_of_the_disk(error)) {
        for (; whole < write->count; to += write->parts[whole++].iov_len)
            memcpy(write->file + to, write->parts[whole].iov_base, write->parts[whole].iov_len);
        error = 0;
    }
    *failed = to;
    write->count = 0;
    CRASH_POINT("small_write_done");
    return error;
}

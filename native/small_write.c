#include "small_write.h"
#include "crash_point.h"
#include "log_map.h"
#include <assert.h>
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
    char path[4128];
    log_file_path(path, folder, start);
    write->descriptor = open(path, O_WRONLY | O_CLOEXEC);
    write->file = file;
}

void small_write_add(struct small_write *write, uint64_t at, const void *bytes, uint64_t size)
{
    if (write->count == SMALL_WRITE_PARTS || (write->count && at != write->at + write->size))
        small_write_end(write);
    if (write->count == 0) {
        write->at = at;
        write->size = 0;
    }
    write->parts[write->count++] = (struct iovec){(void *)(uintptr_t)bytes, size};
    write->size += size;
}

void small_write_end(struct small_write *write)
{
    if (write->count == 0)
        return;
    const ssize_t done = write->descriptor < 0
                             ? -1
                             : pwritev(write->descriptor, write->parts, (int)write->count, (off_t)write->at);
    /* Whatever the reason, the mapping takes it; an error of the disk itself is the next sync's to find. */
    if (done != (ssize_t)write->size) {
        uint8_t *to = write->file + write->at;
        for (uint32_t i = 0; i < write->count; to += write->parts[i].iov_len, i++)
            memcpy(to, write->parts[i].iov_base, write->parts[i].iov_len);
    }
    write->count = 0;
    CRASH_POINT("small_write_done");
}

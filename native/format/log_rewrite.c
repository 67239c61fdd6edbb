#include "format/log_rewrite.h"
#include "base/file_read.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define PIECE (1u << 20)
#define PAGE_BYTES UINT64_C(4096)

static int rewrite_piece(int from, int to, uint8_t *bytes, uint64_t at, uint64_t size)
{
    int error;
    if (file_read(from, bytes, size, at, &error) < size)
        return error ? error : ENODATA;
    for (uint64_t done = 0; done < size;) {
        const ssize_t put = pwrite(to, bytes + done, size - done, (off_t)(at + done));
        if (put < 0 && errno != EINTR)
            return errno;
        done += put > 0 ? (uint64_t)put : 0;
    }
    return 0;
}

static int rewrite(int from, int to, uint64_t begin, uint64_t end)
{
    if (begin >= end)
        return 0;
    uint8_t *bytes = aligned_alloc(PAGE_BYTES, PIECE);
    if (!bytes)
        return ENOMEM;
    int error = 0;
    for (uint64_t at = begin - begin % PAGE_BYTES; at < end && !error;) {
        const uint64_t size = end - at < PIECE ? end - at : PIECE;
        error = rewrite_piece(from, to, bytes, at, size);
        at += size;
    }
    free(bytes);
    return error;
}

int log_rewrite(int descriptor, uint64_t begin, uint64_t end) { return rewrite(descriptor, descriptor, begin, end); }

int log_rewrite_direct(int descriptor, int direct, uint64_t begin, uint64_t end)
{
    return rewrite(descriptor, direct, begin, (end + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES);
}

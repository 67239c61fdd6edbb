#include "shared/commit_words.h"
#include "base/file_reserve.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_AGAIN 16 /* a member that commits without a pause is found between two commits long before that */

static int write_u64(int descriptor, uint64_t value, off_t at)
{
    for (;;) {
        const ssize_t written = pwrite(descriptor, &value, sizeof value, at);
        if (written == (ssize_t)sizeof value)
            return 0;
        if (written >= 0)
            return EIO;
        if (errno != EINTR)
            return errno;
    }
}

int commit_words_make(int descriptor, uint32_t capacity)
{
    const int error = file_reserve(descriptor, 0, commit_words_size(capacity));
    return error ? error : write_u64(descriptor, COMMIT_WORDS_MAGIC, 0);
}

int commit_words_close(int descriptor)
{
    const int error = write_u64(descriptor, 1, offsetof(struct commit_words, closed));
    /* seq_cst: `closed` before our reads of the words; both are the kernel's accesses to the page that the member has mapped. A
     * member stores its words, fences, then reads `closed`: one of us sees the other. Pairs with pull_hold_commit_all [G2]. */
    atomic_thread_fence(memory_order_seq_cst);
    return error;
}

static int read_once(int descriptor, uint64_t *head, uint64_t *words, uint32_t count)
{
    const size_t size = (size_t)count * sizeof *words;
    for (;;) {
        const ssize_t first = pread(descriptor, head, sizeof *head, 0);
        const ssize_t then = first < 0 ? first : pread(descriptor, words, size, sizeof(struct commit_words));
        if (first == (ssize_t)sizeof *head && then == (ssize_t)size)
            return 0;
        if (first >= 0 && then >= 0)
            return EILSEQ;
        if (errno != EINTR)
            return errno;
    }
}

int commit_words_read(int descriptor, uint32_t capacity, uint64_t *words, uint32_t count)
{
    assert(count <= capacity);
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        return errno;
    uint64_t head;
    if ((uint64_t)status.st_size != commit_words_size(capacity))
        return EILSEQ;
    int error = read_once(descriptor, &head, words, count);
    if (!error && head != COMMIT_WORDS_MAGIC)
        error = EILSEQ;
    /* The kernel copies bytes and promises nothing about words: a word that is stored meanwhile could be half old, half new. So
     * each is read until it is the same twice. If its member still stores something after the fence, it will be told that it
     * may not count. */
    uint64_t again[64];
    for (uint32_t from = 0; !error && from < count; from += 64) {
        const uint32_t most = count - from < 64 ? count - from : 64;
        for (int turn = 0; turn < READ_AGAIN; turn++) {
            const ssize_t size = (ssize_t)(most * sizeof *again);
            const ssize_t got = pread(descriptor, again, (size_t)size, (off_t)(sizeof(struct commit_words) + from * sizeof *again));
            if (got != size) {
                error = got < 0 ? errno : EILSEQ;
                break;
            }
            const bool same = memcmp(again, words + from, (size_t)size) == 0;
            memcpy(words + from, again, (size_t)size);
            if (same)
                break;
        }
    }
    return error;
}

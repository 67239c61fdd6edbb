/* Preloaded into a test's process: every sync becomes a question to the simulated disk (disk.py), and the test controls the
 * clock.
 *
 * fsync, fdatasync and msync call the hook instead of the kernel, both from C and from Python. What is synced is then what the
 * hook says, and nothing waits for the real disk. Writes go to the kernel, then to a hook: nobody else would see that bytes are
 * written again unchanged. */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Returns the errno that the sync fails with, or 0. */
typedef int (*sync_hook)(int descriptor, void *address, size_t size);
typedef void (*write_hook)(int descriptor, int64_t at, size_t size);

static sync_hook on_sync;
static write_hook on_write;
static int64_t now_ns, monotonic_ns;

/* NULL: syncs do nothing. */
void shim_set_hooks(sync_hook sync, write_hook write)
{
    on_sync = sync;
    on_write = write;
}

void shim_set_clock(int64_t ns) { now_ns = ns; }

/* 0: it is the machine's, as it must be where anybody waits. */
void shim_hold_monotonic(int64_t ns) { monotonic_ns = ns; }

static int ask(int descriptor, void *address, size_t size)
{
    const int error = on_sync ? on_sync(descriptor, address, size) : 0;
    if (!error)
        return 0;
    errno = error;
    return -1;
}

int fsync(int descriptor) { return ask(descriptor, NULL, 0); }
int fdatasync(int descriptor) { return ask(descriptor, NULL, 0); }

int msync(void *address, size_t size, int flags)
{
    (void)flags;
    return ask(-1, address, size);
}

static ssize_t tell(int descriptor, off_t at, ssize_t written)
{
    const int error = errno;
    if (on_write && written > 0)
        on_write(descriptor, at, (size_t)written);
    errno = error;
    return written;
}

ssize_t pwrite(int descriptor, const void *bytes, size_t size, off_t at)
{
    return tell(descriptor, at, syscall(SYS_pwrite64, descriptor, bytes, size, at));
}

ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t at)
{
    return tell(descriptor, at, syscall(SYS_pwritev, descriptor, parts, count, at, 0));
}

/* A pipe or a terminal has no offset. */
ssize_t write(int descriptor, const void *bytes, size_t size)
{
    const ssize_t written = syscall(SYS_write, descriptor, bytes, size);
    if (written <= 0)
        return written;
    const int error = errno;
    const off_t end = lseek(descriptor, 0, SEEK_CUR);
    errno = error;
    return end < 0 ? written : tell(descriptor, end - written, written);
}

/* The same, as a build with _FILE_OFFSET_BITS=64 names it. */
ssize_t pwrite64(int descriptor, const void *bytes, size_t size, off_t at) { return pwrite(descriptor, bytes, size, at); }
ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off_t at) { return pwritev(descriptor, parts, count, at); }

int clock_gettime(clockid_t clock, struct timespec *to)
{
    static int (*_Atomic real)(clockid_t, struct timespec *);
    const int64_t held_ns = clock == CLOCK_REALTIME ? now_ns : clock == CLOCK_MONOTONIC ? monotonic_ns : 0;
    if (held_ns) {
        *to = (struct timespec){held_ns / 1000000000, held_ns % 1000000000};
        return 0;
    }
    /* relaxed: whichever thread finds it first, it is the same function */
    int (*call)(clockid_t, struct timespec *) = atomic_load_explicit(&real, memory_order_relaxed);
    if (!call) {
        call = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
        atomic_store_explicit(&real, call, memory_order_relaxed);
    }
    return call(clock, to);
}

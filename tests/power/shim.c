/* Preloaded into a test's process: every sync becomes a question to the simulated disk (disk.py), and the clock is the test's.
 *
 * fsync, fdatasync and msync go to the hook instead of the kernel, whoever calls them, C or Python. What is synced is then what
 * the hook says, and nothing waits for the real disk. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef void (*sync_hook)(int descriptor, void *address, size_t size);

static sync_hook hook;
static int64_t now_ns;

/* NULL: syncs do nothing. */
void shim_set_hook(sync_hook fresh) { hook = fresh; }
void shim_set_clock(int64_t ns) { now_ns = ns; }

int fsync(int descriptor)
{
    if (hook)
        hook(descriptor, NULL, 0);
    return 0;
}

int fdatasync(int descriptor) { return fsync(descriptor); }

int msync(void *address, size_t size, int flags)
{
    (void)flags;
    if (hook)
        hook(-1, address, size);
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *to)
{
    static int (*_Atomic real)(clockid_t, struct timespec *);
    if (clock == CLOCK_REALTIME && now_ns) {
        *to = (struct timespec){now_ns / 1000000000, now_ns % 1000000000};
        return 0;
    }
    /* relaxed: whoever finds it first, it is the same function */
    int (*call)(clockid_t, struct timespec *) = atomic_load_explicit(&real, memory_order_relaxed);
    if (!call) {
        call = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
        atomic_store_explicit(&real, call, memory_order_relaxed);
    }
    return call(clock, to);
}

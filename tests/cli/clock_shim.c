/* Preloaded into a broker's processes: CLOCK_REALTIME is ahead by as many milliseconds as the first eight bytes of a file say,
 * whose name is in ORBITMQ_TEST_CLOCK. The file is mapped, so a test sets the clock of all processes by one write. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const _Atomic int64_t *ahead_ms;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("ORBITMQ_TEST_CLOCK");
    const int descriptor = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor < 0)
        return;
    void *const data = mmap(NULL, 4096, PROT_READ, MAP_SHARED, descriptor, 0);
    close(descriptor);
    ahead_ms = data == MAP_FAILED ? NULL : data;
}

int clock_gettime(clockid_t clock, struct timespec *to)
{
    const int result = real(clock, to);
    if (result == 0 && clock == CLOCK_REALTIME && ahead_ms) {
        /* relaxed: one number of the test's */
        const int64_t ahead = atomic_load_explicit(ahead_ms, memory_order_relaxed);
        to->tv_sec += ahead / 1000;
    }
    return result;
}

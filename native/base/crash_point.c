#include "base/crash_point.h"

#ifndef ORBITMQ_CRASH_POINTS

bool crash_points_built(void) { return false; }
void crash_point_pass(const char *name) { (void)name; }

#else

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLAN_TRAPS 4
#define TRAP_PAUSES UINT32_C(0x80000000) /* in `left`: the last to pass is stopped there until the test lets it continue */

/* tests/crash/crash_plan.py writes name and left, and clears left before it changes a name. */
struct trap {
    char name[64];
    _Atomic uint32_t left;   /* passages until death; 0: not armed */
    _Atomic uint32_t victim; /* the process that died of it */
};

static struct trap *load_plan(void)
{
    const char *path = getenv("ORBITMQ_CRASH_PLAN");
    const int descriptor = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (descriptor < 0)
        return NULL;
    void *data = mmap(NULL, PLAN_TRAPS * sizeof(struct trap), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    return data == MAP_FAILED ? NULL : data;
}

static void pass(struct trap *trap, const char *name)
{
    /* acquire: the name before the passages that arm it. Each process that passes takes the count down, one at a time. */
    uint32_t left = atomic_load_explicit(&trap->left, memory_order_acquire);
    do {
        if ((left & ~TRAP_PAUSES) == 0 || strncmp(trap->name, name, sizeof trap->name) != 0)
            return;
    } while (!atomic_compare_exchange_weak_explicit(&trap->left, &left, left - 1, memory_order_acq_rel, memory_order_acquire));
    if ((left & ~TRAP_PAUSES) > 1)
        return;
    atomic_store_explicit(&trap->victim, (uint32_t)getpid(), memory_order_release);
    raise(left & TRAP_PAUSES ? SIGSTOP : SIGKILL);
}

bool crash_points_built(void) { return true; }

void crash_point_pass(const char *name)
{
    /* Two threads may both load it, which gives the same file. release and acquire: the plan before the word that says so. */
    static struct trap *_Atomic plan;
    static _Atomic bool loaded;
    if (!atomic_load_explicit(&loaded, memory_order_acquire)) {
        atomic_store_explicit(&plan, load_plan(), memory_order_relaxed);
        atomic_store_explicit(&loaded, true, memory_order_release);
    }
    struct trap *traps = atomic_load_explicit(&plan, memory_order_relaxed);
    for (unsigned i = 0; traps && i < PLAN_TRAPS; i++)
        pass(&traps[i], name);
}

#endif

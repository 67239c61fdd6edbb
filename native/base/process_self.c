#include "base/process_self.h"
#include "base/process_stat.h"

#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool argument_area(char **start, char **end)
{
    char text[PROCESS_STAT_ROOM];
    const char *at = process_stat_read(0, text) == 0 ? process_stat_field(text, PROCESS_STAT_ARGUMENTS) : NULL;
    if (at == NULL)
        return false;
    unsigned long long from = 0, to = 0;
    if (sscanf(at, "%llu %llu", &from, &to) != 2 || from == 0 || to <= from)
        return false; /* the kernel hides the addresses from a process that may not be traced */
    *start = (char *)(uintptr_t)from;
    *end = (char *)(uintptr_t)to;
    return true;
}

void process_name(const char *brief, const char *name)
{
    prctl(PR_SET_NAME, (unsigned long)(uintptr_t)brief, 0, 0, 0);
    char *start, *end;
    if (!argument_area(&start, &end))
        return;
    size_t room = (size_t)(end - start);
    size_t size = strlen(name);
    if (size > room - 1)
        size = room - 1;
    /* The kernel shows the area up to its end; ps leaves out zeros after the name. */
    memcpy(start, name, size);
    memset(start + size, 0, room - size);
}

bool process_tie(int parent)
{
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0, 0, 0);
    return getppid() == parent;
}

/* struct sched_attr of the kernel, version 0; libc has it only from glibc 2.41 on. */
struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime; /* of an ordinary process: its slice, ns */
    uint64_t deadline, period;
};

static bool scheduling_of(int pid, struct scheduling *found)
{
    return syscall(SYS_sched_getattr, pid, found, sizeof *found, 0) == 0;
}

bool process_shorten_slice(void)
{
    struct scheduling wanted = {0};
    if (!scheduling_of(0, &wanted) || wanted.policy != SCHED_OTHER)
        return false; /* somebody has chosen another policy for the broker */
    wanted.size = sizeof wanted;
    wanted.runtime = PROCESS_SLICE_NS;
    return syscall(SYS_sched_setattr, 0, &wanted, 0) == 0;
}

uint64_t process_slice_ns(int pid)
{
    struct scheduling found = {0};
    return scheduling_of(pid, &found) ? found.runtime : 0;
}

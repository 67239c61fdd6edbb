#include "base/process_self.h"
#include "base/process_stat.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
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

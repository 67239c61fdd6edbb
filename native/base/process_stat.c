#include "base/process_stat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int process_stat_read(uint32_t thread, char *text)
{
    char path[32] = "/proc/self/stat";
    if (thread != 0)
        snprintf(path, sizeof path, "/proc/%u/stat", thread);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno;
    const ssize_t size = read(file, text, PROCESS_STAT_ROOM - 1);
    const int fault = size < 0 ? errno : 0;
    close(file);
    text[size < 0 ? 0 : size] = '\0';
    return fault;
}

const char *process_stat_field(const char *text, uint32_t field)
{
    /* The name in field 2 may contain anything, brackets and spaces too; field 3 follows the last bracket. */
    const char *at = strrchr(text, ')');
    for (uint32_t seen = 2; at && seen < field; seen++)
        at = strchr(at + 1, ' ');
    return at && at[1] ? at + 1 : NULL;
}

#include "base/watch.h"

#include <errno.h>
#include <sys/inotify.h>
#include <unistd.h>

int watch_open(const char *folder)
{
    const int descriptor = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (descriptor < 0)
        return -errno;
    const uint32_t events = IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF;
    if (inotify_add_watch(descriptor, folder, events | IN_ONLYDIR) < 0) {
        const int number = errno;
        close(descriptor);
        return -number;
    }
    return descriptor;
}

void watch_drain(int descriptor)
{
    char events[4096];
    while (read(descriptor, events, sizeof events) > 0)
        ;
}

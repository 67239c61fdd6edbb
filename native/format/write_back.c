#include "format/write_back.h"
#include <fcntl.h>
#include <unistd.h>

void write_back(const char *path)
{
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return;
    (void)sync_file_range(descriptor, 0, 0, SYNC_FILE_RANGE_WRITE);
    close(descriptor);
}

#include "base/file_extents.h"
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>

#define EXTENTS 64u

bool file_extents_unwritten(int descriptor, uint64_t begin, uint64_t end)
{
    _Alignas(struct fiemap) uint8_t memory[sizeof(struct fiemap) + EXTENTS * sizeof(struct fiemap_extent)];
    struct fiemap *map = (struct fiemap *)memory;
    while (begin < end) {
        memset(map, 0, sizeof *map);
        map->fm_start = begin;
        map->fm_length = end - begin;
        map->fm_extent_count = EXTENTS;
        if (ioctl(descriptor, FS_IOC_FIEMAP, map) || map->fm_mapped_extents == 0)
            return false;
        for (uint32_t i = 0; i < map->fm_mapped_extents; i++)
            if (map->fm_extents[i].fe_flags & FIEMAP_EXTENT_UNWRITTEN)
                return true;
        const struct fiemap_extent *last = &map->fm_extents[map->fm_mapped_extents - 1];
        if (last->fe_flags & FIEMAP_EXTENT_LAST)
            return false;
        begin = last->fe_logical + last->fe_length;
    }
    return false;
}

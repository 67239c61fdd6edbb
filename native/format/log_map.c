/* Which files of the CommitLog are mapped where, in this process. */
#include "format/log_map.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int log_file_open(const char *folder, uint64_t start, int flags)
{
    char path[STORE_FILE_ROOM];
    const int size = snprintf(path, sizeof path, "%s/%020" PRIu64, folder, start);
    assert(size > 0 && (size_t)size < sizeof path);
    return open(path, flags | O_CLOEXEC);
}

void log_folder(char *folder, const char *store)
{
    const int size = snprintf(folder, STORE_FOLDER_ROOM, "%s/commitlog", store);
    assert(size > 0 && (uint32_t)size < STORE_FOLDER_ROOM);
}

void log_map_open(struct log_map *map, const char *store, uint64_t file_size, bool writable)
{
    assert(file_size > 0);
    memset(map, 0, sizeof *map);
    log_folder(map->folder, store);
    map->file_size = file_size;
    map->writable = writable;
}

bool log_map_passing(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM || error == EAGAIN; }

static void drop(struct log_map *map, struct log_file *file)
{
    munmap(file->data, map->file_size);
    if (map->last == file)
        map->last = NULL;
    *file = (struct log_file){0};
}

void log_map_close(struct log_map *map)
{
    for (unsigned i = 0; i < LOG_MAP_SLOTS; i++)
        if (map->files[i].data)
            drop(map, &map->files[i]);
}

/* The mapping of the file that begins at start, or NULL with errno. A file that does not exist yet is no error for a reader: it
 * asks again when it is told of records in it. */
static uint8_t *map_file(const struct log_map *map, uint64_t start)
{
    const int descriptor = log_file_open(map->folder, start, map->writable ? O_RDWR : O_RDONLY);
    if (descriptor < 0)
        return NULL;
    struct stat state;
    void *data = MAP_FAILED;
    if (fstat(descriptor, &state) == 0) {
        /* A shorter file would be a SIGBUS later; a longer one belongs to a store of other settings. */
        if (!S_ISREG(state.st_mode) || (uint64_t)state.st_size != map->file_size)
            errno = EIO;
        else
            data = mmap(NULL, map->file_size, map->writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, descriptor, 0);
    }
    int why = errno;
    close(descriptor);
    errno = why;
    return data == MAP_FAILED ? NULL : data;
}

/* A slot to map a file into: an unused one, else the least recently used one that is not pinned, else NULL with EMFILE. */
static struct log_file *free_slot(struct log_map *map)
{
    struct log_file *oldest = NULL;
    for (unsigned i = 0; i < LOG_MAP_SLOTS; i++) {
        struct log_file *file = &map->files[i];
        if (!file->data)
            return file;
        if (!log_file_pinned(file) && (!oldest || file->used_at < oldest->used_at))
            oldest = file;
    }
    if (oldest)
        drop(map, oldest);
    else
        errno = EMFILE;
    return oldest;
}

static struct log_file *find(struct log_map *map, uint64_t physical_offset)
{
    uint64_t start = physical_offset - physical_offset % map->file_size;
    for (unsigned i = 0; i < LOG_MAP_SLOTS; i++)
        if (map->files[i].data && map->files[i].start == start)
            return &map->files[i];
    uint8_t *data = map_file(map, start);
    if (!data)
        return NULL;
    struct log_file *file = free_slot(map);
    if (!file) {
        munmap(data, map->file_size);
        errno = EMFILE;
        return NULL;
    }
    *file = (struct log_file){.data = data, .start = start};
    return file;
}

/* Usually the last file again. The difference is unsigned, so an offset before its start is very large. */
static inline struct log_file *look_up(struct log_map *map, uint64_t physical_offset)
{
    struct log_file *file = map->last;
    if (!file || physical_offset - file->start >= map->file_size) {
        file = find(map, physical_offset);
        if (!file)
            return NULL;
        map->last = file;
    }
    file->used_at = ++map->tick;
    return file;
}

uint8_t *log_map_at(struct log_map *map, uint64_t physical_offset)
{
    struct log_file *file = look_up(map, physical_offset);
    return file ? file->data + (physical_offset - file->start) : NULL;
}

struct log_file *log_map_pin(struct log_map *map, uint64_t physical_offset)
{
    struct log_file *file = look_up(map, physical_offset);
    if (file)
        /* relaxed: only the map's user pins, and the same user unmaps */
        atomic_fetch_add_explicit(&file->pins, 1, memory_order_relaxed);
    return file;
}

void log_map_unpin(struct log_map *map, struct log_file *file)
{
    assert(file >= map->files && file < map->files + LOG_MAP_SLOTS);
    /* release: our reads of the file before the count. Pairs with the acquire in log_file_pinned [U1]. */
    const uint32_t before = atomic_fetch_sub_explicit(&file->pins, 1, memory_order_release);
    assert(before > 0);
    (void)before;
}

void log_map_forget(struct log_map *map, uint64_t min_offset)
{
    for (unsigned i = 0; i < LOG_MAP_SLOTS; i++) {
        struct log_file *file = &map->files[i];
        if (file->data && !log_file_pinned(file) && file->start + map->file_size <= min_offset)
            drop(map, file);
    }
}

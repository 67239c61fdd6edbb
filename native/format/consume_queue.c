/* ConsumeQueue files. A file passes through these states, and any of them may be the last before a crash:
 *
 *   missing -> made, of length 0 -> full length, all hole -> reserved up to some unit -> written unit by unit
 *
 * The next process that opens it continues from its state. A unit's place follows from its queue offset alone, so a successor
 * that writes units again changes nothing, and nobody needs to remember how far a dead predecessor came.
 */
#include "format/consume_queue.h"
#include "base/file_reserve.h"
#include "base/crash_point.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_RESERVE 4096u /* an idle queue costs one page of disk; a busy one reaches CONSUME_QUEUE_RESERVE soon */

void consume_queue_folder(char *path, const char *store, const uint8_t *topic, uint32_t topic_size, uint32_t queue_id)
{
    const int size = snprintf(path, STORE_FOLDER_ROOM, "%s/consumequeue/%.*s/%" PRIu32, store, (int)topic_size, (const char *)topic,
                              queue_id);
    assert(size > 0 && (uint32_t)size < STORE_FOLDER_ROOM);
}

void consume_queue_path(char *path, const char *folder, uint64_t first)
{
    const int size = snprintf(path, STORE_FILE_ROOM, "%s/%020" PRIu64, folder, first * CONSUME_QUEUE_UNIT);
    assert(size > 0 && (uint32_t)size < STORE_FILE_ROOM);
}

/* mkdir -p for the file's folders. */
static int make_folders(const char *path)
{
    char part[STORE_FILE_ROOM];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        memcpy(part, path, (size_t)(slash - path));
        part[slash - path] = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return errno;
    }
    return 0;
}

static int open_file(const char *path, uint64_t size, int *descriptor)
{
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC;
    *descriptor = open(path, flags, 0666);
    if (*descriptor < 0 && errno == ENOENT) {
        const int error = make_folders(path);
        if (error)
            return error;
        *descriptor = open(path, flags, 0666);
    }
    if (*descriptor < 0)
        return errno;
    CRASH_POINT("consume_queue_made");
    struct stat state;
    int error = fstat(*descriptor, &state) == 0 ? 0 : errno;
    if (!error && state.st_size == 0)
        error = ftruncate(*descriptor, (off_t)size) == 0 ? 0 : errno;
    else if (!error && (uint64_t)state.st_size != size)
        error = EIO; /* of a store with other settings: a mapping would end too early or hide units */
    CRASH_POINT("consume_queue_sized");
    if (error)
        close(*descriptor);
    return error;
}

/* Makes units [from, index] of the file writable without danger of SIGBUS, and some more, so that this call is rare. */
static int reserve(struct consume_queue_writer *writer, int descriptor, uint64_t size, uint64_t from, uint64_t index)
{
    const uint64_t begin = from * CONSUME_QUEUE_UNIT;
    const uint64_t need = (index + 1) * CONSUME_QUEUE_UNIT;
    uint64_t ahead = need < FIRST_RESERVE ? FIRST_RESERVE : need; /* doubles */
    if (ahead > CONSUME_QUEUE_RESERVE)
        ahead = CONSUME_QUEUE_RESERVE;
    uint64_t end = (need + ahead + FIRST_RESERVE - 1) & ~(uint64_t)(FIRST_RESERVE - 1);
    if (end > size)
        end = size;
    int error = file_reserve(descriptor, begin, end);
    if (error == ENOSPC && end > need) /* the last free bytes of a disk may be enough for this unit */
        error = file_reserve(descriptor, begin, end = need);
    if (!error)
        writer->reserved = end / CONSUME_QUEUE_UNIT;
    CRASH_POINT("consume_queue_reserved");
    return error;
}

/* The first of the units right before `index` that were never written; `index` itself if the one before was written. */
static uint64_t unwritten_from(const uint8_t *data, uint64_t index)
{
    while (index > 0 && load_be32(data + (index - 1) * CONSUME_QUEUE_UNIT + 8) == 0)
        index--;
    return index;
}

static int map_file(struct consume_queue_writer *writer, int descriptor, uint64_t size, uint64_t first, uint64_t index)
{
    uint8_t *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (data == MAP_FAILED)
        return errno;
    madvise(data, size, MADV_RANDOM); /* a failure only costs speed */
    /* From 0: on some file systems a read of a hole needs a page too, and unwritten_from reads backwards. */
    const int error = reserve(writer, descriptor, size, 0, index);
    if (error) {
        munmap(data, size);
        return error;
    }
    writer->data = data;
    writer->first = first;
    /* Backwards, so that after a crash half-way the next process to open it does the rest. */
    const uint64_t blank = unwritten_from(data, index);
    for (uint64_t i = index; i > blank; i--)
        queue_unit_store(data + (i - 1) * CONSUME_QUEUE_UNIT, &(struct queue_unit){0, CONSUME_QUEUE_BLANK_SIZE, 0});
    return 0;
}

int consume_queue_put(struct consume_queue_writer *writer, const char *folder, uint32_t file_units, uint64_t queue_offset,
                      const struct queue_unit *unit)
{
    if (consume_queue_quick(writer, queue_offset, unit))
        return 0;
    const uint64_t first = queue_offset - queue_offset % file_units;
    const uint64_t size = (uint64_t)file_units * CONSUME_QUEUE_UNIT;
    const uint64_t index = queue_offset - first;
    if (writer->data && writer->first != first)
        consume_queue_writer_close(writer, file_units);

    char path[STORE_FILE_ROOM];
    consume_queue_path(path, folder, first);
    int descriptor;
    int error = open_file(path, size, &descriptor);
    if (error)
        return error;
    /* Descriptors are not kept: with one per queue, thousands of queues would pass the limit of open files. */
    error = writer->data ? reserve(writer, descriptor, size, writer->reserved, index)
                         : map_file(writer, descriptor, size, first, index);
    close(descriptor);
    if (!error)
        queue_unit_store(writer->data + index * CONSUME_QUEUE_UNIT, unit);
    return error;
}

void consume_queue_writer_close(struct consume_queue_writer *writer, uint32_t file_units)
{
    if (writer->data)
        munmap(writer->data, (size_t)file_units * CONSUME_QUEUE_UNIT);
    *writer = (struct consume_queue_writer){0};
}

void consume_queue_date(const char *folder, uint32_t file_units, uint64_t queue_offset, uint64_t store_ms)
{
    assert(queue_offset >= file_units && queue_offset % file_units == 0);
    char path[STORE_FILE_ROOM];
    consume_queue_path(path, folder, queue_offset - file_units);
    const uint64_t before = store_ms > 0 ? store_ms - 1 : 0;
    const struct timespec times[2] = {{0, UTIME_OMIT}, {(time_t)(before / 1000), (long)(before % 1000 * 1000000)}};
    utimensat(AT_FDCWD, path, times, 0); /* retention may have removed the file; only RocketMQ's search by time depends on it */
    CRASH_POINT("consume_queue_dated");
}

static bool is_blank(const struct queue_unit *unit)
{
    return unit->size == CONSUME_QUEUE_BLANK_SIZE && unit->physical_offset == 0;
}

uint32_t consume_queue_good(const uint8_t *data, uint32_t units, uint64_t floor, uint64_t limit, uint64_t *end)
{
    for (uint32_t i = 0; i < units; i++) {
        const struct queue_unit unit = queue_unit_load(data + (uint64_t)i * CONSUME_QUEUE_UNIT);
        if (is_blank(&unit))
            continue;
        if (unit.size == 0 || unit.size > INT32_MAX || unit.physical_offset < floor || unit.physical_offset > limit ||
            unit.size > limit - unit.physical_offset)
            return i;
        *end = floor = unit.physical_offset + unit.size;
    }
    return units;
}

uint32_t consume_queue_first(const uint8_t *data, uint32_t units, uint64_t min_offset)
{
    for (uint32_t i = 0; i < units; i++) {
        const struct queue_unit unit = queue_unit_load(data + (uint64_t)i * CONSUME_QUEUE_UNIT);
        if (!is_blank(&unit) && unit.physical_offset >= min_offset)
            return i;
    }
    return units;
}

const uint8_t *consume_queue_at(struct consume_queue_reader *reader, const char *folder, uint32_t file_units,
                                uint64_t queue_offset, uint64_t *units)
{
    const uint64_t first = queue_offset - queue_offset % file_units;
    const uint64_t size = (uint64_t)file_units * CONSUME_QUEUE_UNIT;
    if (!reader->data || reader->first != first) {
        consume_queue_reader_close(reader, file_units);
        char path[STORE_FILE_ROOM];
        consume_queue_path(path, folder, first);
        const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
        if (descriptor < 0)
            return NULL;
        struct stat state;
        void *data = MAP_FAILED;
        if (fstat(descriptor, &state) == 0) {
            if ((uint64_t)state.st_size != size)
                errno = EIO; /* shorter would cause SIGBUS later */
            else
                data = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, 0);
        }
        const int why = errno;
        close(descriptor);
        errno = why;
        if (data == MAP_FAILED)
            return NULL;
        reader->data = data;
        reader->first = first;
    }
    *units = file_units - (queue_offset - first);
    return reader->data + (queue_offset - first) * CONSUME_QUEUE_UNIT;
}

void consume_queue_reader_close(struct consume_queue_reader *reader, uint32_t file_units)
{
    if (reader->data)
        munmap((void *)(uintptr_t)reader->data, (size_t)file_units * CONSUME_QUEUE_UNIT);
    *reader = (struct consume_queue_reader){0};
}

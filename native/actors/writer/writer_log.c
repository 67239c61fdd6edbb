/* Where the next record goes. */
#include "actors/allocator.h"
#include "base/bytes.h"
#include "base/crash_point.h"
#include "format/record.h"
#include "actors/writer/writer_parts.h"
#include <errno.h>
#include <sys/mman.h>

#define POPULATE_STEP (256u << 10) /* pages are made ready in steps of this size, if the allocator has not done it yet */

bool writer_heed_reput(struct writer *writer)
{
    struct control *control = writer->attachment->control;
    /* relaxed: reput handles passing errors itself, and of an error that persists only the number is used */
    const uint32_t error = atomic_load_explicit(&control->reput.error, memory_order_relaxed);
    if (error != EBADMSG && error != EOVERFLOW)
        return false;
    /* release: as where a file cannot be mapped; refusal() acquires it */
    atomic_store_explicit(&control->wrote.error, error, memory_order_release);
    return true;
}

void writer_look_ahead(struct writer *writer)
{
    struct control *control = writer->attachment->control;
    writer_heed_reput(writer);
    log_map_forget(&writer->map, writer->file_start);
    if (!writer->file)
        return;
    /* relaxed: a hint */
    const uint64_t warmed = atomic_load_explicit(&control->warmed.value, memory_order_relaxed);
    if (warmed < writer->wrote + ALLOCATOR_AHEAD / 2)
        bell_ring(&control->allocator_bell);
    const uint64_t at = writer->wrote - writer->file_start;
    if (warmed > writer->wrote)
        writer->populated = at > warmed - writer->file_start ? at : warmed - writer->file_start;
    if (writer->populated >= writer->file_size || at + POPULATE_STEP / 2 < writer->populated)
        return;
    if (writer->populated < at)
        writer->populated = at & ~UINT64_C(4095);
    uint64_t size = writer->file_size - writer->populated;
    if (size > POPULATE_STEP)
        size = POPULATE_STEP;
    /* If the kernel cannot do it, the faults come one by one: slower, not wrong. */
    (void)madvise(writer->file + writer->populated, size, MADV_POPULATE_WRITE);
    writer->populated += size;
}

bool writer_end_small(struct writer *writer)
{
    uint64_t failed = 0;
    const int error = small_write_end(&writer->small, &failed);
    if (!error)
        return true;
    writer->failed_at = writer->file_start + failed;
    /* release: as where a file cannot be mapped; refusal() acquires it */
    atomic_store_explicit(&writer->attachment->control->wrote.error, (uint32_t)error, memory_order_release);
    return false;
}

bool writer_enter_file(struct writer *writer, uint64_t start)
{
    /* acquire: the file exists before it is announced [A1] */
    if (atomic_load_explicit(&writer->attachment->control->allocated.value, memory_order_acquire) < start + writer->file_size)
        return false;
    uint8_t *file = log_map_at(&writer->map, start);
    const int error = file ? 0 : errno;
    writer->short_of = log_map_passing(error) ? error : 0;
    if (!file) {
        /* Nothing is written of it yet, so after a passing error the next message tries again. */
        if (!writer->short_of)
            atomic_store_explicit(&writer->attachment->control->wrote.error, (uint32_t)error, memory_order_release);
        return false;
    }
    if (!writer_end_small(writer))
        return false;
    small_write_enter(&writer->small, writer->map.folder, start, file);
    writer->file = file;
    writer->file_start = start;
    writer->populated = 0;
    return true;
}

bool writer_make_room(struct writer *writer, uint32_t size)
{
    if (!writer->file && !writer_enter_file(writer, writer->wrote - writer->wrote % writer->file_size))
        return false;
    const uint64_t left = writer->file_start + writer->file_size - writer->wrote;
    if (size + RECORD_BLANK_SIZE <= left)
        return true;
    uint8_t *blank = writer->file + (writer->wrote - writer->file_start);
    if (!writer_enter_file(writer, writer->file_start + writer->file_size))
        return false;
    store_be32(blank, (uint32_t)left);
    store_be32(blank + 4, RECORD_BLANK);
    CRASH_POINT("writer_log_blank");
    writer->wrote = writer->file_start;
    count(writer->attachment->page, COUNT_BLANKS, 1);
    return true;
}

bool writer_file_ready(const struct writer *writer)
{
    const struct control *control = writer->attachment->control;
    const uint64_t start = writer->file ? writer->file_start + writer->file_size
                                        : writer->wrote - writer->wrote % writer->file_size;
    return atomic_load_explicit(&control->allocated.value, memory_order_acquire) >= start + writer->file_size ||
           atomic_load_explicit(&control->allocated.error, memory_order_acquire) != 0;
}

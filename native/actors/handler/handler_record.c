/* Records of the log that a message is made of. Their place is a client's word, so it is looked at like any of its words. */
#include "actors/handler/handler_parts.h"

#include <errno.h>

enum verdict handler_record(struct handler *handler, uint64_t physical_offset, struct record_view *view, uint32_t *detail)
{
    const struct control *control = handler->attachment->control;
    /* acquire: the log's bytes before the position [W1] */
    const uint64_t wrote = atomic_load_explicit(&control->wrote.value, memory_order_acquire);
    /* relaxed: a file that is removed meanwhile is found missing, or stays as long as it is mapped */
    const uint64_t begin = atomic_load_explicit(&control->min_offset.value, memory_order_relaxed);
    log_map_forget(&handler->log, begin);
    if (physical_offset < begin || physical_offset >= wrote)
        return VERDICT_UNKNOWN_MESSAGE;
    const uint8_t *at = log_map_at(&handler->log, physical_offset);
    if (!at && log_map_passing(errno)) {
        *detail = (uint32_t)errno;
        return VERDICT_STORE_FULL;
    }
    if (!at)
        return VERDICT_UNKNOWN_MESSAGE;
    const uint64_t in_file = handler->log.file_size - physical_offset % handler->log.file_size;
    const uint64_t in_log = wrote - physical_offset;
    const bool good = record_check(at, in_file < in_log ? in_file : in_log, physical_offset, view) == RECORD_GOOD;
    return good ? VERDICT_APPENDED : VERDICT_UNKNOWN_MESSAGE;
}

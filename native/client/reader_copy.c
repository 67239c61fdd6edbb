#include "client/reader_copy.h"
#include "client/reader_place.h"

bool reader_copy_body(struct reader *reader, const struct message_ref *ref, uint8_t *to)
{
    struct record_view view;
    enum record_fault fault = record_parse(ref->record, ref->size, &view);
    if (fault == RECORD_GOOD && view.body.size != ref->body_size)
        fault = RECORD_BAD_SIZE; /* the file changed under us */
    if (fault == RECORD_GOOD)
        fault = record_copy_body(ref->record, &view, to);
    if (fault == RECORD_GOOD)
        return true;
    reader_blame(reader, ref->cursor, ref->queue_offset, ref->physical_offset, fault, 0);
    return false;
}

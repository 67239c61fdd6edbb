#include "client/column_views.h"

#include <string.h>

/* True if the body is in the view itself. */
static bool begin_view(struct column_views *to, uint32_t row, const uint8_t *body, uint32_t size)
{
    struct column_view *view = &to->views[row];
    *view = (struct column_view){.size = size};
    to->bytes += size;
    memcpy(view->whole, body, size <= COLUMN_VIEW_INLINE ? size : sizeof view->first);
    return size <= COLUMN_VIEW_INLINE;
}

static bool reaches(const struct stretch *stretch, const struct message_ref *ref, const uint8_t *body)
{
    return stretch->file == ref->file && body >= stretch->begin && body <= stretch->end + STRETCH_GAP &&
           body + ref->body_size <= stretch->begin + STRETCH_BYTES;
}

void column_view_append(struct column_views *to, uint32_t row, const struct message_ref *ref)
{
    const uint8_t *body = ref->record + ref->body_at, *end = body + ref->body_size;
    if (begin_view(to, row, body, ref->body_size))
        return;
    if (to->count == 0 || !reaches(&to->stretches[to->count - 1], ref, body))
        to->stretches[to->count++] = (struct stretch){.file = ref->file, .begin = body, .end = end};
    struct stretch *last = &to->stretches[to->count - 1];
    if (end > last->end)
        last->end = end;
    to->views[row].buffer = to->count;
    to->views[row].offset = (uint32_t)(body - last->begin);
}

void column_view_append_plain(struct column_views *to, uint32_t row, struct slice body)
{
    if (begin_view(to, row, body.data, body.size))
        return;
    memcpy(to->plain + to->plain_bytes, body.data, body.size);
    to->views[row].offset = to->plain_bytes;
    to->plain_bytes += body.size;
}

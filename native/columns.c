#include "columns.h"

static inline bool is_compressed(const struct message_ref *ref)
{
    return load_be32(ref->record + RECORD_SYSFLAG_AT) & SYSFLAG_COMPRESSED;
}

struct columns_need columns_fit(const struct columns *columns, const struct message_ref *refs, uint32_t count,
                                uint64_t body_limit)
{
    const uint64_t tags = column_bytes(&columns->tags, columns->rows), keys = column_bytes(&columns->keys, columns->rows);
    const uint64_t body = column_bytes(&columns->body, columns->rows), text = tags > keys ? tags : keys;
    struct columns_need need = {0};
    for (; need.rows < count; need.rows++) {
        const struct message_ref *ref = &refs[need.rows];
        const bool first = columns->rows + need.rows == 0;
        need.compressed = columns->body.offsets && is_compressed(ref);
        if (need.compressed)
            break;
        if (columns->body.offsets && body + need.body + ref->body_size > body_limit && !first)
            break;
        if (text + need.text + (ref->size - ref->body_size) > COLUMN_BYTES_MAX && !first)
            break;
        need.body += ref->body_size;
        need.text += ref->size - ref->body_size;
    }
    return need;
}

/* The properties of a checked record: behind body and topic, each with its size before it. */
static inline struct slice properties_of(const struct message_ref *ref)
{
    const uint8_t *topic = ref->record + ref->body_at + ref->body_size;
    const uint8_t *size_at = topic + 1 + topic[0];
    return (struct slice){size_at + 2, load_be16(size_at)};
}

/* record_end: up to there may be read. */
static inline void append_text(struct column_text *to, uint32_t row, struct slice text, const uint8_t *record_end)
{
    uint32_t at = (uint32_t)to->offsets[row];
    if (text.data) {
        to->validity[row / 8] |= (uint8_t)(1u << (row & 7));
        /* a tag or key is short: one move of a fixed size, where neither side ends too soon, instead of a call */
        if (text.size <= COLUMN_SLACK && record_end - text.data >= (ptrdiff_t)COLUMN_SLACK)
            memcpy(to->data + at, text.data, COLUMN_SLACK);
        else
            memcpy(to->data + at, text.data, text.size);
        at += text.size;
    } else {
        to->nulls++;
    }
    to->offsets[row + 1] = (int32_t)at;
}

static inline void append_row(struct columns *to, uint32_t row, const struct message_ref *ref, struct slice body,
                              const struct reader_cursor *cursors)
{
    const uint8_t *record = ref->record;
    if (to->body.offsets) {
        const uint32_t at = (uint32_t)to->body.offsets[row];
        memcpy(to->body.data + at, body.data, body.size);
        to->body.offsets[row + 1] = (int32_t)(at + body.size);
    }
    if (to->tags.offsets || to->keys.offsets) {
        const struct slice properties = properties_of(ref);
        struct known_properties known;
        properties_known(properties.data, properties.size, &known);
        if (to->tags.offsets)
            append_text(&to->tags, row, known.tags, record + ref->size);
        if (to->keys.offsets)
            append_text(&to->keys, row, known.keys, record + ref->size);
    }
    if (to->topic)
        to->topic[row] = (int32_t)cursors[ref->cursor].name;
    if (to->queue)
        to->queue[row] = (int32_t)cursors[ref->cursor].queue_id;
    if (to->offset)
        to->offset[row] = (int64_t)ref->queue_offset;
    if (to->physical)
        to->physical[row] = (int64_t)ref->physical_offset;
    if (to->born_ms)
        to->born_ms[row] = (int64_t)load_be64(record + RECORD_BORN_MS_AT);
    if (to->flag)
        to->flag[row] = (int32_t)load_be32(record + RECORD_FLAG_AT);
    if (to->stored_ms) {
        /* behind the born host, which is 12 bytes longer when it is IPv6 */
        const uint32_t longer = load_be32(record + RECORD_SYSFLAG_AT) & SYSFLAG_BORN_IPV6 ? 12 : 0;
        to->stored_ms[row] = (int64_t)load_be64(record + RECORD_STORE_MS_AT + longer);
    }
}

void columns_append(struct columns *columns, const struct message_ref *refs, uint32_t count,
                    const struct reader_cursor *cursors)
{
    struct columns to = *columns; /* a copy that no store of a byte can change, as far as the compiler must fear */
    for (uint32_t i = 0; i < count; i++)
        append_row(&to, to.rows + i, &refs[i], (struct slice){refs[i].record + refs[i].body_at, refs[i].body_size}, cursors);
    to.rows += count;
    *columns = to;
}

void columns_append_one(struct columns *columns, const struct message_ref *ref, struct slice body,
                        const struct reader_cursor *cursors)
{
    append_row(columns, columns->rows, ref, body, cursors);
    columns->rows++;
}

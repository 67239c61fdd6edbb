#include "client/columns.h"
#include "client/reader_copy.h"

static inline bool is_compressed(const struct message_ref *ref)
{
    return load_be32(ref->record + RECORD_SYSFLAG_AT) & SYSFLAG_COMPRESSED;
}

static uint64_t pair_bytes(const struct column_pairs *pairs, uint32_t rows)
{
    const uint32_t count = column_pair_count(pairs, rows);
    return pairs->starts ? column_bytes(&pairs->name, count) + column_bytes(&pairs->value, count) : 0;
}

static inline uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Bytes of the longest text other than bodies. An id or a host takes no more than its record's head, which `text` of a need
 * counts. */
static uint64_t text_bytes(const struct columns *columns)
{
    const uint32_t rows = columns->rows;
    uint64_t most = larger(column_bytes(&columns->tags, rows), column_bytes(&columns->keys, rows));
    most = larger(most, larger(pair_bytes(&columns->headers, rows), pair_bytes(&columns->properties, rows)));
    const uint64_t hosts = larger(column_bytes(&columns->born_host.text, rows), column_bytes(&columns->store_host.text, rows));
    return larger(most, larger(column_bytes(&columns->id, rows), hosts));
}

struct columns_need columns_fit(const struct columns *columns, const struct message_ref *refs, uint32_t count, uint64_t limit)
{
    const uint64_t body = columns_body_bytes(columns), text = text_bytes(columns);
    const bool bodies = columns->body.offsets || columns->views.views;
    const uint64_t text_limit = columns->headers.starts || columns->properties.starts ? limit : COLUMN_BYTES_MAX;
    struct columns_need need = {0};
    if (columns->views.count >= STRETCHES_ENOUGH)
        return need;
    for (; need.rows < count; need.rows++) {
        const struct message_ref *ref = &refs[need.rows];
        const bool first = columns->rows + need.rows == 0;
        if (text + need.text + (ref->size - ref->body_size) > text_limit && !first)
            break;
        need.compressed = bodies && is_compressed(ref);
        if (need.compressed)
            break;
        if (bodies && body + need.body + ref->body_size > limit && !first)
            break;
        need.body += ref->body_size;
        need.text += ref->size - ref->body_size;
    }
    return need;
}

/* The properties of a checked record: after body and topic, each with its size before it. */
static inline struct slice properties_of(const struct message_ref *ref)
{
    const uint8_t *topic = ref->record + ref->body_at + ref->body_size;
    const uint8_t *size_at = topic + 1 + topic[0];
    return (struct slice){size_at + 2, load_be16(size_at)};
}

/* What follows a record's born host: 12 bytes more if that is IPv6, and in the store host as well. */
static inline void append_places(struct columns *to, uint32_t row, const struct message_ref *ref)
{
    const uint8_t *record = ref->record;
    const uint32_t flags = load_be32(record + RECORD_SYSFLAG_AT);
    const struct slice born = {record + RECORD_BORN_MS_AT + 8, flags & SYSFLAG_BORN_IPV6 ? 20 : 8};
    const uint8_t *stored_at = born.data + born.size;
    const struct slice store = {stored_at + 8, flags & SYSFLAG_STORE_IPV6 ? 20 : 8};
    if (to->stored_ms)
        to->stored_ms[row] = (int64_t)load_be64(stored_at);
    if (to->reconsume)
        to->reconsume[row] = (int32_t)load_be32(store.data + store.size);
    if (to->born_host.text.offsets)
        column_host_append(&to->born_host, row, born);
    if (to->store_host.text.offsets)
        column_host_append(&to->store_host, row, store);
    if (to->id.offsets)
        column_id_append(&to->id, row, store, ref->physical_offset);
}

/* Everything but the body. */
static inline void append_rest(struct columns *to, uint32_t row, const struct message_ref *ref, const struct reader_cursor *cursors)
{
    const uint8_t *record = ref->record;
    const uint8_t *record_end = record + ref->size;
    if (to->tags.offsets || to->keys.offsets) {
        const struct slice properties = properties_of(ref);
        struct known_properties known;
        properties_known(properties.data, properties.size, &known);
        if (to->tags.offsets)
            column_append_or_null(&to->tags, row, known.tags, record_end);
        if (to->keys.offsets)
            column_append_or_null(&to->keys, row, known.keys, record_end);
    }
    if (to->headers.starts)
        column_pairs_append(&to->headers, row, properties_of(ref), record_end);
    if (to->properties.starts)
        column_pairs_append(&to->properties, row, properties_of(ref), record_end);
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
    if (to->stored_ms || to->reconsume || to->id.offsets || to->born_host.text.offsets || to->store_host.text.offsets)
        append_places(to, row, ref);
}

uint32_t columns_append(struct columns *columns, struct reader *reader, const struct message_ref *refs, uint32_t count)
{
    struct columns to = *columns; /* a copy, so that the compiler knows that no store of a byte can change it */
    uint32_t done = 0;
    for (; done < count; done++) {
        const uint32_t row = to.rows + done;
        if (to.body.offsets) {
            const uint32_t at = (uint32_t)to.body.offsets[row];
            if (reader_checked(reader, &refs[done]))
                memcpy(to.body.data + at, refs[done].record + refs[done].body_at, refs[done].body_size);
            else if (!reader_copy_body(reader, &refs[done], to.body.data + at))
                break;
            to.body.offsets[row + 1] = (int32_t)(at + refs[done].body_size);
        } else if (to.views.views) {
            column_view_append(&to.views, row, &refs[done]);
        }
        append_rest(&to, row, &refs[done], reader->cursors);
    }
    to.rows += done;
    *columns = to;
    return done;
}

void columns_append_one(struct columns *columns, const struct reader *reader, const struct message_ref *ref, struct slice body)
{
    const uint32_t row = columns->rows;
    if (columns->views.views) {
        column_view_append_plain(&columns->views, row, body);
    } else {
        const uint32_t at = (uint32_t)columns->body.offsets[row];
        memcpy(columns->body.data + at, body.data, body.size);
        columns->body.offsets[row + 1] = (int32_t)(at + body.size);
    }
    append_rest(columns, row, ref, reader->cursors);
    columns->rows++;
}

#include "columns.h"

#define FLAG_AT 16u
#define SYSFLAG_AT 36u
#define BORN_MS_AT 40u

/* The properties of a checked record: behind body and topic, each with its size before it. */
static inline struct slice properties_of(const struct message_ref *ref)
{
    const uint8_t *topic = ref->record + ref->body_at + ref->body_size;
    const uint8_t *size_at = topic + 1 + topic[0];
    return (struct slice){size_at + 2, load_be16(size_at)};
}

void columns_measure(const struct message_ref *refs, uint32_t count, uint32_t selection, struct column_note *notes,
                     struct columns_size *size)
{
    const bool searches = selection & (COLUMN_TAGS | COLUMN_KEYS);
    assert(!searches || notes || count == 0);
    *size = (struct columns_size){0};
    for (uint32_t i = 0; i < count; i++) {
        const struct message_ref *ref = &refs[i];
        struct known_properties known = {0};
        if (searches) {
            const struct slice properties = properties_of(ref);
            properties_known(properties.data, properties.size, &known);
            notes[i] = (struct column_note){known.tags, known.keys};
        }
        /* tags and keys are shorter than the record, so one limit on the sum of all bounds each */
        if (size->body + size->tags + size->keys + ref->size > COLUMN_BYTES_MAX)
            return;
        size->rows++;
        size->body += ref->body_size;
        size->compressed += (load_be32(ref->record + SYSFLAG_AT) & SYSFLAG_COMPRESSED) != 0;
        size->tags += known.tags.data ? known.tags.size : 0;
        size->keys += known.keys.data ? known.keys.size : 0;
        size->tags_null += known.tags.data == NULL;
        size->keys_null += known.keys.data == NULL;
    }
}

static void copy_bodies(const struct message_ref *refs, uint32_t rows, const struct column_text *to)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < rows; i++) {
        if (i + READER_AHEAD < rows)
            __builtin_prefetch(refs[i + READER_AHEAD].record + refs[i + READER_AHEAD].body_at);
        to->offsets[i] = (int32_t)at;
        memcpy(to->data + at, refs[i].record + refs[i].body_at, refs[i].body_size);
        at += refs[i].body_size;
    }
    to->offsets[rows] = (int32_t)at;
}

/* One text out of the notes, `member` bytes behind each note's begin. */
static void copy_text(const struct column_note *notes, size_t member, uint32_t rows, const struct column_text *to)
{
    uint64_t at = 0;
    memset(to->validity, 0, ((uint64_t)rows + 7) / 8);
    for (uint32_t i = 0; i < rows; i++) {
        const struct slice *text = (const struct slice *)((const uint8_t *)&notes[i] + member);
        to->offsets[i] = (int32_t)at;
        if (!text->data)
            continue;
        to->validity[i / 8] |= (uint8_t)(1u << (i & 7));
        memcpy(to->data + at, text->data, text->size);
        at += text->size;
    }
    to->offsets[rows] = (int32_t)at;
}

void columns_copy(const struct message_ref *refs, const struct columns_size *size, const struct column_note *notes,
                  const struct reader_cursor *cursors, const struct columns *columns)
{
    const uint32_t rows = size->rows;
    if (columns->body.offsets)
        copy_bodies(refs, rows, &columns->body);
    if (columns->tags.offsets)
        copy_text(notes, offsetof(struct column_note, tags), rows, &columns->tags);
    if (columns->keys.offsets)
        copy_text(notes, offsetof(struct column_note, keys), rows, &columns->keys);
    /* one loop a column, so that each writes one stream */
    for (uint32_t i = 0; columns->topic && i < rows; i++)
        columns->topic[i] = (int32_t)cursors[refs[i].cursor].name;
    for (uint32_t i = 0; columns->queue && i < rows; i++)
        columns->queue[i] = (int32_t)cursors[refs[i].cursor].queue_id;
    for (uint32_t i = 0; columns->offset && i < rows; i++)
        columns->offset[i] = (int64_t)refs[i].queue_offset;
    for (uint32_t i = 0; columns->physical && i < rows; i++)
        columns->physical[i] = (int64_t)refs[i].physical_offset;
    for (uint32_t i = 0; columns->born_ms && i < rows; i++)
        columns->born_ms[i] = (int64_t)load_be64(refs[i].record + BORN_MS_AT);
    for (uint32_t i = 0; columns->flag && i < rows; i++)
        columns->flag[i] = (int32_t)load_be32(refs[i].record + FLAG_AT);
    for (uint32_t i = 0; columns->stored_ms && i < rows; i++) {
        /* behind the born host, which is 12 bytes longer when it is IPv6 */
        const uint32_t longer = load_be32(refs[i].record + SYSFLAG_AT) & SYSFLAG_BORN_IPV6 ? 12 : 0;
        columns->stored_ms[i] = (int64_t)load_be64(refs[i].record + RECORD_STORE_MS_AT + longer);
    }
}

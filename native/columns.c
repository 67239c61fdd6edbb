#include "columns.h"

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
        size->compressed += (load_be32(ref->record + RECORD_SYSFLAG_AT) & SYSFLAG_COMPRESSED) != 0;
        size->tags += known.tags.data ? known.tags.size : 0;
        size->keys += known.keys.data ? known.keys.size : 0;
        size->tags_null += known.tags.data == NULL;
        size->keys_null += known.keys.data == NULL;
    }
}

/* Rows copied at once, column after column: their records stay in the cache from one column to the next. */
#define BLOCK_ROWS 512u

static void copy_bodies(const struct message_ref *refs, uint32_t begin, uint32_t end, const struct column_text *to)
{
    uint64_t at = (uint64_t)(uint32_t)to->offsets[begin];
    for (uint32_t i = begin; i < end; i++) {
        __builtin_prefetch(refs[i + READER_AHEAD < end ? i + READER_AHEAD : i].record + RECORD_BODY_AT);
        memcpy(to->data + at, refs[i].record + refs[i].body_at, refs[i].body_size);
        at += refs[i].body_size;
        to->offsets[i + 1] = (int32_t)at;
    }
}

/* One text out of the notes, `member` bytes behind each note's begin. */
static void copy_text(const struct column_note *notes, size_t member, uint32_t begin, uint32_t end, const struct column_text *to)
{
    uint64_t at = (uint64_t)(uint32_t)to->offsets[begin];
    for (uint32_t i = begin; i < end; i++) {
        const struct slice *text = (const struct slice *)((const uint8_t *)&notes[i] + member);
        if (text->data) {
            to->validity[i / 8] |= (uint8_t)(1u << (i & 7));
            memcpy(to->data + at, text->data, text->size);
            at += text->size;
        }
        to->offsets[i + 1] = (int32_t)at;
    }
}

static void copy_numbers(const struct message_ref *refs, uint32_t begin, uint32_t end, const struct reader_cursor *cursors,
                         const struct columns *columns)
{
    for (uint32_t i = begin; columns->topic && i < end; i++)
        columns->topic[i] = (int32_t)cursors[refs[i].cursor].name;
    for (uint32_t i = begin; columns->queue && i < end; i++)
        columns->queue[i] = (int32_t)cursors[refs[i].cursor].queue_id;
    for (uint32_t i = begin; columns->offset && i < end; i++)
        columns->offset[i] = (int64_t)refs[i].queue_offset;
    for (uint32_t i = begin; columns->physical && i < end; i++)
        columns->physical[i] = (int64_t)refs[i].physical_offset;
    for (uint32_t i = begin; columns->born_ms && i < end; i++)
        columns->born_ms[i] = (int64_t)load_be64(refs[i].record + RECORD_BORN_MS_AT);
    for (uint32_t i = begin; columns->flag && i < end; i++)
        columns->flag[i] = (int32_t)load_be32(refs[i].record + RECORD_FLAG_AT);
    for (uint32_t i = begin; columns->stored_ms && i < end; i++) {
        /* behind the born host, which is 12 bytes longer when it is IPv6 */
        const uint32_t longer = load_be32(refs[i].record + RECORD_SYSFLAG_AT) & SYSFLAG_BORN_IPV6 ? 12 : 0;
        columns->stored_ms[i] = (int64_t)load_be64(refs[i].record + RECORD_STORE_MS_AT + longer);
    }
}

static void begin_text(const struct column_text *to, uint32_t rows)
{
    if (!to->offsets)
        return;
    to->offsets[0] = 0;
    if (to->validity)
        memset(to->validity, 0, ((uint64_t)rows + 7) / 8);
}

void columns_copy(const struct message_ref *refs, const struct columns_size *size, const struct column_note *notes,
                  const struct reader_cursor *cursors, const struct columns *columns)
{
    const uint32_t rows = size->rows;
    begin_text(&columns->body, rows);
    begin_text(&columns->tags, rows);
    begin_text(&columns->keys, rows);
    for (uint32_t begin = 0; begin < rows; begin += BLOCK_ROWS) {
        const uint32_t end = rows - begin < BLOCK_ROWS ? rows : begin + BLOCK_ROWS;
        if (columns->body.offsets)
            copy_bodies(refs, begin, end, &columns->body);
        if (columns->tags.offsets)
            copy_text(notes, offsetof(struct column_note, tags), begin, end, &columns->tags);
        if (columns->keys.offsets)
            copy_text(notes, offsetof(struct column_note, keys), begin, end, &columns->keys);
        copy_numbers(refs, begin, end, cursors, columns);
    }
}

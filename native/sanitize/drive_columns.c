/* Columns of records with any properties and bodies. Each record is in memory of exactly its size, and buffers have exactly the
 * room that columns_fit asks for; the result is compared with what the record's own parser says. */
#include "client/columns.h"
#include "drive.h"

#include <string.h>

#define ROUNDS 400u
#define ROWS_MAX 200u
#define QUEUE 3u
#define TOPIC_SIZE 5u
#define TEXTS 6u

static uint32_t any(uint64_t *seed, uint32_t below) { return (uint32_t)(drive_random(seed) % below); }

static uint32_t write_properties(uint8_t *text, uint64_t *seed)
{
    static const char *const words[] = {"TAGS\1", "KEYS\1", "\2", "\1", "x", "x\1y\2", "\2color\1", "0123456789abcdef0123456789"};
    uint32_t size = 0;
    for (uint32_t left = any(seed, 12); left > 0; left--) {
        const char *word = words[any(seed, sizeof words / sizeof *words)];
        memcpy(text + size, word, strlen(word));
        size += (uint32_t)strlen(word);
    }
    return size;
}

/* A well-formed record of any shape, and the reference that a reader would make of it. */
static struct message_ref make(uint64_t *seed)
{
    uint8_t properties[300];
    const uint32_t born_ipv6 = any(seed, 4) == 0, store_ipv6 = any(seed, 4) == 0, compressed = any(seed, 30) == 0;
    const uint32_t body_at = RECORD_BODY_AT + 12 * (born_ipv6 + store_ipv6), body_size = any(seed, 300);
    const uint32_t properties_size = write_properties(properties, seed);
    const uint32_t size = body_at + body_size + 1 + TOPIC_SIZE + 2 + properties_size;
    uint8_t *record = malloc(size);
    CHECK(record != NULL);
    for (uint32_t i = 0; i < size; i++)
        record[i] = (uint8_t)drive_random(seed);
    store_be32(record, size);
    store_be32(record + 4, RECORD_MAGIC);
    store_be32(record + RECORD_SYSFLAG_AT, (compressed ? SYSFLAG_COMPRESSED : 0) | (born_ipv6 ? SYSFLAG_BORN_IPV6 : 0) |
                                (store_ipv6 ? SYSFLAG_STORE_IPV6 : 0));
    store_be32(record + body_at - 4, body_size);
    record[body_at + body_size] = TOPIC_SIZE;
    store_be16(record + body_at + body_size + 1 + TOPIC_SIZE, (uint16_t)properties_size);
    memcpy(record + size - properties_size, properties, properties_size);
    return (struct message_ref){.record = record, .physical_offset = drive_random(seed), .queue_offset = drive_random(seed),
                                .size = size, .body_at = body_at, .body_size = body_size};
}

static void *room(void *old, uint64_t size)
{
    void *memory = realloc(old, size ? size : 1);
    CHECK(memory != NULL);
    return memory;
}

static void reserve(struct column_text *text, uint32_t rows, uint64_t more)
{
    text->data = room(text->data, column_bytes(text, rows) + more + COLUMN_SLACK);
}

static void same_text(const struct column_text *text, uint32_t row, struct slice expected)
{
    const uint32_t at = (uint32_t)text->offsets[row], size = (uint32_t)text->offsets[row + 1] - at;
    CHECK(!text->validity || (text->validity[row / 8] >> (row & 7) & 1) == (expected.data != NULL));
    CHECK(size == (expected.data ? expected.size : 0) && (size == 0 || memcmp(text->data + at, expected.data, size) == 0));
}

static void reserve_pairs(struct column_pairs *pairs, uint32_t rows, uint64_t more)
{
    const uint32_t count = column_pair_count(pairs, rows);
    struct column_text *texts[2] = {&pairs->name, &pairs->value};
    for (uint32_t i = 0; i < 2; i++) {
        texts[i]->data = room(texts[i]->data, (count ? column_bytes(texts[i], count) : 0) + more + COLUMN_SLACK);
        texts[i]->offsets = room(texts[i]->offsets, 4 * (count + 1 + more / COLUMN_PAIR_MIN));
        texts[i]->offsets[0] = 0;
    }
}

static void free_pairs(struct column_pairs *pairs)
{
    free(pairs->starts);
    free(pairs->validity);
    free(pairs->name.offsets);
    free(pairs->name.data);
    free(pairs->value.offsets);
    free(pairs->value.data);
}

static struct slice value_at(const struct column_text *text, uint32_t index)
{
    return (struct slice){text->data + text->offsets[index], (uint32_t)(text->offsets[index + 1] - text->offsets[index])};
}

static bool same(struct slice a, struct slice b) { return a.size == b.size && memcmp(a.data, b.data, a.size) == 0; }

/* Every name occurs in the row once, with its last value; own: all but TAGS and KEYS. */
static void same_pairs(const struct column_pairs *pairs, uint32_t row, struct slice properties)
{
    const uint32_t begin = (uint32_t)pairs->starts[row], end = (uint32_t)pairs->starts[row + 1];
    CHECK(begin <= end && (!pairs->validity || (pairs->validity[row / 8] >> (row & 7) & 1) == (end > begin)));
    for (uint32_t i = begin; i < end; i++) {
        const struct slice name = value_at(&pairs->name, i), value = value_at(&pairs->value, i);
        CHECK(same(value, properties_get(properties.data, properties.size, (const char *)name.data, name.size)));
        for (uint32_t j = begin; j < i; j++)
            CHECK(!same(name, value_at(&pairs->name, j)));
        CHECK(!pairs->own || name.size != 4 || (memcmp(name.data, "TAGS", 4) != 0 && memcmp(name.data, "KEYS", 4) != 0));
    }
    uint32_t position = 0;
    struct slice name, value;
    while (properties_next(properties.data, properties.size, &position, &name, &value)) {
        bool there = pairs->own && name.size == 4 && (memcmp(name.data, "TAGS", 4) == 0 || memcmp(name.data, "KEYS", 4) == 0);
        for (uint32_t i = begin; i < end; i++)
            there |= same(name, value_at(&pairs->name, i));
        CHECK(there);
    }
}

static void same_id(const struct columns *columns, uint32_t row, const struct record_view *view)
{
    const struct slice id = value_at(&columns->id, row);
    CHECK(id.size == 2 * (view->store_host.size + 8));
    uint8_t raw[28];
    memcpy(raw, view->store_host.data, view->store_host.size);
    store_be64(raw + view->store_host.size, (uint64_t)columns->physical[row]);
    for (uint32_t i = 0; i < id.size; i++) {
        const uint32_t digit = raw[i / 2] >> (i % 2 ? 0 : 4) & 15;
        CHECK(id.data[i] == "0123456789ABCDEF"[digit]);
    }
}

static void same_row(const struct columns *columns, uint32_t row, const struct message_ref *ref, struct slice body)
{
    struct record_view view;
    struct known_properties known;
    CHECK(record_parse(ref->record, ref->size, &view) == RECORD_GOOD);
    properties_known(view.properties.data, view.properties.size, &known);
    same_text(&columns->body, row, body);
    same_text(&columns->tags, row, known.tags);
    same_text(&columns->keys, row, known.keys);
    CHECK(columns->queue[row] == QUEUE && columns->topic[row] == 0);
    CHECK((uint64_t)columns->offset[row] == ref->queue_offset && (uint64_t)columns->physical[row] == ref->physical_offset);
    CHECK((uint64_t)columns->born_ms[row] == view.born_ms && (uint64_t)columns->stored_ms[row] == view.store_ms);
    CHECK((uint32_t)columns->flag[row] == view.flag && (uint32_t)columns->reconsume[row] == view.reconsume_times);
    same_id(columns, row, &view);
    const struct slice born = value_at(&columns->born_host.text, row), store = value_at(&columns->store_host.text, row);
    CHECK((born.data[0] == '[') == (view.born_host.size == 20) && (store.data[0] == '[') == (view.store_host.size == 20));
    same_pairs(&columns->headers, row, view.properties);
    same_pairs(&columns->properties, row, view.properties);
}

static void drive(struct message_ref *refs, uint32_t rows, uint64_t limit)
{
    struct reader_cursor cursor = {.queue_id = QUEUE};
    struct reader reader = {.cursors = &cursor};
    const struct slice plain = {(const uint8_t *)"was compressed", 14};
    struct columns columns = {0};
    struct column_text *texts[TEXTS] = {&columns.body, &columns.tags, &columns.keys, &columns.id, &columns.born_host.text,
                                        &columns.store_host.text};
    for (uint32_t i = 0; i < TEXTS; i++) {
        texts[i]->offsets = room(NULL, 4 * (rows + 1));
        texts[i]->offsets[0] = 0;
        texts[i]->validity = texts[i] == &columns.tags || texts[i] == &columns.keys ? drive_memory((rows + 7) / 8) : NULL;
    }
    columns.headers = (struct column_pairs){.starts = room(NULL, 4 * (rows + 1)), .validity = drive_memory((rows + 7) / 8),
                                            .own = true};
    columns.properties = (struct column_pairs){.starts = room(NULL, 4 * (rows + 1))};
    columns.headers.starts[0] = columns.properties.starts[0] = 0;
    reserve_pairs(&columns.headers, 0, 0);
    reserve_pairs(&columns.properties, 0, 0);
    columns.reconsume = room(NULL, 4 * rows);
    columns.topic = room(NULL, 4 * rows);
    columns.queue = room(NULL, 4 * rows);
    columns.flag = room(NULL, 4 * rows);
    columns.offset = room(NULL, 8 * rows);
    columns.physical = room(NULL, 8 * rows);
    columns.born_ms = room(NULL, 8 * rows);
    columns.stored_ms = room(NULL, 8 * rows);
    while (columns.rows < rows) {
        const struct message_ref *next = &refs[columns.rows];
        struct columns_need need = columns_fit(&columns, next, rows - columns.rows, limit);
        if (need.rows == 0 && !need.compressed)
            break;
        if (need.rows == 0)
            need = (struct columns_need){.compressed = true, .body = plain.size, .text = next->size - next->body_size};
        reserve(&columns.body, columns.rows, need.body);
        for (uint32_t i = 1; i < TEXTS; i++)
            reserve(texts[i], columns.rows, need.text);
        reserve_pairs(&columns.headers, columns.rows, need.text);
        reserve_pairs(&columns.properties, columns.rows, need.text);
        if (need.rows == 0)
            columns_append_one(&columns, &reader, next, plain);
        else
            CHECK(columns_append(&columns, &reader, next, need.rows) == need.rows);
    }
    CHECK(columns.rows == rows || columns_fit(&columns, &refs[columns.rows], 1, COLUMN_BYTES_MAX).rows == 1);
    uint32_t nulls = 0;
    for (uint32_t row = 0; row < columns.rows; row++) {
        const bool compressed = load_be32(refs[row].record + RECORD_SYSFLAG_AT) & SYSFLAG_COMPRESSED;
        same_row(&columns, row, &refs[row],
                 compressed ? plain : (struct slice){refs[row].record + refs[row].body_at, refs[row].body_size});
        nulls += !(columns.tags.validity[row / 8] >> (row & 7) & 1);
    }
    CHECK(nulls == columns.tags.nulls);
    free_pairs(&columns.headers);
    free_pairs(&columns.properties);
    free(columns.reconsume);
    for (uint32_t i = 0; i < TEXTS; i++) {
        free(texts[i]->offsets);
        free(texts[i]->data);
        free(texts[i]->validity);
    }
    free(columns.topic);
    free(columns.queue);
    free(columns.flag);
    free(columns.offset);
    free(columns.physical);
    free(columns.born_ms);
    free(columns.stored_ms);
}

int main(void)
{
    uint64_t seed = 88172645463325252u;
    static struct message_ref refs[ROWS_MAX];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t rows = 1 + any(&seed, ROWS_MAX);
        for (uint32_t i = 0; i < rows; i++)
            refs[i] = make(&seed);
        drive(refs, rows, round % 2 ? any(&seed, 20000) : COLUMN_BYTES_MAX);
        for (uint32_t i = 0; i < rows; i++)
            free((void *)(uintptr_t)refs[i].record);
    }
    return 0;
}

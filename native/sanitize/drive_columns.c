/* Columns of records with any properties and bodies, each record in memory of exactly its size, and buffers of exactly the room
 * that columns_fit asks for; compared with what the record's own parser says. */
#include "columns.h"
#include "drive.h"

#include <string.h>

#define ROUNDS 400u
#define ROWS_MAX 200u
#define QUEUE 3u
#define TOPIC_SIZE 5u

static uint32_t any(uint64_t *seed, uint32_t below) { return (uint32_t)(drive_random(seed) % below); }

static uint32_t write_properties(uint8_t *text, uint64_t *seed)
{
    static const char *const words[] = {"TAGS\1", "KEYS\1", "\2", "\1", "x", "0123456789abcdef0123456789"};
    uint32_t size = 0;
    for (uint32_t left = any(seed, 10); left > 0; left--) {
        const char *word = words[any(seed, sizeof words / sizeof *words)];
        memcpy(text + size, word, strlen(word));
        size += (uint32_t)strlen(word);
    }
    return size;
}

/* A record of any shape that is well formed, and the reference that a reader would make of it. */
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
    CHECK((uint32_t)columns->flag[row] == view.flag);
}

static void drive(struct message_ref *refs, uint32_t rows, uint64_t limit)
{
    const struct reader_cursor cursor = {.queue_id = QUEUE};
    const struct slice plain = {(const uint8_t *)"was compressed", 14};
    struct columns columns = {0};
    struct column_text *texts[3] = {&columns.body, &columns.tags, &columns.keys};
    for (uint32_t i = 0; i < 3; i++) {
        texts[i]->offsets = room(NULL, 4 * (rows + 1));
        texts[i]->offsets[0] = 0;
        texts[i]->validity = i ? drive_memory((rows + 7) / 8) : NULL;
    }
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
        reserve(&columns.tags, columns.rows, need.text);
        reserve(&columns.keys, columns.rows, need.text);
        if (need.rows == 0)
            columns_append_one(&columns, next, plain, &cursor);
        else
            columns_append(&columns, next, need.rows, &cursor);
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
    for (uint32_t i = 0; i < 3; i++) {
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

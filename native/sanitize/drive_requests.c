/* Requests as clients send them, damaged at any byte and in their lengths, through all that reads what a client has sent: frame, header in both
 * forms, signature and access rules, properties with their wishes, batches, filters. What is read lies in memory of exactly its size.
 *
 *     scripts/sanitize drive_requests COUNT SEED
 */
#include "base/bytes.h"
#include "drive.h"
#include "format/record.h"
#include "format/sql.h"
#include "format/tag_filter.h"
#include "remoting/acl/acl.h"
#include "remoting/gateway/gateway_wish.h"
#include "remoting/frame/remoting_batch.h"

#include <inttypes.h>
#include <string.h>

#define COUNT 100000u
#define ROOM 4096u
#define FIELDS 12u
#define HANDSHAKE 0x16u /* of TLS */

/* How far inputs came: a generator that gets no input past the first decoder would show nothing of the others. */
static struct {
    uint64_t frames, headers, signed_ones, properties, ways, batches, filters, passed;
} told;

static const char *const names[] = {
    "topic", "b", "c", "a", "producerGroup", "consumerGroup", "group", "queueId", "e", "queueOffset", "sysFlag", "f", "i", "properties",
    "subscription", "expressionType", "maxMsgNums", "d", "bornTimestamp", "g", "h", "batch", "m", "AccessKey", "Signature", "SecurityToken",
    "transactionId", "commitOrRollback", "", "\xc3\xa9"};
static const char *const values[] = {
    "orders", "%RETRY%readers", "%DLQ%readers", "readers", "0", "-1", "4", "2147483648", "9223372036854775807", "99999999999999999999", "true",
    "account1", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", "SQL92", "TAG", "a || b", "a", "*", "", "price > 1 AND region IN ('eu', 'us')",
    "a IS NOT NULL OR NOT (b BETWEEN 1 AND 2.5)", "TAGS contains 'a'", "\xf0\x9f\x9a\x80"};
static const char *const pairs[] = {
    "TAGS\1a\2", "KEYS\1k l\2", "UNIQ_KEY\1" "7F00\2", "WAIT\1true\2", "DELAY\1" "3\2", "TIMER_DELAY_SEC\1" "5\2", "TIMER_DELAY_MS\1x\2",
    "TIMER_DELIVER_MS\1" "99999999999999\2", "TRAN_MSG\1true\2", "PGROUP\1group\2", "price\1" "1.5\2", "region\1eu\2", "CORRELATION_ID\1c\2",
    "REPLY_TO_CLIENT\1" "1@a\2", "TTL\1" "3000\2", "CLUSTER\1x\2", "__CRC32#\1" "12\2", "a\1\2", "\1\2", "b\1c", "\2\2", "RETRY_TOPIC\1t\2"};
#define ANY(of) of[drive_random(seed) % (sizeof(of) / sizeof *(of))]

struct text {
    uint8_t data[ROOM];
    uint32_t size;
};

static void put(struct text *text, const void *data, size_t size)
{
    const uint32_t left = ROOM - text->size;
    memcpy(text->data + text->size, data, size < left ? size : left);
    text->size += size < left ? (uint32_t)size : left;
}

static void put_word(struct text *text, const char *word) { put(text, word, strlen(word)); }

static void put_number(struct text *text, uint32_t value, uint32_t bytes)
{
    uint8_t number[4];
    store_be32(number, value);
    put(text, number + 4 - bytes, bytes);
}

static void put_pairs(struct text *text, uint64_t *seed)
{
    for (uint64_t count = drive_random(seed) % 6; count; count--)
        put_word(text, ANY(pairs));
}

/* ---- what clients send ---- */

static void put_json(struct text *to, uint64_t *seed)
{
    put_word(to, "{\"code\":310,\"extFields\":{\"subscription\":\"");
    put_word(to, ANY(values));
    put_word(to, drive_random(seed) % 4 ? "\"" : "\",\"AccessKey\":\"account1\",\"Signature\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAA=\"");
    for (uint64_t i = 0, count = drive_random(seed) % FIELDS; i < count; i++) {
        put_word(to, ",\"");
        put_word(to, ANY(names));
        put_word(to, "\":\"");
        if (drive_random(seed) % 8 == 0)
            put_word(to, "KEYS\\u0001k\\u0002DELAY\\u00013\\u0002\\ud83d\\ude80\\n");
        else
            put_word(to, ANY(values));
        put_word(to, "\"");
    }
    put_word(to, "},\"flag\":0,\"language\":\"JAVA\",\"opaque\":7,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":407}");
}

static void put_binary(struct text *to, uint64_t *seed)
{
    struct text fields = {.size = 0};
    for (uint64_t count = drive_random(seed) % FIELDS; count; count--) {
        const char *const name = ANY(names);
        struct text value = {.size = 0};
        if (*name == 'i' || *name == 'p')
            put_pairs(&value, seed);
        else
            put_word(&value, ANY(values));
        put_number(&fields, (uint32_t)strlen(name), 2);
        put_word(&fields, name);
        put_number(&fields, value.size, 4);
        put(&fields, value.data, value.size);
    }
    put(to, "\x01\x36\x00\x01\x97\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x00", 17); /* code, language, version, opaque, flag, no remark */
    put_number(to, fields.size, 4);
    put(to, fields.data, fields.size);
}

static void put_batch(struct text *to, uint64_t *seed)
{
    for (uint64_t count = 1 + drive_random(seed) % 4; count; count--) {
        struct text properties = {.size = 0};
        const uint32_t body = (uint32_t)(drive_random(seed) % 9);
        put_pairs(&properties, seed);
        put_number(to, 22 + body + properties.size, 4);
        put(to, "\0\0\0\0\0\0\0\0\0\0\0\7", 12);
        put_number(to, body, 4);
        put(to, "12345678", body);
        put_number(to, properties.size, 2);
        put(to, properties.data, properties.size);
    }
}

static void put_frame(struct text *to, uint64_t *seed)
{
    static struct text header, body;
    const bool binary = drive_random(seed) % 2;
    header.size = body.size = 0;
    (binary ? put_binary : put_json)(&header, seed);
    switch (drive_random(seed) % 4) {
    case 0:
        put_batch(&body, seed);
        break;
    case 1:
        put_pairs(&body, seed);
        break;
    case 2:
        put_word(&body, ANY(values));
        break;
    default:
        break;
    }
    put_number(to, 4 + header.size + body.size, 4);
    put_number(to, (uint32_t)binary << 24 | header.size, 4);
    put(to, header.data, header.size);
    put(to, body.data, body.size);
}

/* ---- how they are damaged ---- */

static void damage(struct text *text, uint64_t *seed)
{
    static const uint8_t telling[] = {0, 1, 2, 0x16, 0x22, 0x5c, 0x7b, 0x7d, 0x7f, 0x80, 0xc3, 0xed, 0xff};
    for (uint64_t changes = drive_random(seed) % 6; changes && text->size; changes--) {
        const uint32_t at = (uint32_t)(drive_random(seed) % text->size), left = text->size - at;
        uint32_t some = (uint32_t)(drive_random(seed) % 9);
        switch (drive_random(seed) % 6) {
        case 0:
            text->data[at] = (uint8_t)drive_random(seed);
            break;
        case 1:
            text->data[at] = ANY(telling);
            break;
        case 2: /* lost */
            some = some < left ? some : left;
            memmove(text->data + at, text->data + at + some, left - some);
            text->size -= some;
            break;
        case 3: /* doubled */
            some = some < left ? some : left;
            some = some < ROOM - text->size ? some : ROOM - text->size;
            memmove(text->data + at + some, text->data + at, left);
            text->size += some;
            break;
        case 4: /* a length that is near to what it should be, or far from it */
            if (left >= 4)
                store_be32(text->data + at, load_be32(text->data + at) + some - 4);
            break;
        default:
            text->size = drive_random(seed) % 4 ? text->size : at;
        }
    }
}

/* The frame's own lengths fit again, so that the damage is met by what reads the content. */
static void mend(struct text *text)
{
    if (text->size < REMOTING_FRAME_START)
        return;
    const uint32_t most = text->size - REMOTING_FRAME_START, header = load_be32(text->data + 4) & 0xffffff;
    store_be32(text->data, text->size - 4);
    store_be32(text->data + 4, (uint32_t)(text->data[4] & 1) << 24 | (header < most ? header : most));
}

/* ---- what reads them ---- */

static struct slice exactly(struct slice of)
{
    uint8_t *const copy = malloc(of.size ? of.size : 1);
    CHECK(copy != NULL);
    if (of.size)
        memcpy(copy, of.data, of.size);
    return (struct slice){copy, of.size};
}

static void drop(struct slice copy) { free((void *)(uintptr_t)copy.data); }

static void read_filter(struct slice text, struct slice properties)
{
    struct sql_fault fault;
    struct sql_program *const program = sql_compile(text.data, text.size, &fault);
    if (program) {
        told.filters++;
        CHECK(sql_evaluate(program, properties.data, properties.size) <= SQL_ERROR);
        sql_free(program);
    }
    struct tag_filter tags = {0};
    CHECK(tag_filter_set(&tags, &text, 1) == 0);
    struct known_properties known;
    properties_known(properties.data, properties.size, &known);
    told.passed += tag_filter_passes(&tags, tags_code(known.tags), properties);
    tag_filter_clear(&tags);
}

/* As a send does. */
static void read_properties(struct slice of, struct slice filter)
{
    const struct slice properties = exactly(of);
    struct gateway_wishes wishes = {0}, again = {0};
    struct gateway_wanted wanted = {.group = filter};
    struct gateway_way way;
    const uint32_t size = gateway_put_properties(properties, NULL, 0, &wishes);
    CHECK(size <= properties.size);
    uint8_t *const kept = malloc(size ? size : 1);
    CHECK(kept != NULL);
    CHECK(gateway_put_properties(properties, kept, 0, &again) == size && again.wants_more == wishes.wants_more);
    told.properties += size > 0;
    if (!gateway_find_way(&wanted, &wishes, &way)) {
        CHECK(way.size <= sizeof way.before);
        told.ways += way.delay_level > 0;
    }
    read_filter(filter, (struct slice){kept, size});
    free(kept);
    drop(properties);
}

static void read_body(struct slice of, struct slice filter)
{
    const struct slice body = exactly(of);
    struct slice rest = body;
    struct remoting_batch_entry entry;
    while (rest.size && remoting_batch_next(&rest, &entry)) {
        CHECK(entry.body.data >= body.data && entry.properties.data + entry.properties.size == rest.data);
        CHECK(rest.data + rest.size == body.data + body.size);
        read_properties(entry.properties, filter);
        told.batches++;
    }
    struct record_view view;
    record_parse(body.data, body.size, &view);
    drop(body);
}

static void read_frame(const struct acl *acl, struct slice of)
{
    static struct remoting_header header;
    const struct slice data = exactly(of);
    struct remoting_frame frame;
    const enum remoting_border border = remoting_frame(data.data, data.size, &frame);
    CHECK(data.size < 8 || data.data[0] != HANDSHAKE || border == REMOTING_BAD_FRAME); /* TLS is told from a frame by its first byte */
    if (border == REMOTING_WHOLE) {
        CHECK(frame.size <= data.size && frame.body_at + frame.body_size == frame.size);
        told.frames++;
        const struct slice head = exactly((struct slice){data.data + REMOTING_FRAME_START, frame.header_size});
        const struct slice body = exactly((struct slice){data.data + frame.body_at, frame.body_size});
        if (remoting_header_read((uint8_t *)(uintptr_t)head.data, head.size, frame.type, &header)) {
            struct slice what;
            int64_t number;
            told.headers++;
            told.signed_ones += acl_check(acl, "10.0.0.1:7", &header, body, &what) == ACL_BAD_SIGNATURE;
            for (uint32_t i = 0; i < header.field_count; i++) {
                remoting_number(header.fields[i].value, &number);
                read_properties(header.fields[i].value, remoting_field(&header, "subscription"));
            }
            read_body(body, remoting_field(&header, "subscription"));
        }
        drop(body);
        drop(head);
    }
    drop(data);
}

static struct slice slice_of(const char *text) { return (struct slice){(const uint8_t *)text, (uint32_t)strlen(text)}; }

static void show(uint64_t inputs)
{
    printf("%" PRIu64 " inputs: %" PRIu64 " whole frames, %" PRIu64 " headers, %" PRIu64 " signatures, %" PRIu64 " messages of batches, ", inputs,
           told.frames, told.headers, told.signed_ones, told.batches);
    printf("%" PRIu64 " properties, %" PRIu64 " ways, %" PRIu64 " filters, %" PRIu64 " tags\n", told.properties, told.ways, told.filters, told.passed);
    fflush(stdout);
}

int main(int count, char **given)
{
    const uint64_t inputs = count > 1 ? strtoull(given[1], NULL, 10) : COUNT;
    uint64_t state = 88172645463325252u ^ (count > 2 ? strtoull(given[2], NULL, 10) << 1 : 0), *const seed = &state;
    static struct text text;
    struct acl *const acl = acl_open();
    CHECK(acl && acl_add_account(acl, slice_of("account1"), slice_of("secret"), false, ACL_PUB, ACL_SUB));
    acl_seal(acl);
    for (uint64_t round = 0; round < inputs; round++) {
        text.size = 0;
        put_frame(&text, seed);
        if (round % 8)
            damage(&text, seed);
        if (round % 4)
            mend(&text);
        read_frame(acl, (struct slice){text.data, text.size});
    }
    acl_free(acl);
    if (count > 1)
        show(inputs);
    /* few inputs may pass by chance what these pass */
    CHECK(inputs < COUNT || (told.frames > inputs / 2 && told.headers > inputs / 8 && told.signed_ones > inputs / 1000));
    CHECK(inputs < COUNT || (told.properties > inputs / 8 && told.ways > inputs / 100 && told.batches > inputs / 20));
    CHECK(inputs < COUNT || (told.filters > inputs / 100 && told.passed > 0));
    return 0;
}

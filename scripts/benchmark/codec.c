/* What RocketMQ made faster in its codecs (properties, headers, names), as OrbitMQ's core does it and as it was done before: with maps of
 * copied strings, `split`, reflection over fields and a regular expression. The former ways are written here, in C, so that only the idea
 * differs and not the language.
 *
 *   codec NAME ROUNDS      prints [ns with the idea, ns without it], of one conversion
 */
#include "format/properties.h"
#include "remoting/gateway/gateway_wish.h"
#include "remoting/frame/remoting_header.h"
#include "shared/topics.h"

#include <arpa/inet.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUCKETS 32u
#define PAIRS 6u

static uint64_t sink; /* results go here, so that nothing is left out */

/* ---- before: a map of strings that it owns --------------------------------------------------------------------------- */

struct entry {
    struct entry *next;
    char *name, *value;
};
struct map {
    struct entry *bucket[BUCKETS];
};

static char *copy(const char *text, size_t size)
{
    char *made = malloc(size + 1);
    if (!made)
        abort();
    memcpy(made, text, size);
    made[size] = 0;
    return made;
}

static void put(struct map *map, char *name, char *value)
{
    struct entry **at = &map->bucket[(uint32_t)java_hash(0, (const uint8_t *)name, (uint32_t)strlen(name)) % BUCKETS];
    struct entry *made = malloc(sizeof *made);
    if (!made)
        abort();
    *made = (struct entry){*at, name, value};
    *at = made;
}

static const char *get(const struct map *map, const char *name)
{
    const uint32_t bucket = (uint32_t)java_hash(0, (const uint8_t *)name, (uint32_t)strlen(name)) % BUCKETS;
    for (const struct entry *entry = map->bucket[bucket]; entry; entry = entry->next)
        if (strcmp(entry->name, name) == 0)
            return entry->value;
    return NULL;
}

static void drop(struct map *map)
{
    for (uint32_t i = 0; i < BUCKETS; i++)
        for (struct entry *entry = map->bucket[i], *next; entry; entry = next) {
            next = entry->next;
            free(entry->name);
            free(entry->value);
            free(entry);
        }
    *map = (struct map){0};
}

/* The parts between separators, each copied. */
static uint32_t split(const char *text, size_t size, char separator, char **parts, uint32_t most)
{
    uint32_t count = 0;
    for (const char *at = text, *end = text + size; at < end && count < most;) {
        const char *next = memchr(at, separator, (size_t)(end - at));
        const size_t part = (size_t)((next ? next : end) - at);
        parts[count++] = copy(at, part);
        at += part + 1;
    }
    return count;
}

static void read_into_map(struct map *map, const char *text, size_t size)
{
    char *segments[2 * PAIRS];
    const uint32_t count = split(text, size, PROPERTY_END, segments, 2 * PAIRS);
    for (uint32_t i = 0; i < count; i++) {
        char *pair[2];
        const uint32_t halves = split(segments[i], strlen(segments[i]), PROPERTY_NAME_END, pair, 2);
        if (halves == 2)
            put(map, pair[0], pair[1]);
        else if (halves)
            free(pair[0]);
        free(segments[i]);
    }
}

/* Text that grows, and is copied when it is whole. */
struct builder {
    char *data;
    size_t size, room;
};

static void append(struct builder *builder, const char *text, size_t size)
{
    while (builder->size + size > builder->room) {
        builder->room = builder->room ? 2 * builder->room : 16;
        builder->data = realloc(builder->data, builder->room);
        if (!builder->data)
            abort();
    }
    memcpy(builder->data + builder->size, text, size);
    builder->size += size;
}

/* ---- the measures ---------------------------------------------------------------------------------------------------- */

/* As Java's client sends them. */
static const char properties[] = "UNIQ_KEY\1" "7F0000010A1B18B4AAC27A3F5C1D0000\2" "KEYS\1" "order-1234567\2" "TAGS\1" "paid\2" "region\1" "eu-central\2"
                                 "traceparent\1" "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\2" "attempt\1" "1\2";

static void properties_read_once(void)
{
    uint32_t position = 0;
    struct slice name, value;
    while (properties_next((const uint8_t *)properties, sizeof properties - 1, &position, &name, &value))
        sink += name.size + value.size + name.data[0];
}

static void properties_read_by_split(void)
{
    struct map map = {0};
    read_into_map(&map, properties, sizeof properties - 1);
    sink += get(&map, "TAGS") != NULL;
    drop(&map);
}

/* What the index needs: three values. */
static void properties_looked_up(void)
{
    struct known_properties known;
    properties_known((const uint8_t *)properties, sizeof properties - 1, &known);
    sink += known.tags.size + known.keys.size + known.unique_key.size;
}

/* Once for the checks of a send, and again for the index. */
static void properties_read_twice(void)
{
    for (int time = 0; time < 2; time++) {
        struct map map = {0};
        read_into_map(&map, properties, sizeof properties - 1);
        const char *const found[] = {get(&map, "TAGS"), get(&map, "KEYS"), get(&map, "UNIQ_KEY")};
        for (uint32_t i = 0; i < 3; i++)
            sink += strlen(found[i]);
        drop(&map);
    }
}

static uint8_t written[1024];

/* As the gateway does it: read from the frame and written into the ring in one pass. */
static void properties_written_in_place(void)
{
    const struct slice given = {(const uint8_t *)properties, sizeof properties - 1};
    struct gateway_wishes wishes = {0};
    sink += gateway_put_properties(given, written, 0, &wishes);
}

static struct map kept;

static void properties_built(void)
{
    struct builder builder = {0};
    for (uint32_t i = 0; i < BUCKETS; i++)
        for (const struct entry *entry = kept.bucket[i]; entry; entry = entry->next) {
            append(&builder, entry->name, strlen(entry->name));
            append(&builder, "\1", 1);
            append(&builder, entry->value, strlen(entry->value));
            append(&builder, "\2", 1);
        }
    char *const text = copy(builder.data, builder.size);
    memcpy(written, text, builder.size);
    sink += written[1];
    free(builder.data);
    free(text);
}

static uint8_t frame[2048];
static uint32_t frame_size;

/* A header's fields, in JSON, as a client sends them. */
static void frame_of(int32_t code, const char *const (*fields)[2], uint32_t count)
{
    struct remoting_header header = {.code = code, .version = 399, .opaque = 1234567, .language = REMOTING_JAVA};
    for (uint32_t i = 0; i < count; i++)
        remoting_field_add(&header, fields[i][0], (struct slice){(const uint8_t *)fields[i][1], (uint32_t)strlen(fields[i][1])});
    frame_size = remoting_header_write(frame, sizeof frame, REMOTING_JSON, &header, 100);
    if (!frame_size)
        abort();
}

static void read_frame(struct remoting_header *header)
{
    static uint8_t work[sizeof frame]; /* reading changes it */
    memcpy(work, frame, frame_size);
    if (!remoting_header_read(work + REMOTING_FRAME_START, frame_size - REMOTING_FRAME_START, REMOTING_JSON, header))
        abort();
}

static struct remoting_header header_now;

static void numbers_of(const char *const *wanted, uint32_t count)
{
    int64_t number;
    for (uint32_t i = 0; i < count; i++) {
        remoting_field_number(&header_now, wanted[i], &number);
        sink += (uint64_t)number;
    }
}

static void send_header_in_place(void)
{
    struct slice fields[REMOTING_LETTERS];
    int64_t number;
    read_frame(&header_now);
    remoting_letters(&header_now, fields);
    sink += fields['b' - 'a'].size + fields['i' - 'a'].size + fields['a' - 'a'].size + fields['m' - 'a'].size;
    for (const char *letter = "efghjl"; *letter; letter++) {
        remoting_number(fields[*letter - 'a'], &number);
        sink += (uint64_t)number;
    }
}

static void pull_header_in_place(void)
{
    static const char *const whole[] = {"queueId", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset", "suspendTimeoutMillis", "subVersion"};
    read_frame(&header_now);
    sink += remoting_field(&header_now, "consumerGroup").size + remoting_field(&header_now, "topic").size;
    sink += remoting_field(&header_now, "subscription").size + remoting_field(&header_now, "expressionType").size;
    numbers_of(whole, 7);
}

/* A field of a header's class, as reflection knows it. */
struct member {
    const char *name, *type;
    size_t at;
    bool needed;
};
union filled {
    char *text;
    int64_t number;
};

static void reflect(const struct member *members, uint32_t count)
{
    struct map map = {0};
    read_frame(&header_now);
    for (uint32_t i = 0; i < header_now.field_count; i++) {
        const struct remoting_field *const field = &header_now.fields[i];
        put(&map, copy((const char *)field->name.data, field->name.size), copy((const char *)field->value.data, field->value.size));
    }
    union filled *const object = calloc(count, sizeof *object);
    if (!object)
        abort();
    for (uint32_t i = 0; i < count; i++) {
        const char *const value = get(&map, members[i].name);
        if (!value)
            continue;
        const char *const type = members[i].type;
        union filled *const to = &object[members[i].at];
        if (strcmp(type, "java.lang.String") == 0)
            to->text = copy(value, strlen(value));
        else if (strcmp(type, "java.lang.Integer") == 0 || strcmp(type, "int") == 0)
            to->number = strtol(value, NULL, 10);
        else if (strcmp(type, "java.lang.Long") == 0 || strcmp(type, "long") == 0)
            to->number = strtoll(value, NULL, 10);
        else
            to->number = strcmp(value, "true") == 0;
        sink += (uint64_t)to->number;
    }
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(members[i].type, "java.lang.String") == 0)
            free(object[members[i].at].text);
    free(object);
    drop(&map);
}

#define TEXT "java.lang.String"
static void send_header_by_reflection(void)
{
    static const struct member members[] = {
        {"a", TEXT, 0, true}, {"b", TEXT, 1, true}, {"c", TEXT, 2, true}, {"d", "java.lang.Integer", 3, true}, {"e", "java.lang.Integer", 4, true},
        {"f", "java.lang.Integer", 5, true}, {"g", "java.lang.Long", 6, true}, {"h", "java.lang.Integer", 7, true}, {"i", TEXT, 8, false},
        {"j", "java.lang.Integer", 9, false}, {"k", "boolean", 10, false}, {"l", "java.lang.Integer", 11, false}, {"m", "boolean", 12, false},
    };
    reflect(members, 13);
}

static void pull_header_by_reflection(void)
{
    static const struct member members[] = {
        {"consumerGroup", TEXT, 0, true}, {"topic", TEXT, 1, true}, {"queueId", "java.lang.Integer", 2, true},
        {"queueOffset", "java.lang.Long", 3, true}, {"maxMsgNums", "java.lang.Integer", 4, true}, {"sysFlag", "java.lang.Integer", 5, true},
        {"commitOffset", "java.lang.Long", 6, true}, {"suspendTimeoutMillis", "java.lang.Long", 7, true}, {"subscription", TEXT, 8, false},
        {"subVersion", "java.lang.Long", 9, true}, {"expressionType", TEXT, 10, false},
    };
    reflect(members, 11);
}

static const char *const answer_fields[][2] = {{"msgId", "7F00000100002A9F00000000000F4240"}, {"queueId", "3"}, {"queueOffset", "1234567"}};
static struct remoting_header answer;

static void answer_written_in_place(void)
{
    sink += remoting_header_write(written, sizeof written, REMOTING_BINARY, &answer, 0);
}

/* Its fields become bytes of their own, then a header, then a frame. */
static void answer_joined(void)
{
    struct builder fields = {0}, header = {0};
    for (uint32_t i = 0; i < answer.field_count; i++) {
        char *const name = copy((const char *)answer.fields[i].name.data, answer.fields[i].name.size);
        char *const value = copy((const char *)answer.fields[i].value.data, answer.fields[i].value.size);
        append(&fields, "\0\0", 2);
        append(&fields, name, answer.fields[i].name.size);
        append(&fields, "\0\0\0\0", 4);
        append(&fields, value, answer.fields[i].value.size);
        free(name);
        free(value);
    }
    char *const joined = copy(fields.data, fields.size);
    append(&header, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 17);
    append(&header, joined, fields.size);
    char *const whole = copy(header.data, header.size);
    memcpy(written + REMOTING_FRAME_START, whole, header.size);
    sink += written[REMOTING_FRAME_START];
    free(fields.data);
    free(header.data);
    free(joined);
    free(whole);
}

static const char name[] = "orders_of-the-region_eu-central";
static regex_t pattern;

static void name_by_table(void)
{
    uint32_t at;
    sink += topic_name_check((const uint8_t *)name, sizeof name - 1, &at) == TOPIC_NAME_GOOD;
}

static void name_by_pattern(void) { sink += regexec(&pattern, name, 0, NULL, 0) == 0; }

static struct sockaddr_in peer = {.sin_family = AF_INET};
static char peer_text[INET6_ADDRSTRLEN + 8];

static void address_kept(void) { sink += (uint64_t)peer_text[0]; }

static void address_formatted(void)
{
    char host[INET6_ADDRSTRLEN];
    inet_ntop(AF_INET, &peer.sin_addr, host, sizeof host);
    snprintf(peer_text, sizeof peer_text, "%s:%u", host, (unsigned)ntohs(peer.sin_port));
    sink += (uint64_t)peer_text[0];
}

/* ---- choosing -------------------------------------------------------------------------------------------------------- */

static const char *const send_fields[][2] = {
    {"a", "producers"}, {"b", "orders"}, {"c", "TBW102"}, {"d", "4"}, {"e", "3"}, {"f", "0"}, {"g", "1780000000000"}, {"h", "0"},
    {"i", properties}, {"j", "0"}, {"k", "false"}, {"l", "16"}, {"m", "false"},
};
static const char *const pull_fields[][2] = {
    {"consumerGroup", "billing"}, {"topic", "orders"}, {"queueId", "3"}, {"queueOffset", "123456"}, {"maxMsgNums", "32"}, {"sysFlag", "3"},
    {"commitOffset", "123400"}, {"suspendTimeoutMillis", "15000"}, {"subscription", "*"}, {"subVersion", "1780000000000"}, {"expressionType", "TAG"},
};

static const struct conversion {
    const char *name;
    void (*with)(void), (*without)(void);
} conversions[] = {
    {"properties_looked_up", properties_looked_up, properties_read_twice},
    {"properties_read", properties_read_once, properties_read_by_split},
    {"properties_written", properties_written_in_place, properties_built},
    {"send_header", send_header_in_place, send_header_by_reflection},
    {"pull_header", pull_header_in_place, pull_header_by_reflection},
    {"answer_written", answer_written_in_place, answer_joined},
    {"address", address_kept, address_formatted},
    {"name", name_by_table, name_by_pattern},
};

static void prepare(const char *chosen)
{
    read_into_map(&kept, properties, sizeof properties - 1);
    answer = (struct remoting_header){.opaque = 1234567, .flag = REMOTING_RESPONSE};
    for (uint32_t i = 0; i < sizeof answer_fields / sizeof *answer_fields; i++)
        remoting_field_add(&answer, answer_fields[i][0],
                           (struct slice){(const uint8_t *)answer_fields[i][1], (uint32_t)strlen(answer_fields[i][1])});
    if (regcomp(&pattern, "^[%|a-zA-Z0-9_-]+$", REG_EXTENDED | REG_NOSUB))
        abort();
    peer.sin_port = htons(40123);
    inet_pton(AF_INET, "127.0.0.1", &peer.sin_addr);
    address_formatted();
    if (strcmp(chosen, "pull_header") == 0)
        frame_of(11, pull_fields, sizeof pull_fields / sizeof *pull_fields);
    else
        frame_of(310, send_fields, sizeof send_fields / sizeof *send_fields);
}

static double ns_of(void (*way)(void), uint64_t rounds)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    for (uint64_t i = 0; i < rounds; i++)
        way();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / (double)rounds;
}

int main(int count, char **arguments)
{
    const uint64_t rounds = count == 3 ? strtoull(arguments[2], NULL, 10) : 0;
    for (size_t i = 0; rounds && i < sizeof conversions / sizeof *conversions; i++) {
        const struct conversion *const found = &conversions[i];
        if (strcmp(arguments[1], found->name) != 0)
            continue;
        prepare(found->name);
        ns_of(found->with, rounds / 10); /* warm */
        const double with = ns_of(found->with, rounds);
        ns_of(found->without, rounds / 10);
        printf("[%.3f, %.3f]\n", with, ns_of(found->without, rounds));
        return sink == 0;
    }
    fprintf(stderr, "codec: which conversion, and how often?\n");
    return 2;
}

/* Frames of any bytes, and damaged ones of good headers, in memory of exactly their size: read, and what was read written in both forms
 * and read again. */
#include "drive.h"
#include "remoting/frame/remoting_header.h"

#include <string.h>

#define ROUNDS 100000u
#define SIZE_MAX_DRIVEN 300u

static const char good[] = "{\"code\":310,\"extFields\":{\"a\":\"g\\u0001\\ud83d\\ude80\",\"b\":\"T\",\"e\":0,\"k\":false},\"flag\":2,"
                           "\"language\":\"GO\",\"opaque\":-7,\"remark\":\"\\\"\",\"x\":[{\"y\":null}],\"version\":407}";

static bool same(struct slice a, struct slice b) { return a.size == b.size && (!a.size || !memcmp(a.data, b.data, a.size)); }

/* Written in memory of exactly the size that it takes, and read from it. */
static void write_and_read(const struct remoting_header *header, uint8_t type)
{
    static struct remoting_header again;
    const uint32_t room = (uint32_t)remoting_header_room(header);
    uint8_t *frame = malloc(room);
    CHECK(frame != NULL);
    const uint32_t size = remoting_header_write(frame, room, type, header, 0);
    CHECK(size > 0);
    uint8_t *exact = malloc(size);
    CHECK(exact != NULL);
    CHECK(remoting_header_write(exact, size, type, header, 0) == size && !memcmp(exact, frame, size));
    struct remoting_frame found;
    CHECK(remoting_frame(exact, size, &found) == REMOTING_WHOLE && found.type == type && found.body_size == 0);
    CHECK(remoting_header_read(exact + REMOTING_FRAME_START, found.header_size, type, &again));
    CHECK(again.opaque == header->opaque && again.flag == header->flag && same(again.remark, header->remark));
    if (type == REMOTING_JSON) {
        CHECK(again.code == header->code && again.field_count == header->field_count);
        for (uint32_t i = 0; i < again.field_count; i++)
            CHECK(same(again.fields[i].name, header->fields[i].name) && same(again.fields[i].value, header->fields[i].value));
    }
    free(exact);
    free(frame);
}

static bool drive(const uint8_t *bytes, uint32_t size, uint8_t type)
{
    static struct remoting_header header;
    uint8_t *exact = malloc(size ? size : 1);
    int64_t number;
    CHECK(exact != NULL);
    memcpy(exact, bytes, size);
    struct remoting_frame frame;
    remoting_frame(exact, size, &frame);
    const bool read = remoting_header_read(exact, size, type, &header);
    if (read) {
        remoting_field_number(&header, "e", &number);
        write_and_read(&header, REMOTING_JSON);
        write_and_read(&header, REMOTING_BINARY);
    }
    free(exact);
    return read;
}

int main(void)
{
    uint64_t seed = 88172645463325252u;
    uint32_t readable = 0;
    uint8_t text[SIZE_MAX_DRIVEN];
    for (uint32_t size = 0; size < sizeof good; size++)
        CHECK(drive((const uint8_t *)good, size, REMOTING_JSON) == (size == sizeof good - 1));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint8_t type = round & 1;
        uint32_t size = (uint32_t)sizeof good - 1;
        memcpy(text, good, size);
        if (type == REMOTING_BINARY) {
            size = (uint32_t)(drive_random(&seed) % 64);
            for (uint32_t i = 0; i < size; i++)
                text[i] = (uint8_t)(drive_random(&seed) % (i % 4 == 3 ? 24 : 2));
        }
        for (uint64_t changes = drive_random(&seed) % 3; size && changes > 0; changes--)
            text[drive_random(&seed) % size] = (uint8_t)drive_random(&seed);
        readable += drive(text, size, type);
    }
    CHECK(readable > ROUNDS / 10);
    return 0;
}

/* What both forms share: fields, numbers, and the frame around a header that is written. */
#include "remoting/frame/remoting_header.h"

#include "base/bytes.h"
#include "remoting/frame/remoting_binary.h"
#include "remoting/frame/remoting_json.h"

#include <assert.h>

#define NUMBER_DIGITS 18u /* so many fit into 64 bits whatever they are */

bool remoting_header_read(uint8_t *data, uint32_t size, uint8_t type, struct remoting_header *header)
{
    if (type == REMOTING_JSON)
        return remoting_json_read(data, size, header);
    return type == REMOTING_BINARY && remoting_binary_read(data, size, header);
}

struct slice remoting_field(const struct remoting_header *header, const char *name)
{
    const uint32_t size = (uint32_t)strlen(name);
    for (uint32_t i = header->field_count; i-- > 0;) {
        const struct slice *found = &header->fields[i].name;
        if (found->size == size && memcmp(found->data, name, size) == 0)
            return header->fields[i].value;
    }
    return (struct slice){0};
}

void remoting_letters(const struct remoting_header *header, struct slice values[REMOTING_LETTERS])
{
    memset(values, 0, REMOTING_LETTERS * sizeof *values);
    for (uint32_t i = 0; i < header->field_count; i++) {
        const struct slice *const name = &header->fields[i].name;
        const uint32_t letter = name->size == 1 ? (uint32_t)*name->data - 'a' : REMOTING_LETTERS;
        if (letter < REMOTING_LETTERS)
            values[letter] = header->fields[i].value;
    }
}

bool remoting_number(struct slice text, int64_t *number)
{
    uint32_t at = 0;
    uint64_t value = 0;
    const bool negative = text.size && *text.data == '-';
    if (negative || (text.size && *text.data == '+'))
        at++;
    if (at == text.size)
        return false;
    const uint64_t most = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX;
    const uint32_t certain = text.size < at + NUMBER_DIGITS ? text.size : at + NUMBER_DIGITS;
    for (; at < certain; at++) {
        const uint32_t digit = (uint32_t)text.data[at] - '0';
        if (digit > 9)
            return false;
        value = value * 10 + digit;
    }
    for (; at < text.size; at++) {
        const uint32_t digit = (uint32_t)text.data[at] - '0';
        if (digit > 9 || value > (most - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *number = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

bool remoting_field_number(const struct remoting_header *header, const char *name, int64_t *number)
{
    const struct slice text = remoting_field(header, name);
    return text.data && remoting_number(text, number);
}

void remoting_field_add(struct remoting_header *header, const char *name, struct slice value)
{
    assert(header->field_count < REMOTING_FIELDS_MAX);
    header->has_fields = true;
    header->fields[header->field_count++] =
        (struct remoting_field){{(const uint8_t *)name, (uint32_t)strlen(name)}, value};
}

uint64_t remoting_header_room(const struct remoting_header *header)
{
    uint64_t bytes = header->remark.size;
    for (uint32_t i = 0; i < header->field_count; i++)
        bytes += 2 + header->fields[i].name.size + header->fields[i].value.size;
    /* JSON writes a byte as at most 6, and a field's quotes, colon and comma. 256: all keys and numbers. */
    return REMOTING_FRAME_START + 256 + 6 * bytes;
}

uint32_t remoting_header_write(uint8_t *to, uint32_t room, uint8_t type, const struct remoting_header *header, uint32_t body_size)
{
    if (room < REMOTING_FRAME_START)
        return 0;
    struct remoting_text text = {.at = to + REMOTING_FRAME_START, .end = to + room};
    if (type == REMOTING_BINARY)
        remoting_binary_write(&text, header);
    else
        remoting_json_write(&text, header);
    const uint64_t header_size = (uint64_t)(text.at - to) - REMOTING_FRAME_START;
    const uint64_t length = 4 + header_size + body_size;
    if (text.full || header_size > REMOTING_HEADER_MAX || length > REMOTING_FRAME_MAX)
        return 0;
    store_be32(to, (uint32_t)length);
    store_be32(to + 4, (uint32_t)type << 24 | (uint32_t)header_size);
    return REMOTING_FRAME_START + (uint32_t)header_size;
}

/* The binary form of a header: code (2), language (1), version (2), opaque (4), flag (4), remark and fields with their sizes. */
#include "base/bytes.h"
#include "remoting/frame/remoting_binary.h"

#define FIXED 21u /* with the sizes of the remark and of all fields */

/* The bytes of a field's name or value, whose size stands before them in `width` bytes. */
static bool take(const uint8_t **at, const uint8_t *end, uint32_t width, struct slice *piece)
{
    if ((uint64_t)(end - *at) < width)
        return false;
    const uint32_t size = width == 2 ? load_be16(*at) : load_be32(*at);
    *at += width;
    if (size > (width == 2 ? INT16_MAX : INT32_MAX) || size > (uint64_t)(end - *at))
        return false;
    *piece = (struct slice){*at, size};
    *at += size;
    return true;
}

bool remoting_binary_read(const uint8_t *data, uint32_t size, struct remoting_header *header)
{
    const uint8_t *at = data + 13;
    const uint8_t *const end = data + size;
    struct slice fields;
    header->field_count = 0;
    if (size < FIXED)
        return false;
    header->code = (int16_t)load_be16(data);
    header->language = data[2] < REMOTING_LANGUAGES ? data[2] : REMOTING_OTHER;
    header->version = (int16_t)load_be16(data + 3);
    header->opaque = (int32_t)load_be32(data + 5);
    header->flag = (int32_t)load_be32(data + 9);
    if (!take(&at, end, 4, &header->remark) || !take(&at, end, 4, &fields) || at != end)
        return false;
    if (!header->remark.size)
        header->remark.data = NULL;
    header->has_fields = fields.size;
    const uint8_t *const fields_end = fields.data + fields.size;
    for (at = fields.data; at < fields_end;) {
        struct remoting_field *const field = &header->fields[header->field_count];
        if (header->field_count == REMOTING_FIELDS_MAX || !take(&at, fields_end, 2, &field->name) ||
            !take(&at, fields_end, 4, &field->value))
            return false;
        header->field_count += field->value.size > 0; /* an empty value stands for null */
    }
    return true;
}

static void put_16(struct remoting_text *text, uint32_t value)
{
    uint8_t *const at = remoting_text_take(text, 2);
    if (at)
        store_be16(at, (uint16_t)value);
}

static void put_32(struct remoting_text *text, uint32_t value)
{
    uint8_t *const at = remoting_text_take(text, 4);
    if (at)
        store_be32(at, value);
}

void remoting_binary_write(struct remoting_text *text, const struct remoting_header *header)
{
    put_16(text, (uint32_t)header->code);
    remoting_text_put(text, &header->language, 1);
    put_16(text, (uint32_t)header->version);
    put_32(text, (uint32_t)header->opaque);
    put_32(text, (uint32_t)header->flag);
    put_32(text, header->remark.size);
    remoting_text_put(text, header->remark.data, header->remark.size);
    uint64_t size = 0;
    for (uint32_t i = 0; i < header->field_count; i++) {
        const struct remoting_field *const field = &header->fields[i];
        if (field->name.size > INT16_MAX)
            text->full = true;
        size += 6 + (uint64_t)field->name.size + field->value.size;
    }
    put_32(text, (uint32_t)size);
    for (uint32_t i = 0; i < header->field_count; i++) {
        const struct remoting_field *const field = &header->fields[i];
        put_16(text, field->name.size);
        remoting_text_put(text, field->name.data, field->name.size);
        put_32(text, field->value.size);
        remoting_text_put(text, field->value.data, field->value.size);
    }
}

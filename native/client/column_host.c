#include "client/column_host.h"
#include "base/bytes.h"

static void render(struct column_host *to, struct slice host)
{
    memcpy(to->stored, host.data, host.size);
    to->stored_size = host.size;
    to->rendered_size = record_host_write(host, (char *)to->rendered);
}

void column_host_append(struct column_host *to, uint32_t row, struct slice host)
{
    if (to->stored_size != host.size || memcmp(to->stored, host.data, host.size) != 0)
        render(to, host);
    column_append(&to->text, row, (struct slice){to->rendered, to->rendered_size}, to->rendered + sizeof to->rendered);
}

/* Eight digits of four bytes, spread by shifts: one nibble to a byte, then 7 more for those above 9. */
static void put_hex(uint8_t *at, uint32_t value)
{
    uint64_t digits = value;
    digits = (digits | digits << 16) & UINT64_C(0x0000FFFF0000FFFF);
    digits = (digits | digits << 8) & UINT64_C(0x00FF00FF00FF00FF);
    digits = (digits | digits << 4) & UINT64_C(0x0F0F0F0F0F0F0F0F);
    const uint64_t letters = (digits + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
    store_be64(at, digits + UINT64_C(0x3030303030303030) + letters * 7);
}

void column_id_append(struct column_text *to, uint32_t row, struct slice store_host, uint64_t physical_offset)
{
    uint8_t *at = to->data + to->offsets[row];
    for (uint32_t i = 0; i < store_host.size; i += 4, at += 8)
        put_hex(at, load_be32(store_host.data + i));
    put_hex(at, (uint32_t)(physical_offset >> 32));
    put_hex(at + 8, (uint32_t)physical_offset);
    to->offsets[row + 1] = (int32_t)(at + 16 - to->data);
}

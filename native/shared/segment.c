/* The header line of every segment. See segment.h for its bytes. */
#include "shared/segment.h"

#include <string.h>

void segment_init(void *memory, enum segment_kind kind, uint64_t size, uint64_t generation)
{
    assert(size >= sizeof(struct segment_header));
    assert((uintptr_t)memory % SEGMENT_LINE == 0);
    struct segment_header header = {
        .magic = SEGMENT_MAGIC,
        .layout = SEGMENT_LAYOUT,
        .kind = (uint32_t)kind,
        .size = size,
        .generation = generation,
    };
    memcpy(memory, &header, offsetof(struct segment_header, owner));
}

void segment_sign(void *memory, const struct segment_owner *owner)
{
    assert((uintptr_t)memory % SEGMENT_LINE == 0);
    struct segment_header *header = memory;
    header->owner = *owner;
}

enum segment_fault segment_check(const void *memory, enum segment_kind kind, uint64_t size)
{
    /* A session's header is in memory that its client may still write: what is checked must be what is used. */
    struct segment_header header;
    if (size < sizeof header)
        return SEGMENT_BAD_SIZE;
    memcpy(&header, memory, sizeof header);
    if (header.magic != SEGMENT_MAGIC)
        return SEGMENT_BAD_MAGIC;
    if (header.layout != SEGMENT_LAYOUT)
        return SEGMENT_BAD_LAYOUT;
    if (header.kind != (uint32_t)kind)
        return SEGMENT_BAD_KIND;
    if (header.size < sizeof header || header.size > size)
        return SEGMENT_BAD_SIZE;
    return SEGMENT_GOOD;
}

#include "format/atomic.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char name[] = "ATOMIC\1";

uint32_t mark_put(uint8_t to[ATOMIC_MARK_MAX], uint32_t index, uint32_t count)
{
    assert(index < count && count > 1);
    const int size = snprintf((char *)to, ATOMIC_MARK_MAX, "%s%u:%u\2", name, index, count);
    assert(size > 0 && (uint32_t)size < ATOMIC_MARK_MAX);
    return (uint32_t)size;
}

/* A number that ends with this byte; *at is then behind it. */
static bool read_number(struct slice text, uint32_t *at, uint8_t end, uint32_t *number)
{
    const uint32_t from = *at;
    uint64_t value = 0;
    for (; *at < text.size && text.data[*at] != end; ++*at) {
        const uint32_t digit = text.data[*at] - (uint32_t)'0';
        if (digit > 9 || (value = value * 10 + digit) > UINT32_MAX)
            return false;
    }
    *number = (uint32_t)value;
    return *at > from && (*at)++ < text.size;
}

bool mark_read(struct slice properties, struct mark *mark)
{
    uint32_t at = sizeof name - 1;
    if (properties.size <= at || memcmp(properties.data, name, at) != 0 || !read_number(properties, &at, ':', &mark->index) ||
        !read_number(properties, &at, PROPERTY_END, &mark->count))
        return false;
    mark->size = at;
    return mark->index < mark->count && mark->count > 1;
}

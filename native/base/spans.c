#include "base/spans.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int spans_add(struct spans *spans, uint64_t begin, uint64_t end)
{
    assert(begin < end && (spans->count == 0 || spans->list[spans->count - 1].end <= begin));
    if (spans->count == spans->room) {
        const uint32_t room = spans->room ? 2 * spans->room : 16;
        struct span *list = realloc(spans->list, room * sizeof *list);
        if (!list)
            return ENOMEM;
        spans->list = list;
        spans->room = room;
    }
    spans->list[spans->count++] = (struct span){begin, end};
    return 0;
}

void spans_free(struct spans *spans)
{
    free(spans->list);
    *spans = (struct spans){0};
}

bool spans_touch(const struct spans *spans, uint64_t begin, uint64_t end)
{
    uint32_t low = 0, high = spans->count; /* the first that ends behind begin */
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (spans->list[middle].end > begin)
            high = middle;
        else
            low = middle + 1;
    }
    return low < spans->count && spans->list[low].begin < end;
}

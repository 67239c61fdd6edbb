#include "format/tag_filter.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void tag_filter_clear(struct tag_filter *filter)
{
    for (uint32_t i = 0; i < filter->count; i++)
        free(filter->tags[i].text);
    free(filter->tags);
    *filter = (struct tag_filter){0};
}

int tag_filter_set(struct tag_filter *filter, const struct slice *tags, uint32_t count)
{
    tag_filter_clear(filter);
    if (count == 0)
        return 0;
    filter->tags = calloc(count, sizeof *filter->tags);
    if (!filter->tags)
        return ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        struct tag *tag = &filter->tags[i];
        tag->text = malloc(tags[i].size + 1);
        if (!tag->text)
            return ENOMEM;
        if (tags[i].size)
            memcpy(tag->text, tags[i].data, tags[i].size);
        tag->size = tags[i].size;
        tag->code = tags_code(tags[i]);
        filter->count = i + 1;
    }
    return 0;
}

bool tag_filter_passes(const struct tag_filter *filter, int64_t code, struct slice properties)
{
    if (filter->count == 0)
        return true;
    const struct slice found = properties_get(properties.data, properties.size, "TAGS", 4);
    for (uint32_t i = 0; i < filter->count; i++) {
        const struct tag *tag = &filter->tags[i];
        if (tag->code == code && found.data && tag->size == found.size && memcmp(tag->text, found.data, found.size) == 0)
            return true;
    }
    return false;
}

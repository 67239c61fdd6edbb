/* Which messages a list of tags lets pass: those that have one of them. */
#ifndef ORBITMQ_TAG_FILTER_H
#define ORBITMQ_TAG_FILTER_H

#include "format/properties.h"
#include <stdbool.h>

struct tag {
    int64_t code;
    uint32_t size;
    uint8_t *text;
};

struct tag_filter {
    struct tag *tags; /* none: every message passes */
    uint32_t count;
};

/* In place of what was there. Returns 0 or ENOMEM: then it has some of them. */
int tag_filter_set(struct tag_filter *filter, const struct slice *tags, uint32_t count);
void tag_filter_clear(struct tag_filter *filter);

/* False: no message whose unit has this code passes. */
static inline bool tag_filter_wants(const struct tag_filter *filter, int64_t code)
{
    for (uint32_t i = 0; i < filter->count; i++)
        if (filter->tags[i].code == code)
            return true;
    return filter->count == 0;
}

/* Different tags may share a code, so the text decides. */
bool tag_filter_passes(const struct tag_filter *filter, int64_t code, struct slice properties);

#endif

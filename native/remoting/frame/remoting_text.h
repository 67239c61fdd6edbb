/* Writing into memory of fixed size: what does not fit is noticed, and nothing is written behind the end. */
#ifndef ORBITMQ_REMOTING_TEXT_H
#define ORBITMQ_REMOTING_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct remoting_text {
    uint8_t *at, *end;
    bool full; /* something did not fit; what was written is of no use */
};

/* Room for `size` bytes, which the caller writes; NULL if there is none. */
static inline uint8_t *remoting_text_take(struct remoting_text *text, uint64_t size)
{
    if (text->full || (uint64_t)(text->end - text->at) < size) {
        text->full = true;
        return NULL;
    }
    uint8_t *const at = text->at;
    text->at += size;
    return at;
}

static inline void remoting_text_put(struct remoting_text *text, const void *data, uint64_t size)
{
    uint8_t *const at = remoting_text_take(text, size);
    if (at && size)
        memcpy(at, data, size);
}

#endif

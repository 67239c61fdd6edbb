/* Runs of bytes that stand in a JSON text as they are: no quote, no backslash, nothing below a space. */
#ifndef ORBITMQ_REMOTING_PLAIN_H
#define ORBITMQ_REMOTING_PLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

static inline bool remoting_is_plain(uint8_t c) { return c >= 0x20 && c != '"' && c != '\\'; }

/* How many there are from `at` on. */
static inline size_t remoting_plain_run(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *const begin = at;
#ifdef __SSE2__
    for (; end - at >= 16; at += 16) {
        const __m128i wide = _mm_loadu_si128((const __m128i *)(const void *)at), low = _mm_set1_epi8(0x1F);
        const __m128i marks = _mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(wide, low), wide), /* at most 0x1F */
                                           _mm_or_si128(_mm_cmpeq_epi8(wide, _mm_set1_epi8('"')), _mm_cmpeq_epi8(wide, _mm_set1_epi8('\\'))));
        const uint32_t found = (uint32_t)_mm_movemask_epi8(marks);
        if (found)
            return (size_t)(at - begin) + (uint32_t)__builtin_ctz(found);
    }
#endif
    while (at < end && remoting_is_plain(*at))
        at++;
    return (size_t)(at - begin);
}

#endif

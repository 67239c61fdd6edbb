/* Runs of bytes that stand in a JSON text as they are: no quote, no backslash, nothing below a space. */
#ifndef ORBITMQ_REMOTING_PLAIN_H
#define ORBITMQ_REMOTING_PLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

static inline bool remoting_is_plain(uint8_t c) { return c >= 0x20 && c != '"' && c != '\\'; }

#ifdef __SSE2__
/* A bit for each of 16 bytes that is not plain. */
static inline uint32_t remoting_marks(__m128i wide)
{
    const __m128i controls = _mm_cmpeq_epi8(_mm_min_epu8(wide, _mm_set1_epi8(0x1F)), wide);
    const __m128i quotes = _mm_or_si128(_mm_cmpeq_epi8(wide, _mm_set1_epi8('"')), _mm_cmpeq_epi8(wide, _mm_set1_epi8('\\')));
    return (uint32_t)_mm_movemask_epi8(_mm_or_si128(controls, quotes));
}
#endif

/* How many there are from `at` on. */
static inline size_t remoting_plain_run(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *const begin = at;
#ifdef __SSE2__
    for (; end - at >= 16; at += 16) {
        const uint32_t found = remoting_marks(_mm_loadu_si128((const __m128i *)(const void *)at));
        if (found)
            return (size_t)(at - begin) + (uint32_t)__builtin_ctz(found);
    }
#endif
    while (at < end && remoting_is_plain(*at))
        at++;
    return (size_t)(at - begin);
}

/* The same, and moves them to `to`, which is at `at` or before it in the same memory. Bytes between where they end then and where they
 * ended before may change, too. */
static inline size_t remoting_plain_move(uint8_t *to, const uint8_t *at, const uint8_t *end)
{
    size_t moved = 0;
#ifdef __SSE2__
    /* So far apart, 16 bytes are written only over bytes that were read. */
    for (; at - to >= 16 && end - at - (ptrdiff_t)moved >= 16; moved += 16) {
        const __m128i wide = _mm_loadu_si128((const __m128i *)(const void *)(at + moved));
        const uint32_t found = remoting_marks(wide);
        _mm_storeu_si128((__m128i *)(void *)(to + moved), wide);
        if (found)
            return moved + (uint32_t)__builtin_ctz(found);
    }
#endif
    const size_t rest = remoting_plain_run(at + moved, end);
    memmove(to + moved, at + moved, rest);
    return moved + rest;
}

#endif

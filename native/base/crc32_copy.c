/* Copies, and computes the CRC of the copy in the same pass: the source is read from memory once, and the multiplications cost
 * nothing while the loads wait for it.
 *
 * Every byte is folded from the register from which its last store comes. So the CRC fits the copy even if somebody writes the
 * source meanwhile.
 */
#include "base/crc32_copy.h"
#include "base/crc32.h"
#include "base/crc32_fold.h"

#include <string.h>

#if defined(__x86_64__)

/* From 32 bytes on. */
CLMUL_PAIRS static uint32_t copy_by_folding_pairs(uint32_t reg, uint8_t *to, const uint8_t *from, size_t size)
{
    return fold_pairs(reg, to, from, size);
}

/* From 64 bytes on. The first store takes 64 bytes, of which all but the odd ones are stored again when the next load has read
 * them again. */
CLMUL_WIDE static uint32_t copy_by_wide_folding(uint32_t reg, uint8_t *to, const uint8_t *from, size_t size)
{
    size_t odd = (size - 1) % 64 + 1;
    __m512i word = _mm512_loadu_si512(from);
    _mm512_storeu_si512(to, word);
    if (odd < 4) {
        uint8_t bytes[64];
        _mm512_storeu_si512(bytes, word);
        reg = crc32_raw_by_tables(reg, bytes, odd);
        from += odd, to += odd, size -= odd;
        odd = 64;
        word = _mm512_loadu_si512(from);
        _mm512_storeu_si512(to, word);
    }
    const uint8_t *end = from + size;
    word = _mm512_xor_si512(word, _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)reg)));
    word = _mm512_maskz_permutexvar_epi8(~(__mmask64)0 << (64 - odd), _mm512_loadu_si512(crc32_fold.to_end + odd), word);
    const __m512i by_64 = everywhere(crc32_fold.over_512);
    for (from += odd, to += odd; from < end; from += 64, to += 64) {
        __m512i next = _mm512_loadu_si512(from);
        _mm512_storeu_si512(to, next);
        word = fold_wide(word, by_64, next);
    }
    return reduce_512(word);
}

#endif

uint32_t crc32_copy(uint32_t crc, void *to, const void *from, size_t size)
{
#if defined(__x86_64__)
    if (crc32_fold.wide && size >= 64)
        return ~copy_by_wide_folding(~crc, to, from, size);
    if (crc32_fold.pairs && size >= 32)
        return ~copy_by_folding_pairs(~crc, to, from, size);
#endif
    memcpy(to, from, size);
    return crc32_update(crc, to, size);
}

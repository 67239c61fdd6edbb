/* What the CRCs by carry-less multiplication share: crc32.c reads, crc32_copy.c copies meanwhile. crc32.c says how polynomials
 * are written here, and computes the factors.
 */
#ifndef ORBITMQ_CRC32_FOLD_H
#define ORBITMQ_CRC32_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The register over a few bytes, by tables. */
uint32_t crc32_raw_by_tables(uint32_t reg, const uint8_t *at, size_t size);

#if defined(__x86_64__)
#include <immintrin.h>
#define CLMUL __attribute__((target("pclmul,sse4.1")))
#define CLMUL_PAIRS __attribute__((target("pclmul,vpclmulqdq,avx2")))
#define CLMUL_WIDE __attribute__((target("pclmul,vpclmulqdq,avx512f,avx512bw,avx512vl,avx512vbmi")))

/* The factors of a 128-bit word that is moved over n bits: x^(n+63) for its first half, x^(n-1) for its second. */
struct fold {
    uint64_t first;
    uint64_t second;
};

/* Written at load, and by crc32_use. */
struct crc32_fold {
    bool carryless; /* the processor multiplies without carries, and we use it */
    bool pairs;     /* ... two pairs of words at once */
    bool wide;      /* ... four pairs at once */
    _Alignas(32) struct fold over_four_pairs[2];
    struct fold over_pairs[8][2]; /* a pair over so many pairs behind it, and over 32 bits more */
    struct fold over_128, over_512, over_2048;
    struct fold to_last[4]; /* from each quarter of 64 bytes onto the last one; the last one's own are zero */
    uint8_t to_end[128];    /* 64 bytes from r on are the shuffle that moves a word's first r bytes to its end */
    uint64_t x63, x95;
};
extern struct crc32_fold crc32_fold;

/* Move the bytes of a 128-bit word by a number known at run time: 16 bytes from move + 16 + r move it r bytes towards its
 * start, 16 bytes from move + r keep its first r bytes at its end. An index with its top bit set gives zero. */
static const uint8_t move[48] = {
    128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, //
    0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  12,  13,  14,  15,  //
    128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
};

CLMUL static inline __m128i fold(__m128i word, struct fold by)
{
    __m128i factors = _mm_set_epi64x((long long)by.second, (long long)by.first);
    return _mm_xor_si128(_mm_clmulepi64_si128(word, factors, 0x00), _mm_clmulepi64_si128(word, factors, 0x11));
}

CLMUL static inline __m128i times(uint64_t a, uint64_t b)
{
    return _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)a), _mm_cvtsi64_si128((long long)b), 0x00);
}

/* A polynomial of degree 63 at most, mod P: Barrett's quotient with floor(x^64 / P), then the remainder. */
CLMUL static inline uint32_t reduce_64(uint64_t value)
{
    uint64_t quotient = (uint32_t)_mm_cvtsi128_si64(times((uint32_t)value, 0x1F7011641));
    uint64_t multiple = (uint64_t)_mm_cvtsi128_si64(times(quotient, 0x1DB710641));
    return (uint32_t)((value ^ multiple) >> 32);
}

/* A polynomial of degree 95 at most (the first 32 bits of the word are zero), mod P. */
CLMUL static inline uint32_t reduce_96(__m128i value)
{
    __m128i folded = _mm_clmulepi64_si128(value, _mm_cvtsi64_si128((long long)crc32_fold.x63), 0x00);
    return reduce_64((uint64_t)_mm_extract_epi64(_mm_xor_si128(value, folded), 1));
}

/* A polynomial of degree 127 at most, times x^32, mod P. */
CLMUL static inline uint32_t reduce_128(__m128i value)
{
    __m128i moved = _mm_clmulepi64_si128(value, _mm_cvtsi64_si128((long long)crc32_fold.x95), 0x00);
    return reduce_96(_mm_xor_si128(moved, _mm_slli_si128(_mm_srli_si128(value, 8), 4)));
}

/* Both products of both words of a pair. */
CLMUL_PAIRS static inline __m256i fold_pair(__m256i pair, const struct fold *by)
{
    const __m256i factors = _mm256_load_si256((const __m256i *)by);
    return _mm256_xor_si256(_mm256_clmulepi64_epi128(pair, factors, 0x00), _mm256_clmulepi64_epi128(pair, factors, 0x11));
}

CLMUL_PAIRS static inline __m256i take_pair(uint8_t **to, const uint8_t **from)
{
    const __m256i pair = _mm256_loadu_si256((const __m256i *)*from);
    *from += 32;
    if (*to) {
        _mm256_storeu_si256((__m256i *)*to, pair);
        *to += 32;
    }
    return pair;
}

/* The next `odd` bytes, 1 to 16, at the end of a word of zeros, with as many of the register's; moves the others of its bytes on. */
CLMUL_PAIRS static inline __m128i take_odd(__m128i *reg, size_t odd, uint8_t **to, const uint8_t **from)
{
    const __m128i word = _mm_loadu_si128((const __m128i *)*from);
    *from += odd;
    if (*to) {
        _mm_storeu_si128((__m128i *)*to, word);
        *to += odd;
    }
    const __m128i sum = _mm_shuffle_epi8(_mm_xor_si128(word, *reg), _mm_loadu_si128((const __m128i *)(move + odd)));
    *reg = _mm_shuffle_epi8(*reg, _mm_loadu_si128((const __m128i *)(move + 16 + odd)));
    return sum;
}

/* Of 32 bytes or more, 32 at a time, the odd ones first, because zeros before the data do not change a register of zero. The pairs
 * of words are all folded onto the end of the data, so that none waits for the one before it; of more than eight, four side by
 * side are first folded onto the next four.
 *
 * Unless `to` is NULL, stores what it reads. Every byte is folded from the same register from which its last store comes, so the
 * result fits the copy even if somebody writes the source meanwhile. */
CLMUL_PAIRS static inline __attribute__((always_inline)) uint32_t fold_pairs(uint32_t reg, uint8_t *to, const uint8_t *from,
                                                                             size_t size)
{
    const uint8_t *const end = from + size;
    const size_t odd = (size - 1) % 32 + 1;
    __m128i rest = _mm_cvtsi32_si128((int)reg), first_word = _mm_setzero_si128();
    if (odd > 16)
        first_word = take_odd(&rest, odd - 16, &to, &from);
    const __m128i second_word = take_odd(&rest, odd > 16 ? 16 : odd, &to, &from);
    __m256i sum, first = _mm256_set_m128i(second_word, first_word);
    const struct fold(*by)[2] = crc32_fold.over_pairs + (size_t)(end - from) / 32;
    if (from == end) {
        sum = fold_pair(first, *by);
    } else {
        __m256i second = _mm256_xor_si256(take_pair(&to, &from), _mm256_zextsi128_si256(rest));
        if (end - from >= 7 * 32) {
            __m256i third = take_pair(&to, &from), fourth = take_pair(&to, &from);
            while (end - from >= 128) {
                first = _mm256_xor_si256(fold_pair(first, crc32_fold.over_four_pairs), take_pair(&to, &from));
                second = _mm256_xor_si256(fold_pair(second, crc32_fold.over_four_pairs), take_pair(&to, &from));
                third = _mm256_xor_si256(fold_pair(third, crc32_fold.over_four_pairs), take_pair(&to, &from));
                fourth = _mm256_xor_si256(fold_pair(fourth, crc32_fold.over_four_pairs), take_pair(&to, &from));
            }
            by = crc32_fold.over_pairs + (size_t)(end - from) / 32 + 1;
            sum = _mm256_xor_si256(_mm256_xor_si256(fold_pair(first, by[2]), fold_pair(second, by[1])),
                                   _mm256_xor_si256(fold_pair(third, by[0]), fold_pair(fourth, by[-1])));
            by--;
        } else {
            sum = _mm256_xor_si256(fold_pair(first, by[0]), fold_pair(second, by[-1]));
            by--;
        }
        while (from < end)
            sum = _mm256_xor_si256(sum, fold_pair(take_pair(&to, &from), *--by));
    }
    return reduce_96(_mm_xor_si128(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1)));
}

CLMUL_WIDE static inline __m512i fold_wide(__m512i word, __m512i by, __m512i next)
{
    __m512i first = _mm512_clmulepi64_epi128(word, by, 0x00), second = _mm512_clmulepi64_epi128(word, by, 0x11);
    return _mm512_ternarylogic_epi64(first, second, next, 0x96); /* xor of three */
}

CLMUL_WIDE static inline __m512i everywhere(struct fold by)
{
    return _mm512_broadcast_i32x4(_mm_set_epi64x((long long)by.second, (long long)by.first));
}

CLMUL_WIDE static inline uint32_t reduce_512(__m512i word)
{
    __m512i last = _mm512_maskz_mov_epi64(0xC0, word);
    word = fold_wide(word, _mm512_loadu_si512(crc32_fold.to_last), last);
    __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(word), _mm512_extracti64x4_epi64(word, 1));
    return reduce_128(_mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
}

#endif
#endif

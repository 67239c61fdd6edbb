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
    struct fold over_128, over_512, over_1024, over_2048;
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

/* The register over `word`, with what was before it folded in, and the bytes behind it. */
CLMUL static inline uint32_t fold_rest(__m128i word, const uint8_t *at, const uint8_t *end)
{
    for (; end - at >= 16; at += 16)
        word = _mm_xor_si128(fold(word, crc32_fold.over_128), _mm_loadu_si128((const __m128i *)at));
    if (at < end) {
        /* r bytes are left. The word's first r bytes are folded; its other bytes and the r new ones are the next word, whose
         * new bytes come from a load that ends where the data ends. */
        size_t r = (size_t)(end - at);
        __m128i down = _mm_loadu_si128((const __m128i *)(move + 16 + r));
        __m128i head = _mm_shuffle_epi8(word, _mm_loadu_si128((const __m128i *)(move + r)));
        __m128i last = _mm_loadu_si128((const __m128i *)(end - 16));
        __m128i next = _mm_blendv_epi8(_mm_shuffle_epi8(word, down), last, down);
        word = _mm_xor_si128(fold(head, crc32_fold.over_128), next);
    }
    return reduce_128(word);
}

/* Likewise of four words side by side, which hide the multiplier's latency. */
CLMUL static inline uint32_t fold_four(__m128i first, __m128i second, __m128i third, __m128i fourth, const uint8_t *at,
                                       const uint8_t *end)
{
    for (; end - at >= 64; at += 64) {
        first = _mm_xor_si128(fold(first, crc32_fold.over_512), _mm_loadu_si128((const __m128i *)at));
        second = _mm_xor_si128(fold(second, crc32_fold.over_512), _mm_loadu_si128((const __m128i *)(at + 16)));
        third = _mm_xor_si128(fold(third, crc32_fold.over_512), _mm_loadu_si128((const __m128i *)(at + 32)));
        fourth = _mm_xor_si128(fold(fourth, crc32_fold.over_512), _mm_loadu_si128((const __m128i *)(at + 48)));
    }
    second = _mm_xor_si128(fold(first, crc32_fold.over_128), second);
    third = _mm_xor_si128(fold(second, crc32_fold.over_128), third);
    return fold_rest(_mm_xor_si128(fold(third, crc32_fold.over_128), fourth), at, end);
}

CLMUL_PAIRS static inline __m256i fold_pair(__m256i pair, __m256i by, __m256i next)
{
    const __m256i first = _mm256_clmulepi64_epi128(pair, by, 0x00), second = _mm256_clmulepi64_epi128(pair, by, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(first, second), next);
}

/* Four pairs of words side by side, whose first two are folded onto the last two, and the bytes behind them. */
CLMUL_PAIRS static inline uint32_t fold_pairs_end(const __m256i pair[4], const uint8_t *at, const uint8_t *end)
{
    const struct fold over = crc32_fold.over_512;
    return fold_four(_mm_xor_si128(fold(_mm256_castsi256_si128(pair[0]), over), _mm256_castsi256_si128(pair[2])),
                     _mm_xor_si128(fold(_mm256_extracti128_si256(pair[0], 1), over), _mm256_extracti128_si256(pair[2], 1)),
                     _mm_xor_si128(fold(_mm256_castsi256_si128(pair[1]), over), _mm256_castsi256_si128(pair[3])),
                     _mm_xor_si128(fold(_mm256_extracti128_si256(pair[1], 1), over), _mm256_extracti128_si256(pair[3], 1)),
                     at, end);
}

CLMUL_PAIRS static inline __m256i load_pair(const uint8_t *at) { return _mm256_loadu_si256((const __m256i *)at); }

CLMUL_PAIRS static inline __m256i pair_everywhere(struct fold by)
{
    return _mm256_broadcastsi128_si256(_mm_set_epi64x((long long)by.second, (long long)by.first));
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

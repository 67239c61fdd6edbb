/* CRC-32 by carry-less multiplication where the processor has it (64 bytes at a time with AVX-512, 32 with AVX2,
 * else 16), by its CRC instruction on aarch64, by eight tables elsewhere; chosen once, at load.
 *
 * Polynomials are bit-reflected here: in an n-bit word, bit i is the coefficient of x^(n-1-i). The carry-less product of
 * two 64-bit words, read as a 128-bit word, is therefore the product of their polynomials times x; every power of x below
 * that serves as a factor is one smaller than the distance that it moves its operand, for that reason.
 *
 * All factors are computed at load (some 20 us) instead of standing here in hexadecimal: their exponents say where they
 * come from. They are written by the constructor and never again.
 */
#include "base/crc32.h"
#include "base/bytes.h"
#include "base/crc32_fold.h"

#include <assert.h>

#if defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

#define POLYNOMIAL 0xEDB88320u /* P without its x^32 */
#define ONE 0x80000000u        /* the polynomial 1 */

/* slices[k][b]: the register after the byte b and k zero bytes. */
static uint32_t slices[8][256];

/* powers[k][b]: x^(8 * b * 256^k) mod P. An operator costs one multiplication for each byte of its length beyond the first, so
 * lengths below 256 cost a load, and no cache of operators is needed. */
static uint32_t powers[8][256];

uint32_t crc32_raw_by_tables(uint32_t reg, const uint8_t *at, size_t size)
{
#if defined(__ARM_FEATURE_CRC32)
    for (; size >= 8; at += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        reg = __crc32d(reg, word);
    }
    for (; size; size--)
        reg = __crc32b(reg, *at++);
#else
    for (; size >= 8; at += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        word ^= reg;
        reg = slices[7][word & 255] ^ slices[6][word >> 8 & 255] ^ slices[5][word >> 16 & 255] ^ slices[4][word >> 24 & 255] ^
              slices[3][word >> 32 & 255] ^ slices[2][word >> 40 & 255] ^ slices[1][word >> 48 & 255] ^ slices[0][word >> 56];
    }
    for (; size; size--)
        reg = reg >> 8 ^ slices[0][(reg ^ *at++) & 255];
#endif
    return reg;
}

static uint32_t multiply_by_bits(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t bit = ONE; bit; bit >>= 1) {
        product ^= b & (0u - (uint32_t)((a & bit) != 0));
        b = b >> 1 ^ (POLYNOMIAL & (0u - (b & 1)));
    }
    return product;
}

/* x^-31 mod P. */
static uint32_t minus_31;

#if defined(__x86_64__)

struct crc32_fold crc32_fold;

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

CLMUL static uint32_t raw_by_folding(uint32_t reg, const uint8_t *at, size_t size)
{
    if (size < 16)
        return crc32_raw_by_tables(reg, at, size);
    const uint8_t *end = at + size;
    const __m128i word = _mm_xor_si128(_mm_loadu_si128((const __m128i *)at), _mm_cvtsi32_si128((int)reg));
    if (size < 64)
        return fold_rest(word, at + 16, end);
    return fold_four(word, _mm_loadu_si128((const __m128i *)(at + 16)), _mm_loadu_si128((const __m128i *)(at + 32)),
                     _mm_loadu_si128((const __m128i *)(at + 48)), at + 64, end);
}

/* From 32 bytes on. */
CLMUL_PAIRS static uint32_t raw_by_folding_pairs(uint32_t reg, const uint8_t *at, size_t size)
{
    return fold_pairs(reg, NULL, at, size);
}

/* Zeros before the data do not change a register of zero, so the odd bytes come first: a load that ends where they end, with
 * the bytes before the data masked out (those are not touched, even if there is no memory). The register is added to the first
 * four bytes: it is repeated all over the word, rotated so that it begins there, and masked. */
CLMUL_WIDE static uint32_t raw_by_wide_folding(uint32_t reg, const uint8_t *at, size_t size)
{
    const uint8_t *end = at + size;
    if (size % 64 < 4 && size % 64) {
        reg = crc32_raw_by_tables(reg, at, size % 64);
        at += size % 64;
    }
    size_t odd = (size_t)(end - at - 1) % 64 + 1; /* 4 to 64 */
    __mmask64 used = ~(__mmask64)0 << (64 - odd);
    __m512i word = _mm512_maskz_loadu_epi8(used, (const void *)((uintptr_t)at - (64 - odd)));
    uint32_t turned = reg << (-odd * 8 & 24) | (uint32_t)((uint64_t)reg >> (32 - (-odd * 8 & 24)));
    word = _mm512_xor_si512(word, _mm512_maskz_mov_epi8((__mmask64)15 << (64 - odd), _mm512_set1_epi32((int)turned)));
    at += odd;
    const __m512i by_64 = everywhere(crc32_fold.over_512);
    if (end - at >= 512) { /* four words side by side, so that long data do not wait for the multiplier */
        const __m512i by_256 = everywhere(crc32_fold.over_2048);
        __m512i second = _mm512_loadu_si512(at), third = _mm512_loadu_si512(at + 64), fourth = _mm512_loadu_si512(at + 128);
        for (at += 192; end - at >= 256; at += 256) {
            word = fold_wide(word, by_256, _mm512_loadu_si512(at));
            second = fold_wide(second, by_256, _mm512_loadu_si512(at + 64));
            third = fold_wide(third, by_256, _mm512_loadu_si512(at + 128));
            fourth = fold_wide(fourth, by_256, _mm512_loadu_si512(at + 192));
        }
        word = fold_wide(fold_wide(fold_wide(word, by_64, second), by_64, third), by_64, fourth);
    }
    for (; at < end; at += 64)
        word = fold_wide(word, by_64, _mm512_loadu_si512(at));
    return reduce_512(word);
}

CLMUL static uint32_t multiply_carryless(uint32_t a, uint32_t b)
{
    return reduce_64((uint64_t)_mm_cvtsi128_si64(times(a, b)) << 1);
}

CLMUL static uint32_t raw_words_carryless(const uint64_t *words, const uint32_t *factors, unsigned count)
{
    __m128i sum = _mm_setzero_si128();
    for (unsigned i = 0; i < count; i++)
        sum = _mm_xor_si128(sum, times(words[i], (uint64_t)factors[i] << 32));
    return reduce_96(sum);
}

#endif

uint32_t crc32_raw(uint32_t reg, const void *data, size_t size)
{
#if defined(__x86_64__)
    if (crc32_fold.wide && size >= 64)
        return raw_by_wide_folding(reg, data, size);
    if (crc32_fold.pairs && size >= 32)
        return raw_by_folding_pairs(reg, data, size);
    if (crc32_fold.carryless)
        return raw_by_folding(reg, data, size);
#endif
    return crc32_raw_by_tables(reg, data, size);
}

uint32_t crc32_update(uint32_t crc, const void *data, size_t size)
{
    return ~crc32_raw(~crc, data, size);
}

uint32_t crc32_multiply(uint32_t a, uint32_t b)
{
#if defined(__x86_64__)
    if (crc32_fold.carryless)
        return multiply_carryless(a, b);
#endif
    return multiply_by_bits(a, b);
}

uint32_t crc32_operator(uint64_t zero_bytes)
{
    uint32_t product = powers[0][zero_bytes & 255];
    for (unsigned k = 1; zero_bytes >>= 8; k++)
        product = crc32_multiply(product, powers[k][zero_bytes & 255]);
    return product;
}

uint32_t crc32_word_factor(uint64_t zero_bytes)
{
    return crc32_multiply(crc32_operator(zero_bytes), 1); /* 1 is x^31 */
}

uint32_t crc32_register_factor(uint64_t zero_bytes)
{
    assert(zero_bytes);
    return crc32_multiply(crc32_operator(zero_bytes - 1), ONE >> 7); /* x^7 */
}

uint32_t crc32_raw_words(const uint64_t *words, const uint32_t *factors, unsigned count)
{
#if defined(__x86_64__)
    if (crc32_fold.carryless)
        return raw_words_carryless(words, factors, count);
#endif
    uint32_t sum = 0; /* a register over 8 bytes holds them times x^32, so x^31 is in it twice now */
    for (unsigned i = 0; i < count; i++)
        sum ^= multiply_by_bits(factors[i], crc32_raw_by_tables(0, (const uint8_t *)&words[i], 8));
    return multiply_by_bits(sum, minus_31);
}

enum crc32_way crc32_use(enum crc32_way most)
{
#if defined(__x86_64__)
    struct crc32_fold *way = &crc32_fold;
    way->carryless = most >= CRC32_FOLD && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    way->pairs = way->carryless && most >= CRC32_FOLD_PAIRS && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2");
    way->wide = way->carryless && most >= CRC32_FOLD_WIDE && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f") &&
                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi");
    return way->wide ? CRC32_FOLD_WIDE : way->pairs ? CRC32_FOLD_PAIRS : way->carryless ? CRC32_FOLD : CRC32_TABLES;
#else
    (void)most;
    return CRC32_TABLES;
#endif
}

static uint32_t power_of_x(unsigned exponent)
{
    uint32_t product = ONE;
    while (exponent--)
        product = product >> 1 ^ (POLYNOMIAL & (0u - (product & 1)));
    return product;
}

#if defined(__x86_64__)
static struct fold fold_over(unsigned bits)
{
    return (struct fold){(uint64_t)power_of_x(bits + 63) << 32, (uint64_t)power_of_x(bits - 1) << 32};
}
#endif

__attribute__((constructor)) static void crc32_prepare(void)
{
    for (uint32_t byte = 0; byte < 256; byte++)
        slices[0][byte] = multiply_by_bits(byte, power_of_x(8));
    for (unsigned k = 1; k < 8; k++)
        for (uint32_t byte = 0; byte < 256; byte++)
            slices[k][byte] = slices[k - 1][byte] >> 8 ^ slices[0][slices[k - 1][byte] & 255];
#if defined(__x86_64__)
    crc32_fold.over_128 = fold_over(128);
    crc32_fold.over_512 = fold_over(512);
    crc32_fold.over_2048 = fold_over(2048);
    crc32_fold.over_four_pairs[0] = crc32_fold.over_four_pairs[1] = fold_over(1024);
    for (unsigned i = 0; i < 8; i++) {
        crc32_fold.over_pairs[i][0] = fold_over(256 * i + 128 + 32);
        crc32_fold.over_pairs[i][1] = fold_over(256 * i + 32);
    }
    for (unsigned i = 0; i < 128; i++)
        crc32_fold.to_end[i] = (uint8_t)i;
    for (unsigned quarter = 0; quarter < 3; quarter++)
        crc32_fold.to_last[quarter] = fold_over(128 * (3 - quarter));
    crc32_fold.x63 = (uint64_t)power_of_x(63) << 32;
    crc32_fold.x95 = (uint64_t)power_of_x(95) << 32;
#endif
    minus_31 = ONE;
    for (unsigned i = 0; i < 31; i++) /* divides by x: P's own lowest term tells whether P was added */
        minus_31 = minus_31 & 0x80000000u ? (minus_31 ^ POLYNOMIAL) << 1 | 1 : minus_31 << 1;
    crc32_use(CRC32_FOLD_WIDE);
    uint32_t step = power_of_x(8);
    for (unsigned k = 0; k < 8; k++) {
        powers[k][0] = ONE;
        for (unsigned b = 1; b < 256; b++)
            powers[k][b] = crc32_multiply(powers[k][b - 1], step);
        step = crc32_multiply(powers[k][255], step);
    }
}

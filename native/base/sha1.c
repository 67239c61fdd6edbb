#include "base/sha1.h"

#include "base/bytes.h"

#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

static inline uint32_t rotate(uint32_t value, unsigned bits) { return value << bits | value >> (32 - bits); }

/* One round: `mixed` is the round's function of b, c and d, plus its constant. */
#define ROUND(mixed)                                                                                                               \
    do {                                                                                                                           \
        const uint32_t next = rotate(a, 5) + (mixed) + e + word[i & 15];                                                           \
        e = d;                                                                                                                     \
        d = c;                                                                                                                     \
        c = rotate(b, 30);                                                                                                         \
        b = a;                                                                                                                     \
        a = next;                                                                                                                  \
    } while (0)
#define EXTEND() (word[i & 15] = rotate(word[(i + 13) & 15] ^ word[(i + 8) & 15] ^ word[(i + 2) & 15] ^ word[i & 15], 1))

static void add_by_words(uint32_t state[5], const uint8_t *data, size_t count)
{
    for (; count; count--, data += SHA1_BLOCK) {
        uint32_t word[16];
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
        unsigned i;
        for (i = 0; i < 16; i++) {
            word[i] = load_be32(data + 4 * i);
            ROUND((d ^ (b & (c ^ d))) + 0x5A827999u);
        }
        for (; i < 20; i++) {
            EXTEND();
            ROUND((d ^ (b & (c ^ d))) + 0x5A827999u);
        }
        for (; i < 40; i++) {
            EXTEND();
            ROUND((b ^ c ^ d) + 0x6ED9EBA1u);
        }
        for (; i < 60; i++) {
            EXTEND();
            ROUND(((b & c) | (d & (b | c))) + 0x8F1BBCDCu);
        }
        for (; i < 80; i++) {
            EXTEND();
            ROUND((b ^ c ^ d) + 0xCA62C1D6u);
        }
        state[0] += a;
        state[1] += b;
        state[2] += c;
        state[3] += d;
        state[4] += e;
    }
}

#if defined(__x86_64__)
static bool extensions; /* the processor has instructions for SHA-1, and we use them; written at load, and by sha1_use */

/* Four rounds. `e` is a, b, c and d as they were four rounds before, which an instruction makes e of. */
#define FOUR(group, function)                                                                                                      \
    do {                                                                                                                           \
        __m128i *const now = &word[(group) & 3];                                                                                   \
        if ((group) >= 4)                                                                                                          \
            *now = _mm_sha1msg2_epu32(_mm_xor_si128(_mm_sha1msg1_epu32(*now, word[((group) + 1) & 3]), word[((group) + 2) & 3]),    \
                                      word[((group) + 3) & 3]);                                                                    \
        const __m128i added = (group) ? _mm_sha1nexte_epu32(e, *now) : _mm_add_epi32(e, *now);                                     \
        e = abcd;                                                                                                                  \
        abcd = _mm_sha1rnds4_epu32(abcd, added, function);                                                                         \
    } while (0)
#define TWENTY(group, function)                                                                                                    \
    do {                                                                                                                           \
        FOUR(group, function);                                                                                                     \
        FOUR((group) + 1, function);                                                                                               \
        FOUR((group) + 2, function);                                                                                               \
        FOUR((group) + 3, function);                                                                                               \
        FOUR((group) + 4, function);                                                                                               \
    } while (0)

__attribute__((target("sha,sse4.1"))) static void add_by_extensions(uint32_t state[5], const uint8_t *data, size_t count)
{
    const __m128i swap = _mm_set_epi64x(0x0001020304050607, 0x08090A0B0C0D0E0F); /* big-endian, and the first word is the highest */
    __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)state), 0x1B);
    __m128i e = _mm_set_epi32((int)state[4], 0, 0, 0);
    for (; count; count--, data += SHA1_BLOCK) {
        const __m128i abcd_before = abcd, e_before = e;
        __m128i word[4];
        for (unsigned i = 0; i < 4; i++)
            word[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(data + 16 * i)), swap);
        TWENTY(0, 0);
        TWENTY(5, 1);
        TWENTY(10, 2);
        TWENTY(15, 3);
        e = _mm_sha1nexte_epu32(e, e_before);
        abcd = _mm_add_epi32(abcd, abcd_before);
    }
    _mm_storeu_si128((__m128i *)(void *)state, _mm_shuffle_epi32(abcd, 0x1B));
    state[4] = (uint32_t)_mm_extract_epi32(e, 3);
}
#endif

enum sha1_way sha1_use(enum sha1_way most)
{
#if defined(__x86_64__)
    uint32_t a, b = 0, c, d;
    /* CPUID leaf 7, bit 29 of EBX; compilers before GCC 14 do not know its name */
    extensions = most >= SHA1_EXTENSIONS && __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & 1u << 29 && __builtin_cpu_supports("sse4.1");
    return extensions ? SHA1_EXTENSIONS : SHA1_WORDS;
#else
    (void)most;
    return SHA1_WORDS;
#endif
}

__attribute__((constructor)) static void sha1_prepare(void) { sha1_use(SHA1_EXTENSIONS); }

static void add_blocks(uint32_t state[5], const uint8_t *data, size_t count)
{
#if defined(__x86_64__)
    if (extensions) {
        add_by_extensions(state, data, count);
        return;
    }
#endif
    add_by_words(state, data, count);
}

void sha1_begin(struct sha1 *sha1)
{
    *sha1 = (struct sha1){.state = {0x67452301u, 0xEFCDAB89u, 0x98BADCFEu, 0x10325476u, 0xC3D2E1F0u}};
}

void sha1_add(struct sha1 *sha1, const void *data, size_t size)
{
    const uint8_t *at = data;
    const size_t held = sha1->size % SHA1_BLOCK;
    if (!size)
        return;
    sha1->size += size;
    if (held) {
        const size_t some = size < SHA1_BLOCK - held ? size : SHA1_BLOCK - held;
        memcpy(sha1->rest + held, at, some);
        at += some;
        size -= some;
        if (held + some < SHA1_BLOCK)
            return;
        add_blocks(sha1->state, sha1->rest, 1);
    }
    add_blocks(sha1->state, at, size / SHA1_BLOCK);
    memcpy(sha1->rest, at + (size & ~(size_t)(SHA1_BLOCK - 1)), size % SHA1_BLOCK);
}

void sha1_end(struct sha1 *sha1, uint8_t digest[SHA1_SIZE])
{
    static const uint8_t padding[SHA1_BLOCK] = {0x80};
    const uint64_t bits = 8 * sha1->size;
    const size_t held = sha1->size % SHA1_BLOCK;
    uint8_t length[8];
    store_be32(length, (uint32_t)(bits >> 32));
    store_be32(length + 4, (uint32_t)bits);
    sha1_add(sha1, padding, (held < 56 ? 56 : 56 + SHA1_BLOCK) - held);
    sha1_add(sha1, length, sizeof length);
    for (unsigned i = 0; i < 5; i++)
        store_be32(digest + 4 * i, sha1->state[i]);
}

void hmac_key(struct hmac_key *made, const void *key, size_t size)
{
    uint8_t block[SHA1_BLOCK] = {0};
    if (size > SHA1_BLOCK) {
        sha1_begin(&made->inner);
        sha1_add(&made->inner, key, size);
        sha1_end(&made->inner, block);
    } else if (size) {
        memcpy(block, key, size);
    }
    for (unsigned i = 0; i < SHA1_BLOCK; i++)
        block[i] ^= 0x36;
    sha1_begin(&made->inner);
    sha1_add(&made->inner, block, SHA1_BLOCK);
    for (unsigned i = 0; i < SHA1_BLOCK; i++)
        block[i] ^= 0x36 ^ 0x5C;
    sha1_begin(&made->outer);
    sha1_add(&made->outer, block, SHA1_BLOCK);
}

void hmac_end(const struct hmac_key *key, struct sha1 *inner, uint8_t digest[SHA1_SIZE])
{
    struct sha1 outer = key->outer;
    sha1_end(inner, digest);
    sha1_add(&outer, digest, SHA1_SIZE);
    sha1_end(&outer, digest);
}

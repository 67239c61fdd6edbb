/* Big-endian loads and stores, for the formats on disk; rings and control blocks use native byte order instead. Also copies
 * that nobody else can change. */
#ifndef ORBITMQ_BYTES_H
#define ORBITMQ_BYTES_H

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "OrbitMQ supports little-endian machines (x86-64, aarch64)"
#endif

static inline uint16_t load_be16(const void *at) { uint16_t v; memcpy(&v, at, 2); return __builtin_bswap16(v); }
static inline uint32_t load_be32(const void *at) { uint32_t v; memcpy(&v, at, 4); return __builtin_bswap32(v); }
static inline uint64_t load_be64(const void *at) { uint64_t v; memcpy(&v, at, 8); return __builtin_bswap64(v); }
static inline void store_be16(void *at, uint16_t v) { v = __builtin_bswap16(v); memcpy(at, &v, 2); }
static inline void store_be32(void *at, uint32_t v) { v = __builtin_bswap32(v); memcpy(at, &v, 4); }
static inline void store_be64(void *at, uint64_t v) { v = __builtin_bswap64(v); memcpy(at, &v, 8); }

/* memcmp(a, b, size) == 0 for a short text, without a call: word by word; the last word overlaps the one before it. */
static inline int bytes_equal(const uint8_t *a, const uint8_t *b, uint32_t size)
{
    uint64_t x, y, differing = 0;
    if (size < 8) {
        uint32_t v, w;
        if (size < 4) {
            for (uint32_t i = 0; i < size; i++)
                differing |= (uint64_t)(a[i] ^ b[i]);
            return differing == 0;
        }
        memcpy(&v, a, 4);
        memcpy(&w, b, 4);
        differing = v ^ w;
        memcpy(&v, a + size - 4, 4);
        memcpy(&w, b + size - 4, 4);
        return (differing | (v ^ w)) == 0;
    }
    for (uint32_t i = 0; i < size - 8; i += 8) {
        memcpy(&x, a + i, 8);
        memcpy(&y, b + i, 8);
        differing |= x ^ y;
    }
    memcpy(&x, a + size - 8, 8);
    memcpy(&y, b + size - 8, 8);
    return (differing | (x ^ y)) == 0;
}

/* For a value just copied out of memory that another process writes: the compiler must not read it there again, and find
 * something else than was checked. */
#define OWN_COPY(value) __asm__ volatile("" : "+m"(value))

#endif

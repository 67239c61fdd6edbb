/* FNV-1a for short names, of 32 and of 64 bits. A caller that masks its low bits mixes it once more. Not meant against adversaries that
 * can measure time. */
#ifndef ORBITMQ_HASH_H
#define ORBITMQ_HASH_H

#include <stdint.h>

#define HASH_BEGIN 2166136261u
#define HASH_BEGIN_64 UINT64_C(0xcbf29ce484222325)

static inline uint32_t hash_bytes(uint32_t hash, const uint8_t *bytes, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    return hash;
}

/* For keys that stand for the name itself. */
static inline uint64_t hash_bytes_64(uint64_t hash, const uint8_t *bytes, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif

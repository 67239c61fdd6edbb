/* FNV-1a, 32 bits, for short names. A caller that masks its low bits mixes it once more. Not meant against adversaries that can
 * measure time. */
#ifndef ORBITMQ_HASH_H
#define ORBITMQ_HASH_H

#include <stdint.h>

#define HASH_BEGIN 2166136261u

static inline uint32_t hash_bytes(uint32_t hash, const uint8_t *bytes, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    return hash;
}

#endif

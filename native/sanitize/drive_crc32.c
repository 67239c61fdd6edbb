/* CRCs by every implementation that this processor has, compared with one bit at a time; at every alignment, chained, copied
 * and combined. */
#include "base/crc32.h"
#include "base/crc32_copy.h"
#include "drive.h"

#include <string.h>

#define SIZE_MAX_TRIED 700u
#define ALIGNMENTS 16u

static uint32_t bitwise(const uint8_t *data, size_t size)
{
    uint32_t reg = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        reg ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            reg = reg >> 1 ^ (reg & 1 ? 0xEDB88320u : 0);
    }
    return ~reg;
}

int main(void)
{
    uint8_t *data = drive_memory(SIZE_MAX_TRIED + ALIGNMENTS), *copy = drive_memory(SIZE_MAX_TRIED);
    for (uint32_t i = 0; i < SIZE_MAX_TRIED + ALIGNMENTS; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    CHECK(bitwise((const uint8_t *)"123456789", 9) == 0xCBF43926u);
    for (int way = CRC32_TABLES; way <= CRC32_FOLD_WIDE; way++) {
        crc32_use((enum crc32_way)way);
        for (uint32_t size = 0; size <= SIZE_MAX_TRIED; size += size < 80 ? 1 : 37) {
            const uint8_t *from = data + size % ALIGNMENTS;
            const uint32_t right = bitwise(from, size);
            CHECK(crc32_update(0, from, size) == right);
            const uint32_t half = size / 3;
            CHECK(crc32_update(crc32_update(0, from, half), from + half, size - half) == right);
            CHECK(crc32_combine(crc32_update(0, from, half), crc32_update(0, from + half, size - half), crc32_operator(size - half)) ==
                  right);
            CHECK(crc32_copy(0, copy, from, size) == right && memcmp(copy, from, size) == 0);
        }
    }
    free(data);
    free(copy);
    return 0;
}

/* A copy and its CRC in one pass over memory. */
#ifndef ORBITMQ_CRC32_COPY_H
#define ORBITMQ_CRC32_COPY_H

#include <stddef.h>
#include <stdint.h>

/* memcpy and the CRC of the copy, in the convention of crc32_update; correct even while another process writes the source. */
uint32_t crc32_copy(uint32_t crc, void *to, const void *from, size_t size);

#endif

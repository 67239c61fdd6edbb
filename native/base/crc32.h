/* CRC-32 (ISO-HDLC: reflected polynomial 0xEDB88320, as zlib and java.util.zip.CRC32), and the arithmetic that lets a
 * writer change a few bytes of a record without reading the rest again.
 *
 * A CRC is linear over xor. For two records of equal length, crc(a ^ b) == crc(a) ^ crc(b) ^ crc(zeros). The handler
 * computes the CRC of a record whose three holes are zero; the writer adds what the holes contribute: the register over
 * the hole bytes alone (crc32_raw from 0), moved over the bytes behind them (crc32_multiply by x^(8n)).
 *
 * Carry-less multiplication is used where the processor has it (chosen once, at load), tables elsewhere.
 */
#ifndef ORBITMQ_CRC32_H
#define ORBITMQ_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* zlib's convention: crc32_update(0, data, n) is the CRC of data, and calls can be chained. */
uint32_t crc32_update(uint32_t crc, const void *data, size_t size);

/* The bare register: no inversion before or after. */
uint32_t crc32_raw(uint32_t reg, const void *data, size_t size);

/* The operator x^(8 * zero_bytes) mod P. Costs a load below 256, and a multiplication for each further byte of the number. */
uint32_t crc32_operator(uint64_t zero_bytes);

/* a * b mod P; crc32_multiply(crc32_operator(n), reg) moves a register over n zero bytes. */
uint32_t crc32_multiply(uint32_t a, uint32_t b);

/* The register over several separate words of memory, with zeros between and after them. A word's factor is
 * crc32_word_factor(bytes between its end and the place for which the register is wanted). */
uint32_t crc32_raw_words(const uint64_t *words, const uint32_t *factors, unsigned count);
uint32_t crc32_word_factor(uint64_t zero_bytes);

/* The factor of a register that is moved over zero_bytes, 1 or more, and stands in the upper half of a word. */
uint32_t crc32_register_factor(uint64_t zero_bytes);

/* CRC of the concatenation of two buffers from their CRCs and crc32_operator(size of the second). */
static inline uint32_t crc32_combine(uint32_t first, uint32_t second, uint32_t second_operator)
{
    return crc32_multiply(second_operator, first) ^ second;
}

/* Implementations, slow to fast. Tests choose one; returns the one that the processor supports. Not for use beside other
 * threads. */
enum crc32_way { CRC32_TABLES = 0, CRC32_FOLD = 1, CRC32_FOLD_PAIRS = 2, CRC32_FOLD_WIDE = 3 };
enum crc32_way crc32_use(enum crc32_way most);

#endif

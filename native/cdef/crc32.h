uint32_t crc32_update(uint32_t crc, const void *data, size_t size);
uint32_t crc32_copy(uint32_t crc, void *to, const void *from, size_t size);
uint32_t crc32_raw(uint32_t reg, const void *data, size_t size);
uint32_t crc32_operator(uint64_t zero_bytes);
uint32_t crc32_multiply(uint32_t a, uint32_t b);
enum crc32_way { CRC32_TABLES = 0, CRC32_FOLD = 1, CRC32_FOLD_PAIRS = 2, CRC32_FOLD_WIDE = 3 };
enum crc32_way crc32_use(enum crc32_way most);
uint32_t crc32_raw_words(const uint64_t *words, const uint32_t *factors, unsigned count);
uint32_t crc32_word_factor(uint64_t zero_bytes);

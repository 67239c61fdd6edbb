#define OFFSET_BITS ...
uint64_t commit_words_size(uint32_t capacity);
int commit_words_make(int descriptor, uint32_t capacity);
int commit_words_close(int descriptor);
int commit_words_read(int descriptor, uint32_t capacity, uint64_t *words, uint32_t count);

struct index_header {
    uint64_t begin_ms, end_ms, begin_offset, end_offset;
    uint32_t slots_used;
    uint32_t next_entry;
};
struct index_file {
    uint8_t *data;
    uint32_t slots, entries;
    uint64_t reserved;
    int descriptor;
    struct index_header header;
};
uint32_t index_key_hash(int32_t prefix_hash, const uint8_t *key, uint32_t size);
int index_file_open(struct index_file *file, const char *path, uint32_t slots, uint32_t entries, bool writable, bool create);
void index_file_close(struct index_file *file);
int index_file_reserve(struct index_file *file, uint32_t count);
int index_file_put(struct index_file *file, uint32_t hash, uint64_t physical_offset, uint64_t store_ms);
void index_file_publish(struct index_file *file);
int index_file_roll_back(struct index_file *file, const struct index_header *to);
uint32_t index_file_find(const struct index_file *file, uint32_t hash, uint64_t from_ms, uint64_t to_ms, uint64_t *offsets,
                         uint32_t most);

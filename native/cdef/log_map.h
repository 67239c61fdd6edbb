struct log_file {
    uint8_t *data;
    uint64_t start;
    uint64_t used_at;
    uint32_t pins;
};
struct log_map {
    uint64_t file_size;
    bool writable;
    uint64_t tick;
    ...;
};
void log_map_open(struct log_map *map, const char *store, uint64_t file_size, bool writable);
void log_map_close(struct log_map *map);
uint8_t *log_map_at(struct log_map *map, uint64_t physical_offset);
struct log_file *log_map_pin(struct log_map *map, uint64_t physical_offset);
void log_map_unpin(struct log_map *map, struct log_file *file);
void log_map_forget(struct log_map *map, uint64_t min_offset);

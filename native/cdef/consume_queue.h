struct queue_unit {
    uint64_t physical_offset;
    uint32_t size;
    int64_t tags_code;
};
struct consume_queue_writer {
    uint8_t *data;
    uint64_t first;
    uint64_t reserved;
};
struct consume_queue_reader {
    const uint8_t *data;
    uint64_t first;
};
void consume_queue_folder(char *path, const char *store, const uint8_t *topic, uint32_t topic_size, uint32_t queue_id);
int consume_queue_put(struct consume_queue_writer *writer, const char *folder, uint32_t file_units, uint64_t queue_offset,
                      const struct queue_unit *unit);
void consume_queue_writer_close(struct consume_queue_writer *writer, uint32_t file_units);
const uint8_t *consume_queue_at(struct consume_queue_reader *reader, const char *folder, uint32_t file_units,
                                uint64_t queue_offset, uint64_t *units);
void consume_queue_reader_close(struct consume_queue_reader *reader, uint32_t file_units);
uint32_t consume_queue_good(const uint8_t *data, uint32_t units, uint64_t floor, uint64_t limit, uint64_t *end);
uint32_t consume_queue_first(const uint8_t *data, uint32_t units, uint64_t min_offset);

struct scan_state {
    uint64_t offset;
    uint64_t fault_at;
    uint64_t last_ms;
    uint64_t last_offset;
    uint64_t first_ms;
    uint64_t rising_from;
    uint64_t records;
    uint32_t first_sealed;
    uint32_t blanks;
    uint32_t fault;
    uint32_t error;
    uint32_t queue_count;
    uint32_t headless;
};
struct scan_queue {
    uint64_t next_offset;
    struct queue_name name;
};
enum scan_result { SCAN_MORE = 0, SCAN_END = 1, SCAN_FAILED = 2 };
struct scan;
struct scan *scan_open(const char *store, uint64_t file_size, uint64_t from, bool parts);
void scan_close(struct scan *scan);
enum scan_result scan_step(struct scan *scan, uint64_t limit_bytes);
void scan_look(const struct scan *scan, struct scan_state *state);
uint32_t scan_queues(const struct scan *scan, uint32_t first, uint32_t most, struct scan_queue *queues);

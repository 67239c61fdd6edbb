enum finding_kind {
    FINDING_NONE = 0,
    FINDING_RECORD,
    FINDING_UNREADABLE,
    FINDING_UNIT_MISSING,
    FINDING_UNIT_WRONG,
    FINDING_UNIT_EXTRA,
    FINDING_QUEUE_OFFSET,
    FINDING_QUEUE_GAP,
    FINDING_LOST,
    FINDING_KEY_MISSING,
    FINDING_ENTRY_WRONG,
    FINDING_ENTRY_TIME,
    FINDING_ENTRY_CHAIN,
    FINDING_SLOT,
    FINDING_INDEX_HEADER,
    FINDING_INDEX_REST,
    FINDING_INDEX_UNREADABLE,
};
enum index_field { INDEX_BEGIN_MS = 1, INDEX_END_MS, INDEX_BEGIN_OFFSET, INDEX_END_OFFSET, INDEX_SLOTS_USED, INDEX_NEXT_ENTRY };
enum unit_part { UNIT_PLACE = 1, UNIT_SIZE, UNIT_TAGS, UNIT_BEFORE };
struct finding {
    uint32_t kind;
    uint32_t detail;
    uint32_t queue;
    uint64_t offset, size;
    uint64_t first, count;
    uint64_t expected, found;
};
struct verify;
struct verify_plan {
    char store[4096];
    uint64_t log_file_size;
    uint64_t begin;
    uint64_t end;
    uint64_t indexed;
    bool settled;
    uint64_t floor;
    uint32_t queue_file_units;
    uint32_t queues;
    uint32_t index_slots, index_entries;
    uint32_t index_count;
    const uint64_t *index_names;
    bool has_header;
    struct index_header header;
};
struct verify_state {
    uint64_t offset;
    uint64_t good_end;
    uint64_t records, blanks;
    uint64_t log_bytes, queue_bytes, index_bytes;
    uint64_t last_ms;
    uint64_t rising_from;
    uint32_t queue_count;
};
struct verify_queue {
    struct queue_name name;
    bool seen;
    uint64_t first, next;
};
enum verify_result { VERIFY_MORE = 0, VERIFY_END = 1, VERIFY_FAILED = 2 };
struct verify *verify_open(const struct verify_plan *plan);
void verify_close(struct verify *verify);
enum verify_result verify_step(struct verify *verify, uint64_t limit_bytes);
enum verify_result verify_units(struct verify *verify, const uint8_t *topic, uint32_t topic_size, uint32_t queue_id,
                                uint64_t first, uint32_t count);
enum verify_result verify_rest(struct verify *verify);
void verify_look(const struct verify *verify, struct verify_state *state);
bool verify_see_queue(const struct verify *verify, uint32_t number, struct verify_queue *queue);
uint32_t verify_findings(struct verify *verify, struct finding *to, uint32_t most);

enum finding_kind {
    FINDING_RECORD = 1,
    FINDING_UNREADABLE,
};
struct finding {
    uint32_t kind;
    uint32_t detail;
    uint64_t offset, size;
};
struct verify_state {
    uint64_t offset;
    uint64_t good_end;
    uint64_t records, blanks;
    uint64_t log_bytes;
    uint64_t last_ms;
};
enum verify_result { VERIFY_MORE = 0, VERIFY_END = 1, VERIFY_FAILED = 2 };
struct verify;
struct verify *verify_open(const char *store, uint64_t file_size, uint64_t begin, uint64_t end);
void verify_close(struct verify *verify);
enum verify_result verify_step(struct verify *verify, uint64_t limit_bytes);
void verify_look(const struct verify *verify, struct verify_state *state);
uint32_t verify_findings(struct verify *verify, struct finding *to, uint32_t most);

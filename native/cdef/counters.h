enum actor_state {
    ACTOR_ABSENT, ACTOR_STARTING, ACTOR_RECOVERING, ACTOR_RUNNING, ACTOR_STOPPING, ACTOR_STOPPED, ACTOR_FAILED, ...
};
enum counter {
    COUNT_STEPS, COUNT_SLEEPS, COUNT_MESSAGES, COUNT_BYTES, COUNT_REJECTED, COUNT_WAKES, COUNT_FULL, COUNT_SYNCS,
    COUNT_INDEXED, COUNT_BLANKS, COUNT_DIRTY, COUNT_SESSIONS, COUNT_FAULTS, COUNT_REDELIVERED,
    COUNT_DUPLICATES, COUNT_IDS, COUNT_PASSED, ...
};
#define COUNTERS ...
#define HISTOGRAM_BUCKETS ...
#define REFUSALS ...
struct actor_view {
    char name[24];
    uint32_t pid, epoch, state, error;
    uint64_t heartbeat_ms;
    uint64_t counter[...];
};
uint32_t histogram_index(uint64_t value);
uint64_t histogram_lowest(uint32_t index);
void actor_page_view(const struct actor_page *page, struct actor_view *view);
uint64_t actor_page_quantile(const struct actor_page *page, double q);
uint64_t actor_page_samples(const struct actor_page *page);
void actor_page_buckets(const struct actor_page *page, uint64_t *counts);
void actor_page_refused(const struct actor_page *page, uint64_t *counts);
void actor_page_add(struct actor_page *page, enum counter which, uint64_t n);
void actor_page_record(struct actor_page *page, uint64_t value);
uint64_t actor_page_size(void);

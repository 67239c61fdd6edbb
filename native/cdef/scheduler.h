#define DELAY_LEVELS ...
#define DELAY_WINDOW ...
#define CANCEL_NOTES ...
struct delay_seen {
    uint64_t next[18], timer[4], end;
};
struct scheduler;
struct scheduler *scheduler_open(struct attachment *attachment);
void scheduler_close(struct scheduler *scheduler);
bool scheduler_knows(const struct scheduler *scheduler);
void scheduler_begin(struct scheduler *scheduler, const uint64_t next[18], const uint64_t timer[4], uint64_t from);
void scheduler_kept(struct scheduler *scheduler);
void scheduler_not_kept(struct scheduler *scheduler);
uint32_t scheduler_step(struct scheduler *scheduler);
int scheduler_run(struct scheduler *scheduler, uint32_t limit_ms);
void scheduler_set_clocks(struct scheduler *scheduler, int64_t real_ms, int64_t monotonic_ms);
void scheduler_set_room(struct scheduler *scheduler, uint32_t room);
void scheduler_set_most(struct scheduler *scheduler, uint32_t most);
bool scheduler_drain(struct scheduler *scheduler, uint32_t limit_ms);
bool scheduler_seen(const struct control *control, const struct lane *lane, struct delay_seen *seen);
uint64_t delay_level_ms(uint32_t level);
uint32_t delay_first_waiting(const uint8_t *units, uint32_t count, uint64_t first, const uint64_t timer[4]);
uint32_t delay_count_waiting(const uint8_t *units, uint32_t count, uint64_t first, const uint64_t timer[4]);

#define SESSION_WINDOW_MAX ...
#define SESSION_QUEUES_MAX ...
#define SQ_CAPACITY_MAX ...
struct session_shape {
    uint32_t slot, epoch, window, queue_capacity;
    uint64_t sq_capacity;
    uint32_t message_max, pid, work_capacity, zero;
};
enum { READ_ONLY_TOLD = 1, READ_ONLY_DAMAGED = 2 };
struct settings {
    uint64_t log_file_size, lane_capacity;
    uint32_t queue_file_units, index_slots, index_entries, lanes, message_max, flush_interval_ms, flush_every_message;
    uint32_t go_on_unsynced, read_only, untouched, own_lanes, together, spin_us;
    struct record_host store_host;
    uint32_t supervisor_pid, retention_hours;
    uint64_t retention_bytes;
    uint32_t dedup_window_ms, dedup_ids;
    char store[3960];
};
struct positions_seen {
    uint64_t wrote, flushed, confirmed, reput, allocated, min_offset, wrote_ms, reput_ms;
    uint32_t wrote_error, flushed_error, reput_error, allocated_error, queues_error;
};
#define SESSIONS_MAX ...
#define QUEUES_MAX ...
#define LANES_MAX ...
#define HANDLERS_MAX ...
#define GROUPS_MAX ...
#define ACTORS_MAX ...
#define GATEWAYS_MAX ...
enum own_lane { OWN_LANE_SCHEDULER, OWN_LANE_DISPATCHER, OWN_LANES, ... };
enum tree_state { TREE_STARTING, TREE_RUNNING, TREE_STOPPING, TREE_STOPPED, ... };
enum session_state { SESSION_FREE, SESSION_READY, SESSION_CLOSING, SESSION_DRAINED, SESSION_FAULTY, SESSION_LOST, ... };
enum actor_index {
    ACTOR_SUPERVISOR, ACTOR_REPUT, ACTOR_WRITER, ACTOR_FLUSH, ACTOR_NOTIFIER, ACTOR_COORDINATOR, ACTOR_ALLOCATOR,
    ACTOR_SCHEDULER, ACTOR_DISPATCHER, ACTOR_GATEWAY, ACTOR_HANDLER, ...
};
struct control { ...; };
struct wake { ...; };
struct lane { ...; };
struct actor_page;

uint64_t lane_size_of(uint64_t capacity);
void lane_init(struct lane *lane, uint64_t capacity, uint64_t generation);
void control_init(struct control *control, const struct settings *settings, uint64_t generation);
void wake_init(struct wake *wake, uint64_t generation);

bool control_await_reput(const struct control *control, struct wake *wake, uint64_t end, uint64_t limit_ns);
bool control_await_flushed(const struct control *control, struct wake *wake, uint64_t end, uint64_t limit_ns);
void control_positions(const struct control *control, struct positions_seen *seen);
enum cancel_outcome { CANCEL_OPEN, CANCEL_NEVER, CANCEL_LATE, CANCEL_REFUSED, CANCEL_FORGOTTEN, ... };
int delay_cancel_outcome(const struct control *control, uint64_t offset);
struct settings *control_settings(struct control *control);
struct actor_page *control_actor(struct control *control, uint32_t index);
uint32_t control_tree_state(const struct control *control);
void control_set_tree_state(struct control *control, uint32_t state);
void control_recovered(struct control *control, uint64_t log_min, uint64_t log_end, uint64_t reput, uint64_t flushed,
                       uint64_t allocated, uint64_t store_ms);
void control_set_rising(struct control *control, uint64_t from);
uint64_t control_rising(const struct control *control);
void control_set_allocated(struct control *control, uint64_t end, uint32_t error);
void control_raise_min_offset(struct control *control, uint64_t log_min);

void session_claim_entry(struct control *control, uint32_t slot, uint32_t epoch);
void session_open_entry(struct control *control, int32_t descriptor, uint64_t inode, const struct session_shape *shape);
void session_set_state(struct control *control, uint32_t slot, uint32_t state);
bool session_move_state(struct control *control, uint32_t slot, uint32_t from, uint32_t to);
uint32_t session_get_state(const struct control *control, uint32_t slot);
void session_get_entry(const struct control *control, uint32_t slot, struct session_shape *shape, int32_t *descriptor,
                       uint64_t *completed);
uint64_t session_size(const struct session_shape *shape);
void session_init(void *memory, const struct session_shape *shape, uint64_t generation);

void control_set_queues_error(struct control *control, uint32_t error);
uint32_t control_queues_error(const struct control *control);
void control_set_clock_ahead(struct control *control, uint64_t ms);
uint64_t control_clock_ahead(const struct control *control);
void control_believe_clock(struct control *control, uint64_t now_ms);
uint64_t control_clock_believed(const struct control *control);
void control_raise_work(struct control *control, struct wake *wake);
void control_ring_dispatcher(struct wake *wake);
uint32_t control_work_version(const struct control *control);
uint64_t group_epoch(const struct control *control, uint32_t group);
uint64_t group_raise_epoch(struct control *control, uint32_t group);
enum half_state { HALF_OPEN, HALF_COMMITTED, HALF_ROLLED_BACK, HALF_SETTLED, ... };
int control_half_state(const struct control *control, uint64_t offset);
uint64_t control_next_open_half(const struct control *control, uint64_t from, uint64_t end);
uint64_t control_count_open_halves(const struct control *control, uint64_t from, uint64_t end);
uint64_t control_halves_known(const struct control *control);
uint64_t control_halves_floor(const struct control *control);
bool control_halves_ready(const struct control *control);
#define COMMIT_KEYS_MAX ...
uint64_t control_commit_of(const struct control *control, const uint8_t *group, uint32_t group_size, const uint8_t *topic, uint32_t topic_size,
                           uint32_t queue);
bool control_commits_ready(const struct control *control);
uint64_t control_commits_next(const struct control *control);
uint64_t control_commits_count(const struct control *control);
uint32_t control_commits_copy(const struct control *control, uint64_t *entries, uint32_t room);
void session_join_group(struct control *control, uint32_t slot, const uint8_t *group, uint32_t group_size);

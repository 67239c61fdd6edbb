struct dispatcher;
#define WORK_FILE_SIZE ...
#define WORK_WINDOW ...
#define WORK_MAGIC ...
#define WORK_RING_MIN ...
#define WORK_RING_MAX ...
#define WORK_WAIT_MS_MAX ...
struct work_file {
    uint64_t magic, opening, generation;
    uint8_t boot[16];
    uint64_t told;
    ...;
};
void work_file_set(struct work_file *file, uint64_t floor, uint64_t frontier);
uint64_t work_file_floor(const struct work_file *file);
uint64_t work_file_frontier(const struct work_file *file);
uint64_t work_file_reached(const void *bytes);
bool work_file_unsettled(const void *bytes);
struct dispatcher *dispatcher_open(struct attachment *attachment);
void dispatcher_close(struct dispatcher *dispatcher);
#define DISPATCHER_KNOWN_MAX ...
void dispatcher_know(struct dispatcher *dispatcher, uint32_t most);
#define WORK_TRIES_MAX ...
#define WORK_PARTINGS_SIZE ...
int dispatcher_partings(struct dispatcher *dispatcher, const char *path);
bool dispatcher_load(struct dispatcher *dispatcher);
void dispatcher_missing(struct dispatcher *dispatcher, char *name);
void dispatcher_boot(struct dispatcher *dispatcher, const uint8_t *boot);
void dispatcher_begin(struct dispatcher *dispatcher, uint32_t version);
enum work_order { WORK_ORDER_NONE, WORK_ORDER_KEY, WORK_ORDER_QUEUE, ... };
#define WORK_RUN_MAX ...
int32_t dispatcher_group(struct dispatcher *dispatcher, uint64_t opening, const char *name, bool paused, uint32_t max_tries,
                         enum work_order order);
int dispatcher_queue(struct dispatcher *dispatcher, int32_t group, uint32_t slot, uint32_t topic, const char *path, uint64_t opening,
                     uint64_t offset);
int dispatcher_worker(struct dispatcher *dispatcher, int32_t group, uint32_t slot, uint32_t epoch, uint64_t topics, uint32_t most,
                      uint64_t visibility_ms);
int dispatcher_filter(struct dispatcher *dispatcher, int32_t group, uint64_t name, uint64_t topics, const struct slice *tags, uint32_t count,
                      struct slice sql);
void dispatcher_settle(struct dispatcher *dispatcher);
uint32_t dispatcher_step(struct dispatcher *dispatcher);
int dispatcher_run(struct dispatcher *dispatcher, uint32_t limit_ms);

struct handler;
struct handler *handler_open(struct attachment *attachment, uint32_t lane);
void handler_close(struct handler *handler);
uint32_t handler_step(struct handler *handler);
int handler_run(struct handler *handler, uint32_t limit_ms);

struct writer;
struct writer *writer_open(struct attachment *attachment);
void writer_close(struct writer *writer);
uint64_t writer_left_over(struct writer *writer);
int writer_take_over(struct writer *writer, uint32_t limit_ms);
void writer_halves_begin(struct writer *writer, uint64_t floor, uint64_t next);
bool writer_read_ops(struct writer *writer, const uint8_t *units, uint32_t count);
void writer_halves_ready(struct writer *writer);
void writer_commits_begin(struct writer *writer, uint64_t next, const uint64_t *entries, uint32_t count);
bool writer_read_commits(struct writer *writer, const uint8_t *units, uint32_t count);
void writer_commits_ready(struct writer *writer);
uint32_t writer_step(struct writer *writer);
int writer_run(struct writer *writer, uint32_t limit_ms);

struct flush;
struct flush *flush_open(struct attachment *attachment);
void flush_close(struct flush *flush);
uint64_t flush_step(struct flush *flush);
int flush_run(struct flush *flush, uint32_t limit_ms);

struct notifier;
struct notifier *notifier_open(struct attachment *attachment);
void notifier_close(struct notifier *notifier);
uint32_t notifier_step(struct notifier *notifier);
int notifier_run(struct notifier *notifier, uint32_t limit_ms);

struct allocator;
struct allocator *allocator_open(struct attachment *attachment);
void allocator_close(struct allocator *allocator);
uint64_t allocator_step(struct allocator *allocator);
int allocator_run(struct allocator *allocator, uint32_t limit_ms);

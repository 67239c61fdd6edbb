enum segment_kind { SEGMENT_CONTROL, SEGMENT_TOPICS, SEGMENT_LANE, SEGMENT_WAKE, SEGMENT_SESSION, ... };
enum segment_fault { SEGMENT_GOOD, SEGMENT_BAD_MAGIC, SEGMENT_BAD_LAYOUT, SEGMENT_BAD_KIND, SEGMENT_BAD_SIZE, ... };
#define SEGMENT_MAGIC ...
#define SEGMENT_LINE ...
#define SEGMENT_LAYOUT ...
struct segment_owner {
    uint32_t pid, namespace;
    uint64_t start_ticks, device, inode;
};
struct segment_header {
    uint64_t magic;
    uint32_t layout, kind;
    uint64_t size, generation;
    struct segment_owner owner;
};
void segment_sign(void *memory, const struct segment_owner *owner);
void segment_init(void *memory, enum segment_kind kind, uint64_t size, uint64_t generation);
enum segment_fault segment_check(const void *memory, enum segment_kind kind, uint64_t size);

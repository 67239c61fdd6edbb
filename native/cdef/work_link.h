struct work_record {
    uint64_t first;
    uint32_t queue, count;
    uint16_t kind, tries;
    uint32_t opening;
    uint64_t time_ms;
};
enum work_kind { WORK_HAND_OUT, WORK_REFUSED, WORK_ACK, WORK_NACK, WORK_EXTEND, WORK_GIVE_BACK, WORK_TEXT, ... };
#define WORK_BACK_OFF ...
#define WORK_TEXT_PIECE ...
#define WORK_TEXT_MAX ...
enum work_link_result { WORK_LINK_NEWS, WORK_LINK_TIMEOUT, WORK_LINK_SIGNAL, WORK_LINK_GONE, ... };
struct work_link {
    uint64_t answered;
    ...;
};
struct work_link *work_link_open(uintptr_t session, uintptr_t control, uintptr_t wake, int supervisor, const struct session_shape *shape);
void work_link_close(struct work_link *link);
uint32_t work_link_take(struct work_link *link, struct work_record *records, uint32_t most);
bool work_link_answer(struct work_link *link, uint32_t kind, uint32_t queue, uint32_t opening, uint64_t first, uint32_t count, uint32_t tries,
                      uint64_t time_ms);
bool work_link_nack(struct work_link *link, uint32_t queue, uint32_t opening, uint64_t offset, uint32_t tries, uint64_t time_ms, const uint8_t *text,
                    uint32_t size);
void work_link_want(struct work_link *link, uint32_t most);
void work_link_publish(struct work_link *link);
void work_link_tell(struct work_link *link);
uint64_t work_link_untold(const struct work_link *link);
uint64_t work_link_applied(const struct work_link *link);
int work_link_wait(struct work_link *link, uint64_t applied, uint64_t limit_ns);
bool work_link_alive(const struct work_link *link);
void work_link_ring(struct work_link *link);

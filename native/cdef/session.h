struct work_ring;
struct completion {
    uint64_t physical_offset, queue_offset;
    uint32_t size, queue_id, code, detail;
};
struct session_parts {
    struct completion *slots;
    struct ring *sq;
    struct work_ring *hand_outs, *answers;
    ...;
};
void session_parts(struct session *session, const struct session_shape *shape, struct session_parts *parts);
uint64_t session_completed(const struct session *session);
enum { SETTLE_COMMIT, SETTLE_ROLLBACK, SETTLE_GIVE_UP, ... };
#define SEND_GROUP_MAX ...

struct reader;
struct waiter { ...; };
void waiter_attach(struct waiter *waiter, struct session *session, const struct session_shape *shape,
                   const struct control *control, struct wake *wake, int supervisor);
void waiter_join(struct waiter *waiter, uint32_t group, uint64_t epoch);
bool waiter_interests(struct waiter *waiter, const uint32_t *slots, uint32_t count);
bool waiter_current(const struct waiter *waiter);
bool waiter_gone(const struct waiter *waiter);
int waiter_wait(struct waiter *waiter, struct reader *reader, uint64_t timeout_ns);
void waiter_interrupt(struct waiter *waiter);
bool waiter_commit_all(struct waiter *waiter, const uint64_t *offsets, uint32_t count);

struct session;
uint64_t session_called_ns(const struct session *session);
uint32_t session_wanted(const struct session *session);
void session_ring(struct session *session);
void session_call_handler(struct control *control, struct wake *wake, uint32_t slot);
void session_call_notifier(struct wake *wake, uint32_t slot);
uint64_t lane_published(const struct lane *lane);
uint64_t lane_freed(const struct lane *lane);

#define GATEWAY_LISTENERS ...
struct gateway;
struct gateway *gateway_open(struct attachment *attachment, int listener, uint32_t number);
bool gateway_give_line(struct gateway *gateway, uint32_t front, int line);
void gateway_close(struct gateway *gateway);
bool gateway_accept_at(struct gateway *gateway, int listener);
void gateway_attach(struct gateway *gateway, void *memory, const struct session_shape *shape);
int gateway_run(struct gateway *gateway, uint32_t limit_ms);
uint32_t gateway_step(struct gateway *gateway);
struct gateway_client {
    uint32_t connection, epoch;
};
struct gateway_request {
    struct gateway_client client;
    const struct remoting_header *header;
    const uint8_t *body;
    uint32_t body_size;
    const char *local;
    const char *peer;
};
bool gateway_asked(struct gateway *gateway, struct gateway_request *request);
void gateway_answer(struct gateway *gateway, const struct gateway_request *request, struct remoting_header *answer, const uint8_t *body,
                    uint32_t body_size);
void gateway_again(struct gateway *gateway, const struct gateway_request *request);
void gateway_later(struct gateway *gateway, const struct gateway_request *request);
bool gateway_gone(struct gateway *gateway, struct gateway_client *client);
bool gateway_tell(struct gateway *gateway, struct gateway_client client, struct remoting_header *header, const uint8_t *body,
                  uint32_t body_size);
void gateway_name(struct gateway *gateway, struct gateway_client client, struct slice id);
bool gateway_forward(struct gateway *gateway, const struct gateway_request *request, struct gateway_client client,
                     struct remoting_header *header, const uint8_t *body, uint32_t body_size, uint32_t limit_ms);
struct gateway_commit {
    uint8_t group[255], topic[127];
    uint32_t group_size, topic_size;
    uint32_t slot, queue_id;
    uint64_t offset;
};
bool gateway_gathered(struct gateway *gateway, struct gateway_commit *commit);
bool gateway_give_up(struct gateway *gateway, uint64_t offset, uint64_t physical_offset);
bool gateway_subscribe(struct gateway *gateway, struct slice group, struct slice topic, bool sql, struct slice text, int64_t version);
void gateway_unsubscribe(struct gateway *gateway, struct slice group);
bool gateway_pause(struct gateway *gateway, const struct slice *groups, uint32_t count);
struct gateway_limits {
    uint32_t of_one_address;
    uint32_t in_all;
    uint32_t idle_ms;
    uint64_t parts_bytes;
};
void gateway_limit(struct gateway *gateway, const struct gateway_limits *limits);
enum gateway_crowd { GATEWAY_ADDRESS_FULL, GATEWAY_ALL_FULL, GATEWAY_NO_DESCRIPTORS, GATEWAY_NO_MEMORY };
uint32_t gateway_turned_away(struct gateway *gateway, enum gateway_crowd *why, const char **last);
enum gateway_tls { GATEWAY_PLAIN, GATEWAY_PLAIN_OR_TLS, GATEWAY_TLS };
void gateway_speak_tls(struct gateway *gateway, enum gateway_tls tls);
struct gateway_hello {
    int fd;
    char local[56], peer[56];
};
bool gateway_hello(struct gateway *gateway, struct gateway_hello *hello);
bool gateway_adopt(struct gateway *gateway, const struct gateway_hello *hello);
void gateway_guard(struct gateway *gateway, struct acl *acl);
bool gateway_permits(const struct gateway *gateway, const struct gateway_request *request, bool group, struct slice name);
struct gateway_popped {
    struct slice group, topic, filter;
    bool sql, ordered, any;
};
bool gateway_pop_known(const struct gateway *gateway, const struct gateway_popped *what);
bool gateway_pop_open(struct gateway *gateway, const struct gateway_popped *what, void *memory, const struct session_shape *shape);
bool gateway_pop_may(const struct gateway *gateway, const struct gateway_request *request);
bool gateway_pop_notice(struct gateway *gateway, const struct gateway_request *request, const struct gateway_popped *what, uint32_t poll_ms);
uint32_t gateway_pops_waiting(const struct gateway *gateway, struct slice group, struct slice topic, int64_t queue);
struct gateway_pop_end {
    void *memory;
    uint32_t slot, epoch;
};
bool gateway_pop_over(struct gateway *gateway, struct gateway_pop_end *end);
struct gateway_pop_ack {
    struct slice group, topic;
    bool retry;
    uint32_t queue_id;
    uint64_t offset;
    int64_t pop_ms, tries;
};
bool gateway_acknowledge(struct gateway *gateway, const struct gateway_request *request, const struct gateway_pop_ack *acks, uint32_t count);
uint32_t gateway_connections(const struct gateway *gateway);

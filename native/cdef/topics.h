#define TOPIC_NONE ...
enum { PERM_WRITE, PERM_READ, ... };
#define TOPIC_NAME_MAX ...
#define RETENTION_FOR_EVER ...
enum topic_name_fault { TOPIC_NAME_GOOD, TOPIC_NAME_EMPTY, TOPIC_NAME_LONG, TOPIC_NAME_CHARACTER, ... };
enum topics_add_result { TOPICS_ADDED, TOPICS_FULL, TOPICS_QUEUES_FULL, TOPICS_EXISTS, ... };
struct topics;
struct topic_seen {
    uint32_t first_slot, slot_capacity, queues, perm, retention_hours, durable, deleted, name_size;
    uint8_t name[128];
};
struct queue_seen {
    uint64_t next_offset, max_offset, min_offset, physical_end;
    uint32_t topic, queue_id;
};
uint64_t topics_size(uint32_t topic_capacity, uint32_t queue_capacity);
void topics_init(struct topics *topics, uint32_t topic_capacity, uint32_t queue_capacity, uint64_t generation);
uint32_t topic_hash(const uint8_t *name, uint32_t size);
int topic_name_check(const uint8_t *name, uint32_t size, uint32_t *at);
uint32_t topics_find(const struct topics *topics, const uint8_t *name, uint32_t size);
int topics_room(const struct topics *topics, const uint8_t *name, uint32_t size, uint32_t slot_capacity);
void topics_expect(struct topics *topics, const uint8_t *name, uint32_t size, uint32_t retention_hours, bool durable);
int topics_add(struct topics *topics, const uint8_t *name, uint32_t size, uint32_t queues, uint32_t slot_capacity,
               uint32_t perm, uint32_t *index);
bool topic_see(const struct topics *topics, uint32_t index, struct topic_seen *seen);
uint32_t topics_next(const struct topics *topics, uint32_t *slot, struct topic_seen *seen);
void topic_set_queues(struct topics *topics, uint32_t index, uint32_t queues);
void topic_set_retention(struct topics *topics, uint32_t index, uint32_t hours);
void topic_set_durable(struct topics *topics, uint32_t index, bool durable);
void topic_set_perm(struct topics *topics, uint32_t index, uint32_t perm);
void topic_set_deleted(struct topics *topics, uint32_t index, bool deleted);
uint32_t topics_unburied(const struct topics *topics, uint32_t *slot, struct topic_seen *seen);
void topics_bury(struct topics *topics);
uint32_t topics_burials(const struct topics *topics);
void topics_raise_buried(struct topics *topics);
uint32_t topics_buried(const struct topics *topics);
uint32_t topics_queue_count(const struct topics *topics);
void queue_see(const struct topics *topics, uint32_t slot, struct queue_seen *seen);
void queue_recovered(struct topics *topics, uint32_t slot, uint64_t min_offset, uint64_t max_offset, uint64_t physical_end);
void queue_raise_min(struct topics *topics, uint32_t slot, uint64_t min_offset);

enum ring_look { RING_RECORD, RING_EMPTY, RING_BROKEN, ... };
#define RING_HEADER ...
#define RING_MIN_CAPACITY ...
struct ring_record { uint32_t length, type; };
struct ring_producer { struct ring *ring; uint64_t capacity, position, head_seen; };
struct ring_consumer { struct ring *ring; uint64_t capacity, position, tail_seen; };
bool ring_capacity_good(uint64_t capacity);
void ring_producer_attach(struct ring_producer *producer, struct ring *ring, uint64_t capacity);
void ring_consumer_attach(struct ring_consumer *consumer, struct ring *ring, uint64_t capacity, uint64_t position);
void *ring_claim(struct ring_producer *producer, uint32_t payload_size);
void ring_commit(struct ring_producer *producer, uint32_t payload_size, uint32_t type);
void ring_publish(struct ring_producer *producer);
enum ring_look ring_peek(struct ring_consumer *consumer, struct ring_record *header, uint8_t **payload);
void ring_pass(struct ring_consumer *consumer, const struct ring_record *header);
void ring_release(struct ring_consumer *consumer, uint64_t position);
uint64_t ring_head_position(const struct ring *ring);

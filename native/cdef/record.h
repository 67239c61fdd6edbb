struct record_parts {
    const uint8_t *topic;
    const uint8_t *properties;
    const uint8_t *body;
    uint32_t topic_size;
    uint32_t properties_size;
    uint32_t body_size;
    uint32_t queue_id;
    uint32_t flag;
    uint32_t sys_flag;
    uint32_t reconsume_times;
    uint64_t born_ms;
    uint64_t prepared_offset;
    struct record_host born_host;
    struct record_host store_host;
};
struct record_seal {
    uint32_t crc;
    uint32_t hole_operator;
};
struct record_view {
    uint32_t total_size;
    uint32_t body_crc;
    uint32_t queue_id;
    uint32_t flag;
    uint32_t sys_flag;
    uint32_t reconsume_times;
    uint64_t queue_offset;
    uint64_t physical_offset;
    uint64_t born_ms;
    uint64_t store_ms;
    uint64_t prepared_offset;
    struct slice born_host;
    struct slice store_host;
    struct slice body;
    struct slice topic;
    struct slice properties;
};
enum record_fault {
    RECORD_GOOD = 0,
    RECORD_IS_BLANK = 1,
    RECORD_END = 2,
    RECORD_BAD_MAGIC = 3,
    RECORD_BAD_SIZE = 4,
    RECORD_BAD_BODY_CRC = 5,
    RECORD_BAD_CRC = 6,
    RECORD_BAD_PLACE = 7,
    RECORD_LOST = 8,
};
uint32_t record_trim(const uint8_t *properties, uint32_t size);
uint32_t record_image_size(const struct record_parts *parts);
void record_encode(const struct record_parts *parts, uint8_t *image, struct record_seal *seal);
void record_finish(uint8_t *record, uint32_t size, const struct record_seal *seal, uint64_t queue_offset,
                   uint64_t physical_offset, uint64_t store_ms);
enum record_fault record_parse(const uint8_t *at, uint64_t available, struct record_view *view);
enum record_fault record_check(const uint8_t *at, uint64_t available, uint64_t physical_offset, struct record_view *view);

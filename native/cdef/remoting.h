#define REMOTING_FRAME_START ...
#define REMOTING_FRAME_MAX ...
#define REMOTING_HEADER_MAX ...
#define REMOTING_FIELDS_MAX ...
#define REMOTING_DEPTH_MAX ...
struct remoting_frame {
    uint32_t size;
    uint32_t header_size;
    uint32_t body_at;
    uint32_t body_size;
    uint8_t type;
};
int remoting_frame(const uint8_t *data, uint64_t size, struct remoting_frame *frame);
struct remoting_field {
    struct slice name, value;
};
struct remoting_header {
    int32_t code;
    int32_t version;
    int32_t opaque;
    int32_t flag;
    uint8_t language;
    bool has_fields;
    struct slice remark;
    uint32_t field_count;
    struct remoting_field fields[64];
};
bool remoting_header_read(uint8_t *data, uint32_t size, uint8_t type, struct remoting_header *header);
uint32_t remoting_header_write(uint8_t *to, uint32_t room, uint8_t type, const struct remoting_header *header, uint32_t body_size);
uint64_t remoting_header_room(const struct remoting_header *header);
bool remoting_field_number(const struct remoting_header *header, const char *name, int64_t *number);
bool remoting_number(struct slice text, int64_t *number);

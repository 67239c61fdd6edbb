enum { RESERVED_NOT = 0, RESERVED_ID = 1, RESERVED_ARGUMENT = 2, RESERVED_NOTE = 3, RESERVED_WISH = 4, RESERVED_REPLY = 5 };
int reserved_property(struct slice name);
const char *reserved_property_why(int kind);
const char *reserved_topic_why(const uint8_t *name, uint32_t size);
bool reserved_topic_of_replies(const uint8_t *name, uint32_t size);
bool reserved_topic_of_traces(const uint8_t *name, uint32_t size);
bool reserved_find(const uint8_t *properties, uint32_t size, struct slice *name);

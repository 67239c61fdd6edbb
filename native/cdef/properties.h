struct slice {
    const uint8_t *data;
    uint32_t size;
};
struct known_properties {
    struct slice tags;
    struct slice keys;
    struct slice unique_key;
};
void properties_known(const uint8_t *properties, uint32_t size, struct known_properties *known);
struct slice properties_get(const uint8_t *properties, uint32_t size, const char *name, uint32_t name_size);
bool properties_next(const uint8_t *properties, uint32_t size, uint32_t *position, struct slice *name, struct slice *value);
int32_t java_hash(int32_t from, const uint8_t *text, uint32_t size);

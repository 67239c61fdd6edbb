struct sha1 {
    uint32_t state[5];
    uint64_t size;
    uint8_t rest[64];
};
void sha1_begin(struct sha1 *sha1);
void sha1_add(struct sha1 *sha1, const void *data, size_t size);
void sha1_end(struct sha1 *sha1, uint8_t *digest);
struct hmac_key {
    struct sha1 inner, outer;
};
void hmac_key(struct hmac_key *made, const void *key, size_t size);
void hmac_end(const struct hmac_key *key, struct sha1 *inner, uint8_t *digest);
enum sha1_way { SHA1_WORDS = 0, SHA1_EXTENSIONS = 1 };
enum sha1_way sha1_use(enum sha1_way most);

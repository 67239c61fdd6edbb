/* SHA-1 (FIPS 180-4), and HMAC with it (RFC 2104), by which RocketMQ's clients sign their requests. HMAC needs no digest that resists collisions;
 * use SHA-1 for nothing else.
 */
#ifndef ORBITMQ_SHA1_H
#define ORBITMQ_SHA1_H

#include <stddef.h>
#include <stdint.h>

#define SHA1_SIZE 20u
#define SHA1_BLOCK 64u

struct sha1 {
    uint32_t state[5];
    uint64_t size;             /* of what was added */
    uint8_t rest[SHA1_BLOCK];  /* size % SHA1_BLOCK bytes of it */
};

void sha1_begin(struct sha1 *sha1);
void sha1_add(struct sha1 *sha1, const void *data, size_t size);
void sha1_end(struct sha1 *sha1, uint8_t digest[SHA1_SIZE]);

/* What a key comes to: it need not be kept itself. */
struct hmac_key {
    struct sha1 inner, outer;
};

void hmac_key(struct hmac_key *made, const void *key, size_t size);

/* A digest: a copy of key->inner, to which the data is added, and then this. */
void hmac_end(const struct hmac_key *key, struct sha1 *inner, uint8_t digest[SHA1_SIZE]);

/* Implementations, slow to fast. Tests choose one; returns the one that the processor supports. Not for use beside other threads. */
enum sha1_way { SHA1_WORDS = 0, SHA1_EXTENSIONS = 1 };
enum sha1_way sha1_use(enum sha1_way most);

#endif

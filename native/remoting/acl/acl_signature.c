/* Signatures, as RocketMQ's AclClientRPCHook makes them: HMAC-SHA1 over the values of all fields, in the order of their names, and the body. */
#include "remoting/acl/acl_signature.h"

#include <string.h>

#define SIGNATURE_SIZE 28u /* a digest as base64 */

/* Fields that are not signed: the signature, and a mark that the client's library adds to a look-up later. */
static bool left_out(struct slice name)
{
    return (name.size == 9 && memcmp(name.data, "Signature", 9) == 0) ||
           (name.size == 17 && memcmp(name.data, "_UNIQUE_KEY_QUERY", 17) == 0);
}

static void write_base64(const uint8_t digest[SHA1_SIZE], char text[SIGNATURE_SIZE])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t padded[SHA1_SIZE + 1] = {0};
    memcpy(padded, digest, SHA1_SIZE);
    for (uint32_t i = 0; i < 7; i++) {
        const uint32_t bits = (uint32_t)padded[3 * i] << 16 | (uint32_t)padded[3 * i + 1] << 8 | padded[3 * i + 2];
        for (uint32_t j = 0; j < 4; j++)
            text[4 * i + j] = letters[bits >> (18 - 6 * j) & 63];
    }
    text[SIGNATURE_SIZE - 1] = '=';
}

bool acl_signed(const struct hmac_key *key, const struct remoting_header *header, struct slice body)
{
    const struct slice shown = remoting_field(header, "Signature");
    uint8_t order[REMOTING_FIELDS_MAX];
    uint32_t count = 0;
    if (shown.size != SIGNATURE_SIZE)
        return false;
    for (uint32_t i = 0; i < header->field_count; i++) {
        uint32_t at = count;
        if (left_out(header->fields[i].name))
            continue;
        while (at && acl_compare(header->fields[order[at - 1]].name, header->fields[i].name) > 0)
            at--;
        if (at && acl_compare(header->fields[order[at - 1]].name, header->fields[i].name) == 0) {
            order[at - 1] = (uint8_t)i; /* of fields that occur twice, the last one counts */
            continue;
        }
        memmove(order + at + 1, order + at, count++ - at);
        order[at] = (uint8_t)i;
    }
    struct sha1 content = key->inner;
    for (uint32_t i = 0; i < count; i++)
        sha1_add(&content, header->fields[order[i]].value.data, header->fields[order[i]].value.size);
    sha1_add(&content, body.data, body.size);
    uint8_t digest[SHA1_SIZE];
    char wanted[SIGNATURE_SIZE];
    hmac_end(key, &content, digest);
    write_base64(digest, wanted);
    uint8_t differ = 0; /* the time does not tell where they differ */
    for (uint32_t i = 0; i < SIGNATURE_SIZE; i++)
        differ |= (uint8_t)((uint8_t)wanted[i] ^ shown.data[i]);
    return differ == 0;
}

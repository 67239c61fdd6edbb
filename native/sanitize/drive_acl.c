/* Access rules with requests of any fields and addresses, in memory of exactly their size. */
#include "drive.h"
#include "remoting/acl/acl.h"

#include <stdio.h>
#include <string.h>

#define ROUNDS 20000u
#define HEADER_MAX 400u

static struct slice slice_of(const char *text) { return (struct slice){(const uint8_t *)text, (uint32_t)strlen(text)}; }

static struct acl *make(uint64_t *seed)
{
    static const char *const names[] = {"orders", "news", "o", "readers", ""};
    struct acl *const acl = acl_open();
    CHECK(acl != NULL);
    for (uint64_t ranges = drive_random(seed) % 3; ranges; ranges--) {
        const struct acl_range range = {.parts = drive_random(seed) % 2 ? 4 : 8, .least = {127}, .most = {127, 255, 255, 255}};
        CHECK(acl_add_range(acl, &range));
    }
    const uint32_t accounts = (uint32_t)(drive_random(seed) % 40);
    for (uint32_t i = 0; i < accounts; i++) {
        char key[24];
        snprintf(key, sizeof key, "account%u", i);
        CHECK(acl_add_account(acl, slice_of(key), slice_of("secret"), i % 5 == 0, ACL_PUB, ACL_DENY));
        for (uint64_t j = drive_random(seed) % 6; j-- > 0;)
            CHECK(acl_add_permission(acl, drive_random(seed) % 2, slice_of(names[j]), ACL_SUB));
        const struct acl_range range = {.parts = 4, .least = {10}, .most = {10, 255, 255, 255}};
        if (drive_random(seed) % 3 == 0)
            CHECK(acl_add_range(acl, &range));
    }
    acl_seal(acl);
    return acl;
}

int main(void)
{
    static const char *const peers[] = {"127.0.0.1:80", "[::1]:5", "[::ffff:10.1.1.1]:7", "10.9.8.7:1", "", "[", ":", "]:["};
    static const char *const names[] = {"topic", "b", "consumerGroup", "group", "AccessKey", "Signature", "Z", ""};
    static const char *const values[] = {"orders", "%RETRY%readers", "%RETRY%", "account1", "account39", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", ""};
    static const int codes[] = {10, 11, 12, 15, 17, 34, 35, 36, 38, 105, 310, 320, -1};
    static struct remoting_header header;
    uint64_t seed = 88172645463325252u;
    uint32_t verdicts[ACL_NO_GROUP + 1] = {0};
    struct acl *acl = NULL;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        char text[HEADER_MAX];
        uint32_t size = (uint32_t)snprintf(text, sizeof text, "{\"code\":%d,\"extFields\":{", codes[drive_random(&seed) % 13]);
        for (uint64_t fields = drive_random(&seed) % 6, i = 0; i < fields; i++)
            size += (uint32_t)snprintf(text + size, sizeof text - size, "%s\"%s\":\"%s\"", i ? "," : "", names[drive_random(&seed) % 8],
                                       values[drive_random(&seed) % 7]);
        size += (uint32_t)snprintf(text + size, sizeof text - size, "}}");
        CHECK(size < sizeof text);
        if (round % 50 == 0) {
            acl_free(acl);
            acl = make(&seed);
        }
        uint8_t *const exact = malloc(size);
        char *const peer = strdup(peers[drive_random(&seed) % 8]);
        CHECK(exact != NULL && peer != NULL);
        memcpy(exact, text, size);
        CHECK(remoting_header_read(exact, size, REMOTING_JSON, &header));
        struct slice what;
        const struct slice body = {exact, (uint32_t)(drive_random(&seed) % size)};
        verdicts[acl_check(acl, peer, &header, body, &what)]++;
        acl_permits(acl, peer, &header, drive_random(&seed) % 2, remoting_field(&header, "topic"), ACL_SUB);
        free(peer);
        free(exact);
    }
    acl_free(acl);
    CHECK(verdicts[ACL_ALLOWED] && verdicts[ACL_NO_KEY] && verdicts[ACL_UNKNOWN_KEY] && verdicts[ACL_BAD_SIGNATURE]);
    return 0;
}

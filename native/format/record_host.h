/* A host of a record: an address and a port, big-endian, as they are stored.
 *
 *   IPv4   0  4 bytes of address    4   u32 port         IPv6   0  16 bytes of address   16  u32 port
 *
 * In a record, its sysFlag says of each of its two hosts which of both it is. As text it is "10.1.2.3:10911" or "[fe80::1]:10911".
 */
#ifndef ORBITMQ_RECORD_HOST_H
#define ORBITMQ_RECORD_HOST_H

#include "format/properties.h"

#include <assert.h>

#define RECORD_HOST_V4 8u
#define RECORD_HOST_V6 20u
#define RECORD_HOST_TEXT 64u /* bytes of a host's text at most, with the NUL */

struct record_host {
    uint8_t data[RECORD_HOST_V6]; /* zeros behind `size` */
    uint32_t size;                /* RECORD_HOST_V4 or RECORD_HOST_V6 */
};
static_assert(sizeof(struct record_host) == 24, "frames keep 8-byte alignment");

/* Of whoever needs no address: a sender on this machine that uses the library. */
#define RECORD_HOST_LOCAL ((struct record_host){.data = {127, 0, 0, 1}, .size = RECORD_HOST_V4})

static inline bool record_host_fits(uint32_t size) { return size == RECORD_HOST_V4 || size == RECORD_HOST_V6; }

/* Of a record that was parsed. */
static inline struct record_host record_host(struct slice stored)
{
    struct record_host host = {.size = stored.size};
    assert(record_host_fits(stored.size));
    memcpy(host.data, stored.data, stored.size);
    return host;
}

static inline bool record_host_is(const struct record_host *one, const struct record_host *other)
{
    return memcmp(one, other, sizeof *one) == 0;
}

/* Writes its text, NUL-terminated. Returns the size without the NUL. */
uint32_t record_host_write(struct slice stored, char text[RECORD_HOST_TEXT]);

/* Reads such a text. False: it is none, and *host is RECORD_HOST_LOCAL. */
bool record_host_read(const char *text, struct record_host *host);

#endif

/* Signatures of requests. */
#ifndef ORBITMQ_ACL_SIGNATURE_H
#define ORBITMQ_ACL_SIGNATURE_H

#include "base/sha1.h"
#include "remoting/frame/remoting_header.h"

/* Whether the request is signed with this key. */
bool acl_signed(const struct hmac_key *key, const struct remoting_header *header, struct slice body);

/* The order of names, in which values are signed: below 0, 0 or above 0, as memcmp. */
static inline int acl_compare(struct slice one, struct slice other)
{
    const uint32_t size = one.size < other.size ? one.size : other.size;
    const int order = size ? memcmp(one.data, other.data, size) : 0;
    return order ? order : (one.size > other.size) - (one.size < other.size);
}

#endif

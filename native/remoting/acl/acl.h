/* Access rules: which accounts there are, how their requests are signed, what they may do. One table is one generation: Python fills it from a file
 * (remoting/plain_acl.py), seals it, and hands it to the gateway, which replaces the one before.
 *
 * As RocketMQ 4.9 PlainPermissionManager: a request is allowed if it comes from an address of the global list; or names an account and comes from
 * one of its addresses; or names one, is signed with its key, and the account may do it.
 */
#ifndef ORBITMQ_ACL_H
#define ORBITMQ_ACL_H

#include "remoting/frame/remoting_header.h"

enum acl_permission { ACL_DENY = 1, ACL_PUB = 4, ACL_SUB = 8 }; /* RocketMQ's bits; ACL_DENY stands alone */

struct acl;
struct acl *acl_open(void); /* NULL: no memory */
void acl_free(struct acl *acl);

/* Filling. False: no memory. What is added belongs to the account that was added last; addresses before the first one to the global list. Access keys, and the
 * names of one account and kind, are each other's only ones. */
bool acl_add_account(struct acl *acl, struct slice access_key, struct slice secret_key, bool admin, uint8_t topics, uint8_t groups);
bool acl_add_permission(struct acl *acl, bool group, struct slice name, uint8_t permission);
/* Addresses each of whose parts lies between these: the 4 of IPv4 or the 8 of IPv6. */
struct acl_range {
    uint8_t parts;
    uint16_t least[8], most[8];
};
bool acl_add_range(struct acl *acl, const struct acl_range *range);
void acl_seal(struct acl *acl); /* nothing is added any more */

enum acl_verdict { ACL_ALLOWED, ACL_NO_KEY, ACL_UNKNOWN_KEY, ACL_BAD_SIGNATURE, ACL_NOT_ADMIN, ACL_NO_TOPIC, ACL_NO_GROUP };

/* peer: its address and port as text. *what: the key, topic or group of a refusal; it points into the header. Topics and groups that the body names are not
 * looked at: see acl_permits. */
enum acl_verdict acl_check(const struct acl *acl, const char *peer, const struct remoting_header *header, struct slice body, struct slice *what);

/* Whether who has sent this request, which was checked, may do this with a topic or group. */
bool acl_permits(const struct acl *acl, const char *peer, const struct remoting_header *header, bool group, struct slice name, uint8_t wanted);

#endif

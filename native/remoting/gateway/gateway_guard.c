/* Which requests the gateway serves, if there are access rules (acl.h). A request is checked once, when its header has been read. */
#include "remoting/acl/acl.h"
#include "remoting/gateway/gateway_parts.h"

#include <stdio.h>

#define SAID_MAX 255 /* of a name in a refusal */

void gateway_guard(struct gateway *gateway, struct acl *acl)
{
    acl_free(gateway->acl);
    gateway->acl = acl;
}

/* RocketMQ's words; operators search logs for them. */
static const char *const REASONS[] = {
    [ACL_NO_KEY] = "No accessKey is configured%.*s",
    [ACL_UNKNOWN_KEY] = "No acl config for %.*s",
    [ACL_BAD_SIGNATURE] = "Check signature failed for accessKey=%.*s",
    [ACL_NOT_ADMIN] = "Need admin permission for request code=%d, but accessKey=%.*s is not",
    [ACL_NO_TOPIC] = "No default permission for topic:%.*s",
    [ACL_NO_GROUP] = "No default permission for group:%.*s",
};

bool gateway_admits(struct gateway *gateway, const struct gateway_asker *asker, const char *peer, const struct remoting_header *header,
                    struct slice body)
{
    struct slice what;
    char remark[512] = "org.apache.rocketmq.acl.common.AclException: ";
    const size_t size = strlen(remark);
    if (!gateway->acl)
        return true;
    const enum acl_verdict verdict = acl_check(gateway->acl, peer, header, body, &what);
    const int said = what.size < SAID_MAX ? (int)what.size : SAID_MAX;
    if (verdict == ACL_ALLOWED)
        return true;
    if (verdict == ACL_NOT_ADMIN)
        snprintf(remark + size, sizeof remark - size, REASONS[verdict], header->code, said, (const char *)what.data);
    else
        snprintf(remark + size, sizeof remark - size, REASONS[verdict], said, what.data ? (const char *)what.data : "");
    gateway_refuse(gateway, asker, GATEWAY_SYSTEM_ERROR, remark);
    return false;
}

bool gateway_permits(const struct gateway *gateway, const struct gateway_request *request, bool group, struct slice name)
{
    return !gateway->acl || acl_permits(gateway->acl, request->peer, request->header, group, name, ACL_SUB);
}

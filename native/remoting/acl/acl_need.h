/* What a request needs to be allowed: known from its code, and the topics and groups that its fields name. */
#ifndef ORBITMQ_ACL_NEED_H
#define ORBITMQ_ACL_NEED_H

#include "remoting/acl/acl.h"

struct acl_resource {
    bool group;
    uint8_t permission;
    struct slice name;
};

struct acl_need {
    bool open, admin; /* everybody may; only administrators */
    uint32_t count;
    struct acl_resource resource[2];
};

struct acl_need acl_need(const struct remoting_header *header);

/* The topic of a group's retries belongs to the group, for which it is to be read. */
void acl_need_topic(struct acl_need *needs, struct slice name, uint8_t wanted);

#endif

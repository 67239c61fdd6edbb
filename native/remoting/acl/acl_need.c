/* What a request needs to be allowed, by its code. As RocketMQ 4.9 PlainAccessValidator and Permission, except where a later version closed a hole or
 * eased what made no sense: a batch needs what a message needs (5.x); what is given back is its group's matter alone (4.9.8); accounts and their
 * secrets are for administrators (5.x).
 */
#include "remoting/acl/acl_need.h"

#include "format/retry.h"

enum code {
    SEND = 10, PULL = 11, QUERY_MESSAGE = 12, COMMIT = 15, UNREGISTER = 35, BACK = 36, MEMBERS = 38, SEND_V2 = 310, SEND_BATCH = 320,
    LITE_PULL = 361, POP = 200050, POP_ACK = 200051, POP_CHANGE = 200053, POP_NOTICE = 200054, POLLING_INFO = 200055,
    ROUTE = 105, CLUSTER = 106,
    PUT_ACCOUNT = 50, DELETE_ACCOUNT = 51, ACCOUNTS_VERSION = 52, PUT_ADDRESSES = 53, LIST_ACCOUNTS = 54,
    MAKE_TOPIC = 17, CHANGE_CONFIG = 25, MAKE_GROUP = 200, SET_REQUEST_MODE = 401, DELETE_GROUP = 207, DELETE_TOPIC = 215,
    /* those that RocketMQ's name server takes from anybody */
    PUT_KV = 100, DELETE_KV = 102, WIPE_PERMISSION = 205, DELETE_ROUTES = 216, CHANGE_NAMES_CONFIG = 318, ADD_PERMISSION = 327,
};

static void need(struct acl_need *needs, bool group, struct slice name, uint8_t wanted)
{
    if (name.data)
        needs->resource[needs->count++] = (struct acl_resource){.group = group, .permission = wanted, .name = name};
}

void acl_need_topic(struct acl_need *needs, struct slice name, uint8_t wanted)
{
    const struct slice group = retry_after(name, RETRY_PREFIX);
    if (name.data && group.data)
        need(needs, true, group, ACL_SUB);
    else
        need(needs, false, name, wanted);
}

struct acl_need acl_need(const struct remoting_header *header)
{
    struct acl_need needs = {0};
    switch ((enum code)header->code) {
    case SEND:
        acl_need_topic(&needs, remoting_field(header, "topic"), ACL_PUB);
        break;
    case SEND_V2:
    case SEND_BATCH:
        acl_need_topic(&needs, remoting_field(header, "b"), ACL_PUB);
        break;
    case PULL:
    case LITE_PULL:
    case POP:
    case POP_NOTICE:
    case POLLING_INFO:
    case COMMIT:
        acl_need_topic(&needs, remoting_field(header, "topic"), ACL_SUB);
        need(&needs, true, remoting_field(header, "consumerGroup"), ACL_SUB);
        break;
    case QUERY_MESSAGE:
        acl_need_topic(&needs, remoting_field(header, "topic"), ACL_SUB);
        break;
    case BACK:
        need(&needs, true, remoting_field(header, "group"), ACL_SUB);
        break;
    case POP_ACK: /* of what was popped: the topic may be one of retries that is named otherwise here */
    case POP_CHANGE:
    case UNREGISTER:
    case MEMBERS:
        need(&needs, true, remoting_field(header, "consumerGroup"), ACL_SUB);
        break;
    case ROUTE:
    case CLUSTER:
        needs.open = true; /* a name server's, whom RocketMQ lets everybody ask */
        break;
    case PUT_ACCOUNT:
    case DELETE_ACCOUNT:
    case ACCOUNTS_VERSION:
    case PUT_ADDRESSES:
    case LIST_ACCOUNTS:
    case MAKE_TOPIC:
    case CHANGE_CONFIG:
    case MAKE_GROUP:
    case SET_REQUEST_MODE:
    case DELETE_GROUP:
    case DELETE_TOPIC:
    case PUT_KV:
    case DELETE_KV:
    case WIPE_PERMISSION:
    case DELETE_ROUTES:
    case CHANGE_NAMES_CONFIG:
    case ADD_PERMISSION:
        needs.admin = true;
        break;
    }
    return needs;
}

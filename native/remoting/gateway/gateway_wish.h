/* What one request wants stored, what the properties of its messages ask of the broker beside this, and the way that a message then goes. */
#ifndef ORBITMQ_GATEWAY_WISH_H
#define ORBITMQ_GATEWAY_WISH_H

#include "remoting/frame/remoting_header.h"
#include "shared/session.h"

struct topic_entry;

/* What one request wants stored. */
struct gateway_wanted {
    struct slice name, properties, group;
    struct slice id; /* under which it is stored once (dedup_id.h); data NULL: it has none */
    int64_t queue, sys_flag, born_ms, flag;
    int64_t tries, most; /* reconsume times of a message that is given back, and from how many on it is a dead letter */
    bool batch, reply;
    /* of the topic that is there */
    const struct topic_entry *topic;
    uint32_t index, queue_id;
    bool durable;
};

/* Properties of a message that ask the broker for something. They are not stored as they came. */
enum gateway_wish {
    WISH_WAIT,       /* for the disk, as the topic does: gateway_send.c has looked */
    WISH_LEVEL,      /* to be delivered later: after the delay of a level, */
    WISH_AFTER_S,    /* after so many seconds, */
    WISH_AFTER_MS,   /* or milliseconds, */
    WISH_AT_MS,      /* or at a time */
    WISH_HALF,       /* to be a half message, */
    WISH_GROUP,      /* of this producer group */
    WISH_COUNT,
};
struct gateway_wishes {
    struct slice value[WISH_COUNT]; /* data == NULL: it does not */
    struct slice correlation, reply_to, waits; /* of a request: its id, whose it is, and how many ms it waits */
    bool wants_more;                /* something that OrbitMQ does not do for it */
};

/* Puts properties as they go into the ring behind the `size` bytes of them that `to` holds, or only counts them if it is
 * NULL. Returns the size of all. Adds to the wishes what they ask for. */
uint32_t gateway_put_properties(struct slice properties, uint8_t *to, uint32_t size, struct gateway_wishes *wishes);

/* How a message goes into the ring if it has such wishes. */
struct gateway_way {
    uint32_t delay_level;       /* of struct send_message */
    uint32_t size;              /* of what stands before the properties */
    uint8_t before[SEND_AT_SIZE + SEND_GROUP_MAX];
    const char *topic;          /* that must be there for it, beside its own; NULL: none */
};
/* Why there is no such way; NULL: there is. */
const char *gateway_find_way(const struct gateway_wanted *wanted, const struct gateway_wishes *wishes, struct gateway_way *way);

#endif

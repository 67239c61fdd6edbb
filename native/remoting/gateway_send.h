/* What the files of sends share: a request that was read and found acceptable so far, and how its messages become part of the ring. */
#ifndef ORBITMQ_GATEWAY_SEND_H
#define ORBITMQ_GATEWAY_SEND_H

#include "remoting/gateway_parts.h"

/* Properties of a message that ask the broker for something. They are not stored as they came. */
enum gateway_wish {
    WISH_WAIT,       /* for the disk, which the topic decides here */
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

#define GATEWAY_MOST_TRIES 16 /* reconsume times of a message, unless the client says how many */

/* What one request wants stored. */
struct gateway_wanted {
    struct slice name, properties, group;
    int64_t queue, sys_flag, born_ms, flag;
    int64_t tries, most; /* reconsume times of a message that is given back, and from how many on it is a dead letter */
    bool batch, reply;
    /* of the topic that is there */
    const struct topic_entry *topic;
    uint32_t index, queue_id;
    bool durable;
};

/* gateway_wish.c: puts properties as they go into the ring behind the `size` bytes of them that `to` holds, or only counts them if it is
 * NULL. Returns the size of all. Adds to the wishes what they ask for. */
uint32_t gateway_put_properties(struct slice properties, uint8_t *to, uint32_t size, struct gateway_wishes *wishes);

/* gateway_reply.c: gives a reply the form in which it is stored. Why it is none; NULL: it is one. */
const char *gateway_form_reply(struct gateway *gateway, struct gateway_wanted *wanted);
/* The client waits for a reply to the request that it sends. */
void gateway_note_request(struct gateway *gateway, const struct gateway_asker *asker, const struct gateway_wishes *wishes);

/* How a message goes into the ring if it has such wishes. */
struct gateway_way {
    uint32_t delay_level;       /* of struct send_message */
    uint32_t size;              /* of what stands before the properties */
    uint8_t before[SEND_AT_SIZE + SEND_GROUP_MAX];
    const char *topic;          /* that must be there for it, beside its own; NULL: none */
};
/* Why there is no such way; NULL: there is. */
const char *gateway_find_way(const struct gateway_wanted *wanted, const struct gateway_wishes *wishes, struct gateway_way *way);

/* True if the topic of this name, NULL: of none, is missing, and Python was not asked for it yet. */
bool gateway_lacks(const struct gateway *gateway, const struct gateway_asker *asker, const char *topic);

/* Why nothing of the request can be taken, with the code for it; NULL: it can. Whether its topic may be written is not looked at. */
const char *gateway_refusal(const struct gateway_wanted *wanted, int32_t *code);

/* Notes that the last `count` messages of the sender are to be answered together. id: of the message; or empty. */
void gateway_note_sent(struct gateway *gateway, const struct gateway_asker *asker, const struct gateway_wanted *wanted, uint32_t count,
                       struct slice id);

/* gateway_back.c: a message that a group gives back by a send to its topic of retries, with what it was. */
enum gateway_served gateway_send_again(struct gateway *gateway, const struct gateway_asker *asker, struct gateway_wanted *wanted,
                                       struct slice body);

/* gateway_batch.c: a body of several messages. */
enum gateway_served gateway_send_batch(struct gateway *gateway, const struct gateway_asker *asker, const struct gateway_wanted *wanted,
                                       struct slice body);

#endif

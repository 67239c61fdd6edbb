/* What the files of sends share: a request that was read and found acceptable so far, and how its messages become part of the ring. */
#ifndef ORBITMQ_GATEWAY_SEND_H
#define ORBITMQ_GATEWAY_SEND_H

#include "format/reserved.h"
#include "remoting/gateway_parts.h"

/* What one request wants stored. */
struct gateway_wanted {
    struct slice name, properties;
    int64_t queue, sys_flag, born_ms, flag;
    bool batch;
    /* of the topic that is there */
    const struct topic_entry *topic;
    uint32_t index, queue_id;
    bool durable;
};

/* Puts properties as they go into the ring behind the `size` bytes of them that `to` holds, or only counts them if it is NULL. Returns the
 * size of all. *reserved is changed to the kind of the first name that no sender may set, if it was RESERVED_NOT. */
uint32_t gateway_put_properties(struct slice properties, uint8_t *to, uint32_t size, enum reserved *reserved);

/* Notes that the last `count` messages of the sender are to be answered together. id: of the message; or empty. */
void gateway_note_sent(struct gateway *gateway, const struct gateway_asker *asker, const struct gateway_wanted *wanted, uint32_t count,
                       struct slice id);

/* gateway_batch.c: a body of several messages. */
enum gateway_served gateway_send_batch(struct gateway *gateway, const struct gateway_asker *asker, const struct gateway_wanted *wanted,
                                       struct slice body);

#endif

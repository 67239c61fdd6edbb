/* The body of a batch: messages, one behind the other.
 *
 *     | size of all (4) | magic (4) | crc (4) | flag (4) | body size (4) | body | properties size (2) | properties |
 *
 * Magic and crc are of no use. Source: RocketMQ 4.9 MessageDecoder.encodeMessage.
 */
#ifndef ORBITMQ_REMOTING_BATCH_H
#define ORBITMQ_REMOTING_BATCH_H

#include "format/properties.h"

struct remoting_batch_entry {
    uint32_t flag;
    struct slice body, properties;
};

/* The next message; *rest is what follows it. False: these bytes are none. */
bool remoting_batch_next(struct slice *rest, struct remoting_batch_entry *entry);

#endif

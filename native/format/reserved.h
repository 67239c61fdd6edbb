/* Names that mean something to RocketMQ: of properties, which its clients and brokers write beside the sender's own, and of
 * topics, in which it keeps internal data. A sender that could use one would store a request that OrbitMQ does not carry out,
 * and that a RocketMQ broker might carry out later. They are refused until they work. What a store of RocketMQ's holds under
 * them can be read. Source: RocketMQ 4.9 and 5 MessageConst, TopicValidator, MixAll.
 */
#ifndef ORBITMQ_RESERVED_H
#define ORBITMQ_RESERVED_H

#include "format/properties.h"

enum reserved {
    RESERVED_NOT = 0,      /* a name of the sender's own */
    RESERVED_ID = 1,       /* UNIQ_KEY: the sender's id for the message, which is indexed; a sender may set it */
    RESERVED_ARGUMENT = 2, /* TAGS and KEYS, which are arguments of a send */
    RESERVED_NOTE = 3,     /* what brokers and clients note about a message */
    RESERVED_WISH = 4,     /* what asks a RocketMQ broker for something: to deliver later, again, in a transaction */
    RESERVED_REPLY = 5,    /* what makes a message a request or a reply: request() and reply() set it, a user's send may not */
};

/* What a property's name means. */
enum reserved reserved_property(struct slice name);

/* Why a sender may not set a property of this kind, for errors; NULL: it may. */
const char *reserved_property_why(enum reserved kind);

/* Why no sender may create or write a topic of this name, for errors; NULL: it is an ordinary topic. */
const char *reserved_topic_why(const uint8_t *name, uint32_t size);

#define RESERVED_REPLIES "DefaultCluster_REPLY_TOPIC"

/* True for the topic in which replies are kept: no user makes or changes it, but clients write to it. */
bool reserved_topic_of_replies(const uint8_t *name, uint32_t size);

/* True for a topic to which clients with message tracing send what they have done (TraceConstants, and TopicValidator's default). It
 * is an ordinary one, though its name is a system topic's: RocketMQ's broker makes nothing of it. */
bool reserved_topic_of_traces(const uint8_t *name, uint32_t size);

/* The first name in a properties string that no sender may set, if there is one. TAGS and KEYS are allowed here, and the names
 * of requests and replies, because this is how those arguments and calls travel. */
bool reserved_find(const uint8_t *properties, uint32_t size, struct slice *name);

#endif

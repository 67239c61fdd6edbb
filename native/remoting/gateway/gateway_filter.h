/* Which messages a remote consumer wants of a topic. Said in each pull, or once in heartbeats, for a group and a topic. A filter is compiled
 * once, and shared by all who say the same. */
#ifndef ORBITMQ_GATEWAY_FILTER_H
#define ORBITMQ_GATEWAY_FILTER_H

#include "client/reader.h"

#define GATEWAY_FILTERS 256u        /* different ones at a time */
#define GATEWAY_TAGS_MAX 64u        /* in one of them */
#define GATEWAY_SUBSCRIPTIONS 4096u /* that heartbeats have said */

struct gateway_filter {
    uint32_t users;    /* held pulls and subscriptions */
    uint64_t asked;    /* when it was last asked for, counted in questions */
    bool sql;
    struct slice text; /* its own copy */
    uint32_t tag_count;
    int32_t tags[GATEWAY_TAGS_MAX];
    struct sql_program *program;
};

struct gateway_subscription {
    uint64_t hash;                  /* of group and topic */
    struct slice group, topic;      /* copies of its own */
    struct gateway_filter *filter;  /* NULL: all messages */
    int64_t version;                /* the client's, which grows with each change; 0: it said none */
    bool bad;                       /* the text was no filter */
    bool elsewhere;                 /* a front's: only the lead has room for the filter */
    uint64_t learnt;                /* a front's: with which table */
};

struct gateway_filters {
    struct gateway_filter *filter[GATEWAY_FILTERS];
    uint32_t count;
    uint64_t asked;
    struct gateway_subscription *subscriptions;
    uint32_t subscription_count, subscription_room;
    uint64_t changes;               /* of subscriptions, counted */
    uint64_t tables;                /* a front's: that it has begun to take */
};

/* The filter of a text, SQL92 or tags ("a || b"); *filter NULL: all messages pass. False with *why: it is none, or there are too many. */
bool gateway_filter_find(struct gateway_filters *filters, bool sql, struct slice text, struct gateway_filter **filter, const char **why);

/* Whether the message passes; NULL: every one does. Tags by their hashes alone, as in RocketMQ: clients compare the texts. */
bool gateway_filter_passes(const struct gateway_filter *filter, const struct message_ref *ref);

/* What heartbeats have said of a group and a topic; NULL: nothing. */
const struct gateway_subscription *gateway_filter_of(const struct gateway_filters *filters, struct slice group, struct slice topic);

/* Remembers what a heartbeat says, in place of what was said before, unless that has a newer version. False: no memory, or too many. */
bool gateway_filter_subscribe(struct gateway_filters *filters, struct slice group, struct slice topic, bool sql, struct slice text, int64_t version);

/* A front: takes the lead's subscriptions, one after the other; those that are not among them are forgotten at the end. False: no memory, or too many. */
void gateway_filters_begin(struct gateway_filters *filters);
bool gateway_filter_learn(struct gateway_filters *filters, const struct gateway_subscription *told, bool sql, struct slice text);
void gateway_filters_end(struct gateway_filters *filters);

/* Forgets all of a group. */
void gateway_filter_unsubscribe(struct gateway_filters *filters, struct slice group);

void gateway_filters_free(struct gateway_filters *filters);

#endif

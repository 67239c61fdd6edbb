/* From a message that failed to its retry or its dead letter: body, flags, born time and host, tags, keys and the sender's properties are
 * kept; topic, queue, reconsume times and these properties are new, as RocketMQ's broker writes them:
 *
 *   RETRY_TOPIC, ORIGIN_MESSAGE_ID       of the message that was sent first
 *   WAIT                                 false
 *   DELAY, REAL_TOPIC, REAL_QID          of a retry, which waits in SCHEDULE_TOPIC_XXXX for %RETRY%group
 *   RECONSUME_TIME                       if a worker had it: how often it was handed out, as in the record's own field
 *   FAILURE_REASON, FAILURE_DIGEST       ours: why it failed last; without them if they make it too large
 */
#ifndef ORBITMQ_RETRY_IMAGE_H
#define ORBITMQ_RETRY_IMAGE_H

#include "format/record.h"
#include "shared/control.h"
#include "shared/topics.h"

/* What it is made of. */
struct failed {
    const struct record_view *view; /* checked; without a store host if it is no record, but what a client says that it was */
    uint64_t physical_offset;
    const struct topic_entry *topic; /* the group's, for retries or for dead letters */
    uint32_t queue;                  /* in that topic */
    uint32_t level;                  /* of delay, from 1 on; 0: it is a dead letter */
    uint32_t tries;                  /* its reconsume times */
    bool noted;                      /* RECONSUME_TIME says them too */
    struct slice reason, digest;     /* or empty */
};

/* What it becomes. */
struct retry_image {
    struct record_parts parts;         /* all of its record but the mark in the place of the prepared transaction offset */
    const struct topic_entry *topic;   /* in which it is stored */
};
enum retry_result {
    RETRY_MADE = 0,
    RETRY_TOPICS = 1,    /* there is no SCHEDULE_TOPIC_XXXX */
    RETRY_TOO_LARGE = 2, /* with what has to be noted */
};

/* A topic of the group's own, by its prefix; NULL: there is none. */
const struct topic_entry *retry_topic(const struct topics *topics, const char *prefix, struct slice group);

/* properties: room for PROPERTIES_MAX bytes; the image points there, and into the log. */
enum retry_result retry_make(const struct settings *settings, const struct topics *topics, const struct failed *failed, uint8_t *properties,
                             struct retry_image *image);

#endif

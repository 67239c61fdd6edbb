/* Retries and dead letters as RocketMQ keeps them: a message that failed in a group is stored again, for the topic %RETRY%group after a
 * delay, or in %DLQ%group once its tries are used up. Source: RocketMQ 4.9 SendMessageProcessor (consumerSendMsgBack).
 */
#ifndef ORBITMQ_RETRY_H
#define ORBITMQ_RETRY_H

#include "format/properties.h"

#define RETRY_PREFIX "%RETRY%"
#define DEAD_PREFIX "%DLQ%"
#define RETRY_LEVEL 3u /* the first retry waits for this level of delay, each further one for the next level */

/* A record that the dispatcher has put into the log names, in the place of the prepared transaction offset, the record that it was made
 * of: 'W' and its physical offset (56 bits). A sender cannot set this field. Its topic, or that for which it is scheduled, names the
 * group. So the log itself tells which messages of a group have been put elsewhere. */
#define RETRY_MARK UINT64_C(0x57)
static inline uint64_t retry_mark(uint64_t physical_offset)
{
    return RETRY_MARK << 56 | (physical_offset & ((UINT64_C(1) << 56) - 1));
}
static inline bool retry_of_mark(uint64_t mark, uint64_t *physical_offset)
{
    *physical_offset = mark & ((UINT64_C(1) << 56) - 1);
    return mark >> 56 == RETRY_MARK;
}

/* What follows the prefix; data == NULL: it does not begin with it. */
static inline struct slice retry_after(struct slice topic, const char *prefix)
{
    const uint32_t size = (uint32_t)strlen(prefix);
    if (topic.size <= size || memcmp(topic.data, prefix, size) != 0)
        return (struct slice){NULL, 0};
    return (struct slice){topic.data + size, topic.size - size};
}

#endif

/* Delayed messages as RocketMQ keeps them: a message with the property DELAY, a level from 1 on, waits in the topic
 * SCHEDULE_TOPIC_XXXX, and its ConsumeQueue unit has, in the place of the tags code, the time when it is due.
 * Source: RocketMQ 4.9 ScheduleMessageService, CommitLog; see docs/formats/consumequeue.md.
 */
#ifndef ORBITMQ_DELAY_H
#define ORBITMQ_DELAY_H

#include "format/properties.h"

#define DELAY_TOPIC "SCHEDULE_TOPIC_XXXX"
#define DELAY_LEVELS 18u

/* A message that was put into the log again when it was due names, in the place of the prepared transaction offset, the scheduled
 * record that it was made of: 'D', the level (8 bits), the offset in the level's queue (48 bits). A sender cannot set this field. So
 * the log itself tells which messages of the schedule topic are done. */
#define DELAY_MARK UINT64_C(0x44)
static inline uint64_t delay_mark(uint32_t level, uint64_t offset)
{
    return DELAY_MARK << 56 | (uint64_t)(level + 1) << 48 | offset;
}
/* False if the record was not put there by a scheduler. *level: from 0. */
static inline bool delay_of_mark(uint64_t mark, uint32_t *level, uint64_t *offset)
{
    *level = (uint32_t)(mark >> 48 & 0xFF) - 1;
    *offset = mark & ((UINT64_C(1) << 48) - 1);
    return mark >> 56 == DELAY_MARK && *level < DELAY_LEVELS;
}

/* How long messages of a level wait. level: from 0. */
uint64_t delay_level_ms(uint32_t level);

static inline bool delay_is_topic(struct slice topic)
{
    return topic.size == sizeof DELAY_TOPIC - 1 && __builtin_memcmp(topic.data, DELAY_TOPIC, sizeof DELAY_TOPIC - 1) == 0;
}

/* When a message with this DELAY property that was stored at store_ms is due, ms; 0 if it names no level. Levels above the last
 * one count as the last. */
uint64_t delay_due_ms(struct slice level, uint64_t store_ms);

/* The third field of a record's ConsumeQueue unit: the due time of a delayed message, else the code of its tag. */
static inline int64_t delay_or_tags_code(struct slice topic, struct slice properties, struct slice tags, uint64_t store_ms)
{
    if (__builtin_expect(delay_is_topic(topic), 0)) {
        const struct slice level = properties_get(properties.data, properties.size, "DELAY", 5);
        const uint64_t due_ms = delay_due_ms(level, store_ms);
        if (due_ms)
            return (int64_t)due_ms;
    }
    return tags_code(tags);
}

#endif

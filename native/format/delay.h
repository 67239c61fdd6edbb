/* Delayed messages as RocketMQ keeps them: a message with the property DELAY, a level from 1 on, waits in the topic
 * SCHEDULE_TOPIC_XXXX; one with the property TIMER_OUT_MS, a time, waits in queue 0 of rmq_sys_wheel_timer. The ConsumeQueue unit
 * has, in the place of the tags code, the time when it is due (of the second kind OrbitMQ's alone).
 * Source: RocketMQ 4.9 ScheduleMessageService, CommitLog; RocketMQ 5 TimerMessageStore; see docs/formats/consumequeue.md.
 */
#ifndef ORBITMQ_DELAY_H
#define ORBITMQ_DELAY_H

#include "format/properties.h"

#include <assert.h>

#define DELAY_TOPIC "SCHEDULE_TOPIC_XXXX"
#define DELAY_LEVELS 18u
#define TIMER_TOPIC "rmq_sys_wheel_timer"
#define TIMER_MOST_MS (UINT64_C(366) * 86400 * 1000) /* the longest that a message can wait */
static_assert(sizeof DELAY_TOPIC == sizeof TIMER_TOPIC, "one comparison of sizes tells messages that do not wait");

/* A message that was put into the log again when it was due names, in the place of the prepared transaction offset, the waiting
 * record that it was made of: 'D', the level (8 bits), the offset in the level's queue (48 bits); or 'T', and the offset in the queue
 * of the second kind. That one has 'P' there as long as it waits, which tells it from one of RocketMQ's. A sender cannot set this
 * field. So the log itself tells which messages are done.
 *
 * A record that cancels a message of the second kind lies behind it in its queue, and has 'C' and the message's queue offset there. */
#define DELAY_MARK UINT64_C(0x44)
#define TIMER_MARK UINT64_C(0x54)
#define TIMER_WAITS (UINT64_C(0x50) << 56)
#define CANCEL_MARK UINT64_C(0x43)
#define MARK_OFFSET ((UINT64_C(1) << 56) - 1)
static inline uint64_t cancel_mark(uint64_t offset) { return CANCEL_MARK << 56 | (offset < MARK_OFFSET ? offset : MARK_OFFSET); }
static inline uint64_t timer_mark(uint64_t offset) { return TIMER_MARK << 56 | offset; }
static inline bool timer_of_mark(uint64_t mark, uint64_t *offset)
{
    *offset = mark & MARK_OFFSET;
    return mark >> 56 == TIMER_MARK;
}
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

static inline bool timer_is_topic(struct slice topic)
{
    return topic.size == sizeof TIMER_TOPIC - 1 && __builtin_memcmp(topic.data, TIMER_TOPIC, sizeof TIMER_TOPIC - 1) == 0;
}

/* The time in a TIMER_OUT_MS property, ms; 0 if it is none. */
uint64_t delay_time_ms(struct slice out_ms);

/* What is done of the messages with a time, in four numbers (actors/scheduler/timer.h): known, due time, offset, floor. */
struct timer_done {
    uint64_t known, due_ms, offset, floor;
};
static inline bool timer_is_done(const struct timer_done *done, uint64_t due_ms, uint64_t offset)
{
    return offset < done->floor || (offset < done->known && (due_ms != done->due_ms ? due_ms < done->due_ms : offset <= done->offset));
}

/* Index of the first unit that is not done, of these that begin with queue offset `first`; `count` if all are. */
uint32_t delay_first_waiting(const uint8_t *units, uint32_t count, uint64_t first, const uint64_t timer[4]);
/* How many are not done. */
uint32_t delay_count_waiting(const uint8_t *units, uint32_t count, uint64_t first, const uint64_t timer[4]);

/* When a message with this DELAY property that was stored at store_ms is due, ms; 0 if it names no level. Levels above the last
 * one count as the last. */
uint64_t delay_due_ms(struct slice level, uint64_t store_ms);

/* The third field of the unit of a record that cancels the message at this queue offset. No tag has such a code: those are 32 bits. */
static inline int64_t cancel_code(uint64_t offset) { return INT64_MIN + (int64_t)offset; }
static inline bool cancel_of_code(int64_t code, uint64_t *offset)
{
    *offset = (uint64_t)code - (uint64_t)INT64_MIN;
    return *offset <= MARK_OFFSET;
}

/* The third field of a record's ConsumeQueue unit: the due time of a delayed message, or what a record cancels, else the code of its tag.
 * mark: its prepared transaction offset. */
static inline int64_t delay_or_tags_code(struct slice topic, struct slice properties, struct slice tags, uint64_t store_ms, uint64_t mark)
{
    if (__builtin_expect(topic.size == sizeof DELAY_TOPIC - 1, 0)) {
        uint64_t due_ms = 0;
        if (delay_is_topic(topic))
            due_ms = delay_due_ms(properties_get(properties.data, properties.size, "DELAY", 5), store_ms);
        else if (timer_is_topic(topic) && mark >> 56 == CANCEL_MARK)
            return cancel_code(mark & MARK_OFFSET);
        else if (timer_is_topic(topic))
            due_ms = delay_time_ms(properties_get(properties.data, properties.size, "TIMER_OUT_MS", 12));
        if (due_ms)
            return (int64_t)due_ms;
    }
    return tags_code(tags);
}

#endif

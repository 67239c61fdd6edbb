/* RocketMQ's levels of delay, in its default setting (messageDelayLevel); a message names its level, not its time. */
#include "format/delay.h"

#include "format/consume_queue.h"

#define SECOND 1000u
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)

static const uint32_t level_ms[DELAY_LEVELS] = {
    1 * SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND, 1 * MINUTE, 2 * MINUTE,  3 * MINUTE,  4 * MINUTE, 5 * MINUTE,
    6 * MINUTE, 7 * MINUTE, 8 * MINUTE,  9 * MINUTE,  10 * MINUTE, 20 * MINUTE, 30 * MINUTE, 1 * HOUR,   2 * HOUR,
};

uint64_t delay_level_ms(uint32_t level) { return level_ms[level]; }

uint64_t delay_time_ms(struct slice out_ms)
{
    uint64_t due = 0;
    if (out_ms.size > 15)
        return 0;
    for (uint32_t i = 0; i < out_ms.size; i++) {
        const uint32_t digit = out_ms.data[i] - (uint32_t)'0';
        if (digit > 9)
            return 0;
        due = due * 10 + digit;
    }
    return due;
}

uint64_t delay_due_ms(struct slice level, uint64_t store_ms)
{
    uint32_t number = 0;
    for (uint32_t i = 0; i < level.size; i++) {
        const uint32_t digit = level.data[i] - (uint32_t)'0';
        if (digit > 9)
            return 0;
        number = number > DELAY_LEVELS ? number : number * 10 + digit; /* once it is too high, it stays too high */
    }
    if (number == 0)
        return 0;
    return store_ms + level_ms[(number > DELAY_LEVELS ? DELAY_LEVELS : number) - 1];
}

/* Of a unit at this queue offset. */
static bool waits(const uint8_t *unit, uint64_t offset, const uint64_t timer[4])
{
    const struct timer_done done = {timer[0], timer[1], timer[2], timer[3]};
    const int64_t due = queue_unit_load(unit).tags_code;
    uint64_t cancelled;
    return !cancel_of_code(due, &cancelled) && !timer_is_done(&done, due > 0 ? (uint64_t)due : 0, offset);
}

uint32_t delay_first_waiting(const uint8_t *units, uint32_t count, uint64_t first, const uint64_t timer[4])
{
    for (uint32_t i = 0; i < count; i++)
        if (waits(units + (size_t)i * CONSUME_QUEUE_UNIT, first + i, timer))
            return i;
    return count;
}

uint32_t delay_count_waiting(const uint8_t *units, uint32_t count, uint64_t first, const uint64_t timer[4])
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        found += waits(units + (size_t)i * CONSUME_QUEUE_UNIT, first + i, timer);
    return found;
}

/* What a message's properties ask the broker for: they are read and taken out, and decide the way that the message goes. */
#include "base/clock.h"
#include "format/delay.h"
#include "format/record.h"
#include "format/reserved.h"
#include "format/transaction.h"
#include "remoting/gateway/gateway_wish.h"

#include <string.h>
#include <strings.h>

#define WISH(text) {(const uint8_t *)(text), sizeof(text) - 1}

static const struct slice NAMES[WISH_COUNT] = {
    [WISH_WAIT] = WISH("WAIT"),
    [WISH_LEVEL] = WISH("DELAY"),
    [WISH_AFTER_S] = WISH("TIMER_DELAY_SEC"),
    [WISH_AFTER_MS] = WISH("TIMER_DELAY_MS"),
    [WISH_AT_MS] = WISH("TIMER_DELIVER_MS"),
    [WISH_HALF] = WISH("TRAN_MSG"),
    [WISH_GROUP] = WISH("PGROUP"),
};

/* WISH_COUNT: it is none of them. */
static uint32_t find_wish(struct slice name)
{
    uint32_t wish = 0;
    while (wish < WISH_COUNT && (NAMES[wish].size != name.size || memcmp(NAMES[wish].data, name.data, name.size) != 0))
        wish++;
    return wish;
}

static void read_request(struct slice name, struct slice value, struct gateway_wishes *wishes)
{
    if (name.size == 3) /* the names of RESERVED_REPLY differ in their sizes */
        wishes->waits = value;
    else if (name.size == 14)
        wishes->correlation = value;
    else if (name.size == 15)
        wishes->reply_to = value;
}

uint32_t gateway_put_properties(struct slice properties, uint8_t *to, uint32_t size, struct gateway_wishes *wishes)
{
    struct slice name, value;
    uint32_t at = 0;
    while (properties_next(properties.data, properties.size, &at, &name, &value)) {
        const enum reserved kind = reserved_property(name);
        if (kind == RESERVED_NOTE || kind == RESERVED_WISH) {
            const uint32_t wish = find_wish(name);
            if (wish < WISH_COUNT) {
                wishes->value[wish] = value;
                continue;
            }
            if (kind == RESERVED_NOTE)
                continue; /* of a message that the client had from a broker; this one makes its own */
            wishes->wants_more = true;
        }
        if (kind == RESERVED_REPLY)
            read_request(name, value, wishes);
        if (to) {
            if (size)
                to[size] = PROPERTY_END;
            memcpy(to + size + (size > 0), name.data, name.size + 1 + value.size); /* with what is between them */
        }
        size += (size > 0) + name.size + 1 + value.size;
    }
    return size;
}

/* When the message is wanted, ms since 1970. False: that is no time. In this order, as RocketMQ 5 (HookUtils.transformTimerMessage). */
static bool read_time(const struct gateway_wishes *wishes, int64_t now_ms, int64_t *at_ms)
{
    int64_t delay = 0;
    if (wishes->value[WISH_AFTER_S].data) {
        if (!remoting_number(wishes->value[WISH_AFTER_S], &delay) || __builtin_mul_overflow(delay, 1000, &delay))
            return false;
    } else if (wishes->value[WISH_AFTER_MS].data) {
        if (!remoting_number(wishes->value[WISH_AFTER_MS], &delay))
            return false;
    } else {
        return remoting_number(wishes->value[WISH_AT_MS], at_ms);
    }
    return !__builtin_add_overflow(now_ms, delay, at_ms);
}

static bool is_half(const struct gateway_wanted *wanted, const struct gateway_wishes *wishes)
{
    const struct slice said = wishes->value[WISH_HALF];
    return wanted->sys_flag & SYSFLAG_TRANSACTION || (said.size == 4 && strncasecmp((const char *)said.data, "true", 4) == 0);
}

static const char *find_way_of_half(const struct gateway_wanted *wanted, const struct gateway_wishes *wishes, struct gateway_way *way)
{
    const struct slice named = wishes->value[WISH_GROUP], group = named.data ? named : wanted->group;
    if ((wanted->sys_flag & SYSFLAG_TRANSACTION & ~(int64_t)SYSFLAG_PREPARED) != 0)
        return "only a transaction that begins is sent; it ends by a request of its own";
    if (!group.size || group.size > SEND_GROUP_MAX)
        return "a transaction has a producer group, with a name of at most 255 bytes";
    const uint64_t size = group.size;
    memcpy(way->before, &size, SEND_AT_SIZE);
    memcpy(way->before + SEND_AT_SIZE, group.data, group.size);
    way->size = SEND_AT_SIZE + group.size;
    way->delay_level = SEND_HALF;
    way->topic = OP_TOPIC; /* which is made together with the other */
    return NULL;
}

const char *gateway_find_way(const struct gateway_wanted *wanted, const struct gateway_wishes *wishes, struct gateway_way *way)
{
    const bool has_time = wishes->value[WISH_AFTER_S].data || wishes->value[WISH_AFTER_MS].data || wishes->value[WISH_AT_MS].data;
    int64_t level = 0;
    *way = (struct gateway_way){0};
    if (wishes->value[WISH_LEVEL].data && !remoting_number(wishes->value[WISH_LEVEL], &level))
        return "its delay level is no number";
    if (is_half(wanted, wishes))
        return level > 0 || has_time ? "the message of a transaction cannot be delayed" : find_way_of_half(wanted, wishes, way);
    if (level > 0) { /* and a time does not matter */
        way->delay_level = level < DELAY_LEVELS ? (uint32_t)level : DELAY_LEVELS;
        way->topic = DELAY_TOPIC;
        return NULL;
    }
    if (!has_time)
        return NULL;
    const int64_t now_ms = (int64_t)clock_real_ms();
    int64_t at_ms;
    if (!read_time(wishes, now_ms, &at_ms))
        return "the time for which it is wanted is no number";
    if (at_ms <= now_ms)
        return NULL; /* at once */
    if (at_ms - now_ms > (int64_t)TIMER_MOST_MS)
        return "the time for which it is wanted is more than 366 days away";
    way->delay_level = SEND_AT;
    way->size = SEND_AT_SIZE;
    memcpy(way->before, &at_ms, SEND_AT_SIZE);
    way->topic = TIMER_TOPIC;
    return NULL;
}

/* Messages that a group gives back (CONSUMER_SEND_MSG_BACK, 36): its consumer could not process one, and wants it again later. The request names
 * the place in the log; the handler makes a retry or a dead letter of the record there (handler_back.c).
 *
 * If one of the group's topics for that is missing, Python is asked once, which has the coordinator make them.
 * Source: RocketMQ 4.9 SendMessageProcessor (consumerSendMsgBack).
 */
#include "base/clock.h"
#include "base/crash_point.h"
#include "format/delay.h"
#include "format/retry.h"
#include "remoting/gateway_send.h"

#define MOST 16         /* reconsume times, unless the client says how many */
#define MOST_SINCE 121  /* the version of RocketMQ (3.4.9) from which on it can */

/* The group's topic with this prefix; NULL: there is none. */
static const struct topic_entry *find_own(const struct gateway *gateway, const char *prefix, struct slice group, uint32_t *index)
{
    uint8_t name[TOPIC_NAME_MAX];
    const uint32_t before = (uint32_t)strlen(prefix);
    if (!group.size || group.size > TOPIC_NAME_MAX - before)
        return NULL;
    memcpy(name, prefix, before);
    memcpy(name + before, group.data, group.size);
    return gateway_topic(gateway, (struct slice){name, before + group.size}, index);
}

/* What the message is to be becomes durable with its topic: otherwise a power cut could keep the group's progress and lose the retry. */
static bool is_durable(const struct gateway *gateway, const struct remoting_header *header, uint32_t retries)
{
    const struct sender *const sender = &gateway->sender;
    uint32_t origin;
    if (!gateway_topic(gateway, remoting_field(header, "originTopic"), &origin))
        return true; /* it may have been */
    return sender->control->settings.flush_every_message || topic_durable(sender->topics, origin) || topic_durable(sender->topics, retries);
}

static int32_t clamp(int64_t number) { return (int32_t)(number < INT32_MIN ? INT32_MIN : number > INT32_MAX ? INT32_MAX : number); }

/* Why it cannot be asked for, with the code; NULL: it can. */
static const char *read_asked(const struct remoting_header *header, struct send_back *back, int32_t *code)
{
    int64_t offset = -1, level = 0, most = MOST;
    *code = GATEWAY_SYSTEM_ERROR;
    if (!remoting_field_number(header, "offset", &offset) || offset < 0)
        return "the request has no offset in the log";
    if (!remoting_field_number(header, "delayLevel", &level))
        return "the request has no delay level";
    if (header->version >= MOST_SINCE)
        remoting_field_number(header, "maxReconsumeTimes", &most);
    *back = (struct send_back){.physical_offset = (uint64_t)offset, .level = clamp(level), .most = clamp(most)};
    return NULL;
}

enum gateway_served gateway_back(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header)
{
    const struct slice group = remoting_field(header, "group"), waiting = {(const uint8_t *)DELAY_TOPIC, sizeof DELAY_TOPIC - 1};
    struct sender *const sender = &gateway->sender;
    struct gateway_wanted wanted = {0};
    struct send_back back;
    uint32_t index;
    int32_t code;
    const char *const why = read_asked(header, &back, &code);
    if (why) {
        gateway_refuse(gateway, asker, code, why);
        return GATEWAY_SERVED;
    }
    const bool ready = gateway_topic(gateway, waiting, &index) && find_own(gateway, DEAD_PREFIX, group, &index) &&
                       find_own(gateway, RETRY_PREFIX, group, &wanted.index);
    if (!ready && !gateway->connections[asker->connection]->prepared)
        return GATEWAY_ASKED;
    if (!ready) {
        gateway_refuse(gateway, asker, GATEWAY_NO_GROUP, "the group's topics for retries and dead letters do not exist any more");
        return GATEWAY_SERVED;
    }
    wanted.durable = is_durable(gateway, header, wanted.index);
    const struct send_message message = {.properties_size = sizeof back, .delay_level = SEND_BACK};
    const uint32_t room = (uint32_t)send_message_stride(sizeof back, 0);
    if (sender_open(sender, wanted.index, wanted.durable ? SEND_FLUSH : 0, clock_real_ms(), room) != SENDER_OK)
        return GATEWAY_STALLED;
    uint8_t *const at = sender_add(sender, &message);
    assert(at);
    memcpy(at, &back, sizeof back);
    gateway_note_sent(gateway, asker, &wanted, 1, (struct slice){0});
    gateway->sent[(gateway->sent_to - 1) & (sender->shape.window - 1)].back = true;
    CRASH_POINT("gateway_back_put");
    sender_close(sender);
    CRASH_POINT("gateway_back_published");
    return GATEWAY_SERVED;
}

void gateway_tell_back(struct gateway *gateway, const struct gateway_sent *sent)
{
    gateway_begin(gateway, GATEWAY_SUCCESS, NULL);
    gateway_finish(gateway, &sent->asker, NULL, 0);
}

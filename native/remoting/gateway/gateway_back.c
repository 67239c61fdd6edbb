/* Messages that a group gives back (CONSUMER_SEND_MSG_BACK, 36): its consumer could not process one, and wants it again later. The request names
 * the place in the log; the handler makes a retry or a dead letter of the record there (handler_back.c). Java's consumers send the message to
 * their topic of retries instead when that fails, and when it was tried often enough in its order.
 *
 * If one of the group's topics for that is missing, Python is asked once, which has the coordinator make them.
 * Source: RocketMQ 4.9 SendMessageProcessor (consumerSendMsgBack).
 */
#include "base/clock.h"
#include "base/crash_point.h"
#include "format/delay.h"
#include "format/retry.h"
#include "remoting/gateway/gateway_send.h"

#define MOST_SINCE 121 /* the version of RocketMQ (3.4.9) from which on a client can say how many tries are the most */

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

/* True if the group has what it takes. *retries: the index of its topic for retries. */
static bool has_topics(const struct gateway *gateway, struct slice group, uint32_t *retries)
{
    const struct slice waiting = {(const uint8_t *)DELAY_TOPIC, sizeof DELAY_TOPIC - 1};
    uint32_t index;
    return gateway_topic(gateway, waiting, &index) && find_own(gateway, DEAD_PREFIX, group, &index) &&
           find_own(gateway, RETRY_PREFIX, group, retries);
}

/* What the message is to be becomes durable with its topic: otherwise a power cut could keep the group's progress and lose the retry. */
static bool is_durable(const struct gateway *gateway, struct slice topic, uint32_t retries)
{
    const struct sender *const sender = &gateway->sender;
    uint32_t origin;
    if (!gateway_topic(gateway, topic, &origin))
        return true; /* it may have been */
    return sender->control->settings.flush_every_message || topic_durable(sender->topics, origin) || topic_durable(sender->topics, retries);
}

static enum gateway_served refuse_group(struct gateway *gateway, const struct gateway_asker *asker)
{
    gateway_refuse(gateway, asker, GATEWAY_NO_GROUP, "the group's topics for retries and dead letters do not exist any more");
    return GATEWAY_SERVED;
}

static int32_t clamp(int64_t number) { return (int32_t)(number < INT32_MIN ? INT32_MIN : number > INT32_MAX ? INT32_MAX : number); }

/* Why it cannot be asked for, with the code; NULL: it can. */
static const char *read_asked(const struct remoting_header *header, struct send_back *back, int32_t *code)
{
    int64_t offset = -1, level = 0, most = GATEWAY_MOST_TRIES;
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
    const struct slice group = remoting_field(header, "group");
    struct sender *const sender = &gateway->sender;
    struct gateway_wanted wanted = {0};
    struct send_back back;
    int32_t code;
    const char *const why = read_asked(header, &back, &code);
    if (why) {
        gateway_refuse(gateway, asker, code, why);
        return GATEWAY_SERVED;
    }
    const bool ready = has_topics(gateway, group, &wanted.index);
    if (!ready && !gateway->connections[asker->connection]->prepared)
        return GATEWAY_ASKED;
    if (!ready)
        return refuse_group(gateway, asker);
    wanted.durable = is_durable(gateway, remoting_field(header, "originTopic"), wanted.index);
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

enum gateway_served gateway_send_again(struct gateway *gateway, const struct gateway_asker *asker, struct gateway_wanted *wanted,
                                       struct slice body)
{
    const struct slice origin = properties_get(wanted->properties.data, wanted->properties.size, "RETRY_TOPIC", 11);
    const struct slice said = properties_get(wanted->properties.data, wanted->properties.size, "DELAY", 5);
    struct sender *const sender = &gateway->sender;
    int64_t level = 0;
    int32_t code = GATEWAY_ILLEGAL;
    const char *const why = said.data && !remoting_number(said, &level) ? "its delay level is no number"
                            : !origin.data                              ? "it does not say to which topic it was sent first (RETRY_TOPIC)"
                            : wanted->tries < 0                         ? "its reconsume times are no number from 0 on"
                                                                        : gateway_refusal(wanted, &code);
    if (why) {
        gateway_refuse_send(gateway, asker, code, why);
        return GATEWAY_SERVED;
    }
    if (!has_topics(gateway, retry_after(wanted->name, RETRY_PREFIX), &wanted->index))
        return gateway->connections[asker->connection]->prepared ? refuse_group(gateway, asker) : GATEWAY_ASKED;
    wanted->durable = is_durable(gateway, origin, wanted->index);
    wanted->queue_id = wanted->queue >= 0 ? (uint32_t)wanted->queue : 0;
    const struct send_again again = {.level = clamp(level), .most = clamp(wanted->most), .tries = clamp(wanted->tries)};
    const struct send_message message = {
        .body_size = body.size,
        .properties_size = (uint32_t)sizeof again + wanted->properties.size,
        .queue_id = wanted->queue_id,
        .flag = (uint32_t)(int32_t)wanted->flag,
        .sys_flag = record_body_flag((uint32_t)wanted->sys_flag),
        .delay_level = SEND_AGAIN,
    };
    enum gateway_served served;
    uint8_t *const at = gateway_open_frame(gateway, asker, wanted, false, &message, &served);
    if (!at)
        return served;
    memcpy(at, &again, sizeof again);
    if (wanted->properties.size)
        memcpy(at + sizeof again, wanted->properties.data, wanted->properties.size);
    if (body.size)
        memcpy(at + message.properties_size, body.data, body.size);
    gateway_note_sent(gateway, asker, wanted, 1, properties_get(wanted->properties.data, wanted->properties.size, "UNIQ_KEY", 8));
    CRASH_POINT("gateway_back_again");
    sender_close(sender);
    return GATEWAY_SERVED;
}

/* Ends of transactions (END_TRANSACTION, 37). The half message is named by its place: queue offset, offset in the log; and by its id, which the
 * answer to its send named. The end goes into the submission ring like a message; what ends first counts. Java's client asks one-way.
 * Source: RocketMQ 4.9 EndTransactionProcessor.
 */
#include "base/crash_point.h"
#include "base/clock.h"
#include "format/transaction.h"
#include "remoting/gateway/gateway_send.h"
#include "shared/halves.h"

/* How the transaction is to end (SETTLE_); 0: not now. */
static uint64_t read_how(const struct remoting_header *header)
{
    int64_t how = 0;
    remoting_field_number(header, "commitOrRollback", &how);
    return how == SYSFLAG_COMMITTED ? SETTLE_COMMIT : how == SYSFLAG_ROLLED_BACK ? SETTLE_ROLLBACK : 0;
}

static bool find_halves(const struct gateway *gateway, struct gateway_wanted *wanted)
{
    return gateway_topic(gateway, (struct slice){(const uint8_t *)HALF_TOPIC, sizeof HALF_TOPIC - 1}, &wanted->index);
}

/* False: there is no room in the ring now. */
static bool put(struct gateway *gateway, const struct gateway_asker *asker, const struct gateway_wanted *wanted,
                const struct send_settle *settle)
{
    struct sender *const sender = &gateway->sender;
    const struct send_message message = {.properties_size = sizeof *settle, .delay_level = SEND_SETTLE};
    const uint32_t room = (uint32_t)send_message_stride(sizeof *settle, 0);
    if (sender_open(sender, wanted->index, wanted->durable ? SEND_FLUSH : 0, clock_real_ms(), room) != SENDER_OK)
        return false;
    uint8_t *const at = sender_add(sender, &message);
    assert(at);
    memcpy(at, settle, sizeof *settle);
    gateway_note_sent(gateway, asker, wanted, 1, (struct slice){0});
    gateway->sent[(gateway->sent_to - 1) & (sender->shape.window - 1)].ends = (uint8_t)settle->how;
    CRASH_POINT("gateway_transaction_put");
    sender_close(sender);
    CRASH_POINT("gateway_transaction_published");
    return true;
}

enum gateway_served gateway_end(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header)
{
    const struct slice id = remoting_field(header, "transactionId");
    struct gateway_wanted wanted = {.durable = gateway->sender.control->settings.flush_every_message};
    struct send_settle settle = {.how = read_how(header)};
    int64_t offset = -1, physical_offset = -1;
    if (!settle.how)
        return GATEWAY_SERVED; /* RocketMQ does not answer this either */
    remoting_field_number(header, "tranStateTableOffset", &offset);
    remoting_field_number(header, "commitLogOffset", &physical_offset);
    if (!find_halves(gateway, &wanted) || offset < 0 || physical_offset < 0) {
        gateway_refuse(gateway, asker, GATEWAY_SYSTEM_ERROR, "there is no such transaction");
        return GATEWAY_SERVED;
    }
    settle.offset = (uint64_t)offset;
    settle.physical_offset = (uint64_t)physical_offset;
    if (id.size)
        memcpy(settle.id, id.data, id.size < sizeof settle.id ? id.size : sizeof settle.id);
    return put(gateway, asker, &wanted, &settle) ? GATEWAY_SERVED : GATEWAY_STALLED;
}

bool gateway_give_up(struct gateway *gateway, uint64_t offset, uint64_t physical_offset)
{
    const struct gateway_asker nobody = {.one_way = true}; /* no connection has the epoch 0 */
    struct gateway_wanted wanted = {0};
    const struct send_settle settle = {.offset = offset, .physical_offset = physical_offset, .how = SETTLE_GIVE_UP};
    return gateway->attached && find_halves(gateway, &wanted) && put(gateway, &nobody, &wanted, &settle);
}

void gateway_tell_end(struct gateway *gateway, const struct gateway_sent *sent, const struct completion *verdict)
{
    const uint32_t wanted = sent->ends == SETTLE_COMMIT ? HALF_COMMITTED : HALF_ROLLED_BACK;
    if (verdict_stored(verdict->code) || (verdict->code == VERDICT_SETTLED && verdict->detail == wanted)) {
        gateway_begin(gateway, GATEWAY_SUCCESS, NULL);
        gateway_finish(gateway, &sent->asker, NULL, 0);
    } else if (verdict->code == VERDICT_SETTLED) {
        gateway_refuse(gateway, &sent->asker, GATEWAY_SYSTEM_ERROR, "the transaction has ended before, and perhaps otherwise");
    } else if (verdict->code == VERDICT_UNKNOWN_HALF) {
        gateway_refuse(gateway, &sent->asker, GATEWAY_SYSTEM_ERROR, "there is no such transaction");
    } else if (verdict->code == VERDICT_UNKNOWN_TOPIC) {
        gateway_refuse(gateway, &sent->asker, GATEWAY_SYSTEM_ERROR, "the topic of the transaction's message does not exist any more");
    } else {
        gateway_refuse(gateway, &sent->asker, GATEWAY_NOT_AVAILABLE, "the transaction could not be ended now; orbitmq status says why");
    }
}

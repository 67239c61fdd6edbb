/* The answers to sends, when their verdicts have come: receipts and refusals. */
#include "base/bytes.h"
#include "base/crash_point.h"
#include "remoting/gateway/gateway_parts.h"

#include <stdio.h>

/* RocketMQ's code for a verdict that is no receipt. Java's producer tries another broker, or this one again, after 14, 16 and 17. */
static const struct refused {
    uint32_t verdict;
    int32_t code;
    const char *why;
} REFUSED[] = {
    {VERDICT_UNKNOWN_TOPIC, GATEWAY_NO_TOPIC, "the topic does not exist any more"},
    {VERDICT_UNKNOWN_MESSAGE, GATEWAY_SYSTEM_ERROR, "the log has no message at this offset that a group can give back"},
    {VERDICT_NO_PERMISSION, GATEWAY_NO_PERMISSION, "the topic may not be written"},
    {VERDICT_BODY_TOO_LARGE, GATEWAY_ILLEGAL, "the message is larger than the broker accepts (message_max)"},
    {VERDICT_BATCH_TOO_LARGE, GATEWAY_ILLEGAL, "the batch is larger than the broker accepts at once; send fewer messages in it, or raise lane_capacity"},
    {VERDICT_PROPERTIES_TOO_LARGE, GATEWAY_ILLEGAL, "the properties are longer than 32,767 bytes"},
    {VERDICT_BEHIND, GATEWAY_NOT_AVAILABLE, "the queues are too far behind the log to look for the message now; orbitmq status shows how far"},
    {VERDICT_HALVES_FULL, GATEWAY_NOT_AVAILABLE, "too many transactions have begun while the oldest has not ended"},
    {VERDICT_DEDUP_FULL, GATEWAY_BUSY, "no more ids can be remembered (dedup_ids, dedup_window_s)"},
    {VERDICT_BATCH_DIFFERS, GATEWAY_ILLEGAL, "under its dedupId a batch of another number of messages is stored"},
    {VERDICT_RESERVED, GATEWAY_ILLEGAL, "a property has a name that no sender may set"},
    {VERDICT_STORE_FULL, GATEWAY_NOT_AVAILABLE, "the store has no room for another file"},
    {VERDICT_STORE_FAILED, GATEWAY_NOT_AVAILABLE, "the store cannot be written; orbitmq status says why"},
    {VERDICT_SYNC_FAILED, GATEWAY_NOT_AVAILABLE, "the store cannot be written; orbitmq status says why"},
    {VERDICT_READ_ONLY, GATEWAY_NOT_AVAILABLE, "the store cannot be written; orbitmq status says why"},
};
static const struct refused REFUSED_OTHERWISE = {VERDICT_NONE, GATEWAY_SYSTEM_ERROR, "the message was refused"};

static const struct refused *refused(uint32_t verdict)
{
    for (uint32_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++)
        if (REFUSED[i].verdict == verdict)
            return &REFUSED[i];
    return &REFUSED_OTHERWISE;
}

/* The verdict of message `index` of those that are answered together. */
static struct completion verdict_of(const struct gateway *gateway, const struct gateway_sent *sent, uint32_t index)
{
    return sender_verdict(&gateway->sender, sent->sequence - sent->count + 1 + index);
}

/* The message that was refused; sent->count if all are stored. In an atomic batch one is the reason for the others. */
static uint32_t find_refused(const struct gateway *gateway, const struct gateway_sent *sent)
{
    uint32_t found = sent->count;
    for (uint32_t i = 0; i < sent->count; i++) {
        const uint32_t verdict = verdict_of(gateway, sent, i).code;
        if (!verdict_stored(verdict) && verdict != VERDICT_BATCH_REFUSED)
            return i;
        if (!verdict_stored(verdict))
            found = i;
    }
    return found;
}

static void refuse(struct gateway *gateway, const struct gateway_sent *sent, uint32_t index)
{
    const struct refused *const how = refused(verdict_of(gateway, sent, index).code);
    char text[160];
    if (sent->count > 1)
        snprintf(text, sizeof text, "nothing of the batch is stored, because of its message %u: %s", index + 1, how->why);
    (sent->back ? gateway_refuse : gateway_refuse_send)(gateway, &sent->asker, how->code, sent->count > 1 ? text : how->why);
}

/* The id of a stored message: the address that readers of it may dial, and its place. Returns what is behind it. */
static char *write_id(char *id, const struct record_host *host, uint64_t offset)
{
    static const char digits[] = "0123456789ABCDEF";
    uint8_t raw[RECORD_HOST_V6 + 8];
    memcpy(raw, host->data, host->size);
    store_be64(raw + host->size, offset);
    static_assert(GATEWAY_ID_ROOM > 2 * sizeof raw, "an id, and what follows it");
    for (uint32_t i = 0; i < host->size + 8; i++) {
        *id++ = digits[raw[i] >> 4];
        *id++ = digits[raw[i] & 15];
    }
    return id;
}

/* code: how far it has got. */
static void tell(struct gateway *gateway, const struct gateway_sent *sent, int32_t code, const char *remark)
{
    struct gateway_number queue, offset;
    char *id = gateway->ids;
    for (uint32_t i = 0; i < sent->count; i++) {
        id = write_id(id, &gateway->sender.control->settings.store_host, verdict_of(gateway, sent, i).physical_offset);
        *id++ = i + 1 < sent->count ? ',' : 0;
    }
    struct remoting_header *const answer = gateway_begin(gateway, code, remark);
    gateway_add_text(answer, "msgId", gateway->ids);
    const struct completion first = verdict_of(gateway, sent, 0);
    gateway_add_number(answer, "queueId", first.code == VERDICT_DUPLICATE ? first.queue_id : sent->queue_id, &queue);
    gateway_add_number(answer, "queueOffset", (int64_t)first.queue_offset, &offset);
    if (first.code == VERDICT_DUPLICATE)
        gateway_add_text(answer, "duplicate", "true"); /* RocketMQ's clients do not look for it */
    if (sent->id_size)
        remoting_field_add(answer, "transactionId", (struct slice){sent->id, sent->id_size});
    gateway_add_region(answer);
    gateway_finish(gateway, &sent->asker, NULL, 0);
}

/* True while a message that is to be on the disk is not there. *error: it will not get there. */
static bool unflushed(const struct gateway *gateway, uint64_t end, uint32_t *error)
{
    const struct position *const flushed = &gateway->sender.control->flushed;
    /* acquire: as in sender.c, look [F1] */
    if (atomic_load_explicit(&flushed->value, memory_order_acquire) >= end)
        return false;
    /* relaxed: an error only ends the wait sooner */
    *error = atomic_load_explicit(&flushed->error, memory_order_relaxed);
    return true;
}

/* What was passed on behind it may be served now, on the other side of a relay. */
static void note_answered(struct gateway *gateway, const struct gateway_sent *sent)
{
    struct connection *const connection = gateway_connection(gateway, &sent->asker);
    if (connection && --connection->sends == 0)
        gateway_mark(gateway, connection);
}

uint32_t gateway_answer_sent(struct gateway *gateway)
{
    static const char not_on_disk[] = "the message is stored, but the disk failed before it was there";
    struct sender *const sender = &gateway->sender;
    uint32_t done = 0;
    const uint64_t completed = gateway->attached ? sender_completed(sender) : 0;
    for (; gateway->sent_from < gateway->sent_to; gateway->sent_from++, done++) {
        const struct gateway_sent *const sent = &gateway->sent[gateway->sent_from & (sender->shape.window - 1)];
        if (sent->sequence > completed)
            break;
        const struct completion last = sender_verdict(sender, sent->sequence);
        const uint32_t not_stored = find_refused(gateway, sent);
        const bool stored = not_stored == sent->count;
        uint32_t error = 0;
        if (stored && sent->durable && unflushed(gateway, last.physical_offset + last.size, &error) && !error)
            break;
        CRASH_POINT("gateway_receipt_due");
        if (sent->ends && !error)
            gateway_tell_end(gateway, sent, &last);
        else if (!stored)
            refuse(gateway, sent, not_stored);
        else if (error && sent->back)
            gateway_refuse(gateway, &sent->asker, GATEWAY_SYSTEM_ERROR, not_on_disk);
        else if (sent->back)
            gateway_tell_back(gateway, sent);
        else
            tell(gateway, sent, error ? GATEWAY_FLUSH_FAILED : GATEWAY_SUCCESS, error ? not_on_disk : NULL);
        note_answered(gateway, sent);
        sender_settle(sender, sent->sequence);
        CRASH_POINT("gateway_receipt_settled");
    }
    return done;
}

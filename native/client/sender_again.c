/* A sender that keeps its frames: what is in flight stays in the submission ring, although the handler has taken it, until the sender has
 * the verdict. If the tree dies, the ring is still mapped, and the same messages are sent to the next tree from there. Their ids keep those
 * that were stored from being stored twice. They are sent in the order of the ring, and before anything new. What a session has sent
 * is stored in the order of the ring, so what was stored of it is the beginning: the rest comes behind it.
 */
#include "client/sender.h"

#include <string.h>

void sender_keep(struct sender *sender)
{
    assert(sender->submitted == sender->settled);
    sender->keeps = true;
    sender->kept_after = sender->settled;
    ring_consumer_attach(&sender->kept, sender->parts.sq, sender->shape.sq_capacity, sender->sq.position);
}

bool sender_kept_room(const struct sender *sender, uint64_t payload)
{
    const uint64_t stride = ring_stride(payload), capacity = sender->sq.capacity;
    const uint64_t to_end = capacity - (sender->sq.position & (capacity - 1));
    const uint64_t end = sender->sq.position + (to_end < stride ? to_end : 0) + stride;
    return end - sender->kept.position <= capacity;
}

static uint32_t messages_of(const struct ring_record *header, const uint8_t *payload)
{
    return header->type == SQ_ATOMIC ? ((const struct send_atomic *)payload)->count : ((const struct send_frame *)payload)->count;
}

void sender_let_go(struct sender *sender)
{
    struct ring_record header;
    uint8_t *payload;
    while (sender->kept_after < sender->settled && ring_peek(&sender->kept, &header, &payload) == RING_RECORD) {
        const uint32_t count = messages_of(&header, payload);
        if (sender->kept_after + count > sender->settled)
            break;
        ring_pass(&sender->kept, &header);
        sender->kept_after += count;
    }
}

static uint64_t stride_at(const uint8_t *at)
{
    const struct send_message *message = (const struct send_message *)at;
    return send_message_stride(message->properties_size, message->body_size);
}

/* Adds so many messages to the open frame; returns what follows them. */
static const uint8_t *add_messages(struct sender *to, const uint8_t *at, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct send_message *message = (const struct send_message *)at;
        uint8_t *content = sender_add(to, message);
        assert(content);
        memcpy(content, message + 1, (size_t)message->properties_size + message->body_size);
        at += stride_at(at);
    }
    return at;
}

/* Sends the frame's messages from number `skip` on. */
static bool send_frame(struct sender *to, uint32_t topic, const struct send_frame *frame, uint32_t skip, uint64_t size)
{
    const uint8_t *at = (const uint8_t *)(frame + 1), *end = (const uint8_t *)frame + size;
    for (uint32_t i = 0; i < skip; i++)
        at += stride_at(at);
    if (sender_open(to, topic, frame->flags, frame->born_ms, (uint32_t)(end - at)) != SENDER_OK)
        return false; /* not in a session of the same shape: what fitted then fits into an empty one */
    add_messages(to, at, frame->count - skip);
    sender_close(to);
    return true;
}

/* Sends an atomic batch: with all of its messages, or not at all. */
static bool send_atomic(struct sender *to, const struct sender *from, const struct send_atomic *atomic, uint64_t size)
{
    const uint8_t *at = (const uint8_t *)(atomic + 1);
    uint32_t topics[2] = {TOPIC_NONE, TOPIC_NONE}; /* a topic of `from`, and the same of `to` */
    if (atomic->count > lane_batch_messages(to->control->settings.lane_capacity) ||
        sender_open_atomic(to, atomic->count, (uint32_t)(size - sizeof *atomic)) != SENDER_OK)
        return false; /* the tree takes less than its predecessor did */
    for (uint32_t i = 0; i < atomic->frames; i++) {
        const struct send_frame *frame = (const struct send_frame *)(const void *)at;
        if (topics[0] != frame->topic) {
            const struct topic_entry *entry = &from->topics->topic[frame->topic];
            topics[0] = frame->topic;
            topics[1] = topics_find(to->topics, entry->name, entry->name_size);
        }
        if (topics[1] == TOPIC_NONE) {
            sender_void(to);
            return false;
        }
        sender_atomic_frame(to, topics[1], frame->flags, frame->born_ms);
        at = add_messages(to, (const uint8_t *)(frame + 1), frame->count);
    }
    sender_close(to);
    return true;
}

uint32_t sender_again(struct sender *to, struct sender *from, uint64_t now_ms, bool *sent)
{
    struct ring_record header;
    uint8_t *payload;
    *sent = false;
    if (ring_peek(&from->kept, &header, &payload) != RING_RECORD)
        return 0;
    const bool atomic = header.type == SQ_ATOMIC;
    const struct send_frame *frame = (const struct send_frame *)(payload + (atomic ? sizeof(struct send_atomic) : 0)); /* its first */
    const uint32_t count = messages_of(&header, payload);
    const uint32_t skip = (uint32_t)(from->settled - from->kept_after);
    /* The window counts from when a message was stored, which was not before it was born. Half of it is left to the new tree. */
    if ((frame->flags & SEND_DEDUP) &&
        (now_ms < frame->born_ms || now_ms - frame->born_ms < to->control->settings.dedup_window_ms / 2)) {
        const uint64_t size = header.length - RING_HEADER;
        const struct topic_entry *entry = &from->topics->topic[frame->topic];
        const uint32_t topic = topics_find(to->topics, entry->name, entry->name_size);
        *sent = topic != TOPIC_NONE && (!atomic       ? send_frame(to, topic, frame, skip, size)
                                        : skip == 0   ? send_atomic(to, from, (const struct send_atomic *)payload, size)
                                                      : false); /* it lies in one write group: its verdicts, and the disk, came for all */
    }
    ring_pass(&from->kept, &header);
    from->kept_after += count;
    from->settled += count - skip;
    return count - skip;
}

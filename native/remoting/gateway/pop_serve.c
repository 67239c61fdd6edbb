/* Answers to pops, out of the mapped log. One answer has messages of one hand-out, which follow each other in one queue and are at the same
 * delivery. Their receipts need no more than RocketMQ's form has room for: the moment of the pop, and for the number of the revive queue, of
 * which OrbitMQ has none, the how many-th delivery it is.
 */
#include "base/bytes.h"
#include "base/crash_point.h"
#include "format/retry.h"
#include "remoting/gateway/gateway_pop.h"

#include <inttypes.h>
#include <stdio.h>

#define TRIES_AT 72u /* in a record: reconsume times */
#define TRIED_PIECES (GATEWAY_RECORD_PIECES + 2u)
#define OFFSETS_ROOM (48u + POP_MOST * 21u)
#define COUNTS_ROOM (64u + POP_MOST * 50u)

struct fields {
    struct gateway_number numbers[4];
    char start[64], offsets[OFFSETS_ROOM], counts[COUNTS_ROOM];
};

static struct remoting_header *begin(struct gateway *gateway, struct fields *fields, int32_t code, const char *status, int64_t pop_ms,
                                     uint64_t invisible_ms, uint32_t tries)
{
    struct remoting_header *const header = gateway_begin(gateway, code, status);
    gateway_add_number(header, "popTime", pop_ms, &fields->numbers[0]);
    gateway_add_number(header, "invisibleTime", (int64_t)invisible_ms, &fields->numbers[1]);
    gateway_add_number(header, "reviveQid", tries, &fields->numbers[2]);
    gateway_add_number(header, "restNum", 0, &fields->numbers[3]);
    return header;
}

/* What an answer with these fields says of messages, in order or not. */
static void add_places(struct remoting_header *header, const struct fields *fields, bool ordered)
{
    gateway_add_text(header, "startOffsetInfo", fields->start);
    gateway_add_text(header, "msgOffsetInfo", fields->offsets);
    if (ordered)
        gateway_add_text(header, "orderCountInfo", fields->counts);
}

void pop_refuse(struct gateway *gateway, const struct gateway_asker *asker, int32_t code, const char *status, uint64_t invisible_ms, bool ordered)
{
    struct fields fields;
    struct remoting_header *const header = begin(gateway, &fields, code, status, (int64_t)clock_real_ms(), invisible_ms, 0);
    fields.start[0] = fields.offsets[0] = fields.counts[0] = 0;
    add_places(header, &fields, ordered);
    gateway_finish(gateway, asker, NULL, 0);
}

/* The record with another number of reconsume times. */
static uint32_t tried_record(const struct message_ref *ref, bool region, struct gateway_sizes *sizes, const uint8_t *times, struct iovec *pieces)
{
    struct iovec plain[GATEWAY_RECORD_PIECES];
    const uint32_t plain_count = gateway_record(ref, region, sizes, plain);
    uint32_t count = 0;
    for (uint64_t i = 0, at = 0; i < plain_count; at += plain[i++].iov_len) {
        uint8_t *const data = plain[i].iov_base;
        const uint64_t size = plain[i].iov_len;
        if (at > TRIES_AT || at + size < TRIES_AT + 4) {
            pieces[count++] = plain[i];
            continue;
        }
        pieces[count++] = (struct iovec){data, TRIES_AT - at};
        pieces[count++] = (struct iovec){(void *)(uintptr_t)times, 4};
        pieces[count++] = (struct iovec){data + (TRIES_AT + 4 - at), size - (TRIES_AT + 4 - at)};
    }
    return count;
}

int64_t pop_moment(struct gateway *gateway)
{
    const int64_t now = (int64_t)clock_real_ms();
    gateway->pop_ms = now >= gateway->pop_ms ? now : gateway->pop_ms + 1;
    return gateway->pop_ms;
}

/* Takes messages off the first range of the stock. */
static void used(struct pop_link *link, uint32_t count)
{
    struct pop_range *const range = &link->stock[link->stock_from];
    range->first += count;
    range->count -= count;
    link->stock_count -= count;
    if (!range->count)
        link->stock_from++;
    else if (link->ordered && count)
        pop_link_give_back_rest(link); /* it waits for what was taken */
}

/* What of [from, to) is not there any more is done. */
static void pass_over(struct pop_link *link, const struct pop_range *range, uint64_t from, uint64_t to)
{
    if (from < to)
        pop_link_answer(link, WORK_ACK, range->slot, range->opening, from, (uint32_t)(to - from), range->tries, 0, NULL);
}

bool pop_serve(struct gateway *gateway, struct pop_link *link, const struct pop_wait *wait)
{
    struct reader *const reader = gateway->reader;
    const struct pop_range range = link->stock[link->stock_from];
    const uint32_t most = range.count < wait->most ? range.count : wait->most;
    const int64_t cursor = gateway_cursor(gateway, range.slot);
    if (cursor < 0) {
        link->lost = true;
        return false;
    }
    const uint32_t found = reader_fetch_range(reader, (uint32_t)cursor, range.first, most);
    if (!found) {
        if (reader->fault.error || reader->fault.record != RECORD_GOOD) {
            pop_link_answer(link, WORK_NACK, range.slot, range.opening, range.first, 1, range.tries, POP_DAMAGED_MS, NULL);
            used(link, 1);
        } else {
            pass_over(link, &range, range.first, range.first + most);
            used(link, most);
        }
        reader_release(reader);
        return false;
    }
    struct fields fields;
    struct iovec pieces[1 + POP_MOST * TRIED_PIECES];
    struct gateway_sizes sizes[POP_MOST];
    uint8_t times[4];
    const uint64_t now = clock_ms(), until = now + wait->invisible_ms + 1; /* so the wall clock has moved, too */
    const int64_t pop_ms = pop_moment(gateway);
    const uint32_t tries = range.tries;
    const struct reader_name *const name = &reader->names[reader->cursors[cursor].name];
    const int mark = retry_after((struct slice){name->text, name->size}, RETRY_PREFIX).data != NULL; /* so that clients know the topic again */
    const uint32_t queue_id = reader->cursors[cursor].queue_id;
    uint32_t served = 0, count = 1, size = 0, counted = 0;
    uint64_t bytes = 0, next = range.first;
    store_be32(times, tries - 1);
    for (; served < found && bytes <= POP_BYTES; served++) {
        const struct message_ref *const ref = &reader->refs[served];
        struct pop_lease *const lease = pop_leases_add(&link->leases, range.slot, ref->queue_offset, until);
        if (!lease)
            break;
        lease->held_ms = now + POP_HELD_MS;
        lease->pop_ms = pop_ms;
        lease->tries = tries;
        lease->opening = range.opening;
        lease->attempt = wait->attempt;
        lease->repeats = false;
        pass_over(link, &range, next, ref->queue_offset);
        next = ref->queue_offset + 1;
        count += tried_record(ref, wait->asker.five, &sizes[served], times, pieces + count);
        bytes += ref->size;
        size += size ? (uint32_t)snprintf(fields.offsets + size, OFFSETS_ROOM - size, ",%" PRIu64, ref->queue_offset)
                     : (uint32_t)snprintf(fields.offsets, OFFSETS_ROOM, "%d %" PRIu32 " %" PRIu64, mark, queue_id, ref->queue_offset);
        if (tries > 1) /* how often it came before */
            counted += (uint32_t)snprintf(fields.counts + counted, COUNTS_ROOM - counted, "%d qo%" PRIu32 "%%%" PRIu64 " %" PRIu32 ";", mark, queue_id,
                                          ref->queue_offset, tries - 1);
    }
    if (served) {
        struct remoting_header *const header = begin(gateway, &fields, GATEWAY_SUCCESS, "FOUND", pop_ms, wait->invisible_ms, tries);
        snprintf(fields.start, sizeof fields.start, "%d %" PRIu32 " %" PRIu64, mark, queue_id, reader->refs[0].queue_offset);
        /* of the whole queue, which clients of older versions read */
        snprintf(fields.counts + counted, COUNTS_ROOM - counted, "%d %" PRIu32 " %" PRIu32, mark, queue_id, tries - 1);
        add_places(header, &fields, link->ordered);
        CRASH_POINT("pop_serve_leased");
        gateway_finish(gateway, &wait->asker, pieces, count);
        CRASH_POINT("pop_serve_answered");
    }
    reader_release(reader);
    if (served < found && bytes <= POP_BYTES) { /* no lease: our clients have as many as they may, or there is no memory */
        link->crowded = link->leases.count >= POP_LEASES_MAX;
        link->lost |= !link->crowded;
    }
    used(link, (uint32_t)(next - range.first));
    return served;
}

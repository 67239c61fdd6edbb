/* Pops: POP_MESSAGE (200050). Each waits in its link until something was handed out, or its time is over. gateway_pop.h has the whole. */
#include "base/crash_point.h"
#include "base/hash.h"
#include "remoting/gateway/gateway_pop.h"

#include <stdlib.h>

#define SETTLE_MS 2000u /* how long a stop waits for the dispatcher */

static bool is(struct slice text, const char *word) { return text.size == strlen(word) && memcmp(text.data, word, text.size) == 0; }

bool pop_hold(struct pop_link *link, const struct pop_wait *wait)
{
    if (link->wait_count == link->wait_room) {
        const uint32_t room = link->wait_room ? 2 * link->wait_room : 16;
        struct pop_wait *const waits = room <= POP_WAITS ? realloc(link->waits, room * sizeof *waits) : NULL;
        if (!waits)
            return false;
        link->waits = waits;
        link->wait_room = room;
    }
    link->waits[link->wait_count++] = *wait;
    CRASH_POINT("gateway_pop_held");
    return true;
}

uint64_t pop_poll_ms(int64_t asked)
{
    return asked < POP_POLL_MS_MIN ? POP_POLL_MS_MIN : asked > POP_POLL_MS_MAX ? POP_POLL_MS_MAX : (uint64_t)asked;
}

/* What the request says; false: it was refused. */
static bool read_wait(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header,
                      const struct topic_entry *topic, struct pop_wait *wait)
{
    int64_t queue, most, invisible, poll = 0;
    const char *why = NULL;
    remoting_field_number(header, "pollTime", &poll);
    /* relaxed: single words that change independently */
    if (!remoting_field_number(header, "queueId", &queue) || !remoting_field_number(header, "maxMsgNums", &most) ||
        !remoting_field_number(header, "invisibleTime", &invisible))
        why = "the request has no queue, number of messages or invisible time";
    else if (queue >= (int64_t)atomic_load_explicit(&topic->queues, memory_order_relaxed))
        why = "the topic has no queue of this number";
    else if (most < 1 || most > POP_MOST)
        why = "it wants fewer than 1 or more than 32 messages";
    else if (invisible < 1 || invisible > (int64_t)POP_INVISIBLE_MS_MAX)
        why = "the invisible time lies outside 1 ms to 11 hours";
    if (why) {
        gateway_refuse(gateway, asker, GATEWAY_INVALID_PARAMETER, why);
        return false;
    }
    *wait = (struct pop_wait){.asker = *asker, .most = (uint32_t)most, .queue = queue < 0 ? -1 : (int32_t)queue,
                              .invisible_ms = (uint64_t)invisible, .until_ms = clock_ms() + pop_poll_ms(poll)};
    return true;
}

uint32_t pop_opened_by(const struct gateway *gateway, const struct connection *connection)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < gateway->pop_count; i++)
        count += gateway->pops[i]->opener == connection->index && gateway->pops[i]->opener_epoch == connection->epoch;
    return count;
}

/* A client that got no answer asks again by the same attemptId. What the answer had goes back, and is not counted as delivered; a moment later, so
 * that the receipts differ. */
static void repeat(struct pop_link *link, uint64_t attempt)
{
    struct pop_lease *lease;
    for (uint32_t position = 0; attempt && (lease = pop_leases_next(&link->leases, &position));)
        if (lease->attempt == attempt) {
            lease->repeats = true;
            pop_leases_move(&link->leases, lease, clock_ms() + 2);
        }
}

/* A link by which clients have only asked whether there is a message does not say how the group pops: it gives back what it has, and is closed, so
 * that the first pop does. True while one is on its way; for a second, in case the dispatcher hangs. */
static bool make_way(struct gateway *gateway, const struct gateway_popped *what)
{
    const uint64_t now = clock_ms();
    bool waits = false;
    for (uint32_t i = 0; i < gateway->pop_count; i++) {
        struct pop_link *const link = gateway->pops[i];
        if (link->popped || link->group.size != what->group.size || memcmp(link->group.data, what->group.data, what->group.size) != 0)
            continue;
        if (!link->yields_ms)
            link->yields_ms = now;
        waits |= now - link->yields_ms < POP_YIELD_MS;
    }
    return waits;
}

enum gateway_served gateway_pop(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header)
{
    struct pop_wait wait;
    uint32_t index;
    if (asker->one_way)
        return GATEWAY_SERVED; /* nobody would get the messages */
    const struct slice group = remoting_field(header, "consumerGroup"), name = remoting_field(header, "topic");
    const struct topic_entry *const topic = gateway_topic(gateway, name, &index);
    if (!topic) {
        gateway_refuse(gateway, asker, GATEWAY_NO_TOPIC, "the topic does not exist");
        return GATEWAY_SERVED;
    }
    /* relaxed: a single word */
    if (!(atomic_load_explicit(&topic->perm, memory_order_relaxed) & PERM_READ)) {
        gateway_refuse(gateway, asker, GATEWAY_NO_PERMISSION, "the topic may not be read");
        return GATEWAY_SERVED;
    }
    if (!read_wait(gateway, asker, header, topic, &wait))
        return GATEWAY_SERVED;
    struct gateway_popped what = {.group = group, .topic = name, .filter = remoting_field(header, "exp"),
                                  .sql = is(remoting_field(header, "expType"), "SQL92"),
                                  .ordered = is(remoting_field(header, "order"), "true")};
    if (is(what.filter, "*"))
        what.filter.size = 0;
    const struct connection *const connection = gateway->connections[asker->connection];
    struct pop_link *const link = pop_link_find(gateway, &what);
    if (!link && !connection->prepared && make_way(gateway, &what))
        return GATEWAY_STALLED;
    if (!link && !connection->prepared && pop_opened_by(gateway, connection) >= POP_LINKS_OF_ONE) {
        gateway_refuse(gateway, asker, GATEWAY_SYSTEM_ERROR, "this connection pops other groups, topics or filters already, as many as one may");
        return GATEWAY_SERVED;
    }
    if (!link && !connection->prepared)
        return GATEWAY_ASKED;
    if (!link) {
        gateway_refuse(gateway, asker, GATEWAY_SYSTEM_ERROR, "the group cannot get messages now");
        return GATEWAY_SERVED;
    }
    link->used_ms = clock_ms();
    link->popped = true;
    link->yields_ms = 0;
    if (connection->prepared && !link->opener_epoch) {
        link->opener = connection->index;
        link->opener_epoch = connection->epoch;
    }
    const struct slice attempt = remoting_field(header, "attemptId");
    if (what.ordered && attempt.size)
        wait.attempt = (uint64_t)hash_bytes(HASH_BEGIN, attempt.data, attempt.size) << 32 | hash_bytes(~HASH_BEGIN, attempt.data, attempt.size) | 1;
    repeat(link, wait.attempt);
    if (!pop_hold(link, &wait))
        pop_refuse(gateway, asker, GATEWAY_POLLING_FULL, "POLLING_FULL", wait.invisible_ms, link->ordered);
    return GATEWAY_SERVED;
}

/* ---- rounds ---- */

static void lapse(struct pop_link *link, uint64_t now)
{
    struct pop_lease lease;
    for (uint32_t position = 0; pop_leases_lapsed(&link->leases, now, &position, &lease);) {
        CRASH_POINT("gateway_pop_lapsed");
        pop_link_answer(link, lease.repeats ? WORK_GIVE_BACK : WORK_NACK, lease.slot, lease.opening, lease.offset, 1, lease.tries, 0, NULL);
    }
}

/* True if its client does not read: nothing is handed out for it, and no clock counts, until it does. */
static bool is_full(const struct gateway *gateway, const struct pop_wait *wait)
{
    const struct connection *const connection = gateway_connection(gateway, &wait->asker);
    return connection && connection_unsent(connection) > CONNECTION_OUT_MAX;
}

/* True if this wait is over: answered, or its client has gone. */
static bool serve(struct gateway *gateway, struct pop_link *link, struct pop_wait *wait, uint64_t now)
{
    struct connection *const connection = gateway_connection(gateway, &wait->asker);
    if (!connection || connection->deaf)
        return true;
    wait->full = is_full(gateway, wait);
    if (wait->full && !gateway->stopping && !link->lost) { /* however many it has: they wait until it has read what was said to it */
        connection->holds_full = true;
        return false;
    }
    const bool serves = !wait->full && !gateway->stopping && !link->lost && !link->yields_ms && !connection->finished;
    if (wait->notice && serves && !link->crowded && link->stock_count) {
        gateway_tell_notice(gateway, &wait->asker, true, false);
        return true;
    }
    while (!wait->notice && serves && !link->lost && !link->crowded && link->stock_count)
        if (pop_serve(gateway, link, wait))
            return true;
    if (now < wait->until_ms && !gateway->stopping && !link->lost && !link->yields_ms && !connection->finished)
        return false;
    if (wait->notice)
        gateway_tell_notice(gateway, &wait->asker, false, false);
    else
        pop_refuse(gateway, &wait->asker, GATEWAY_POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE", wait->invisible_ms, link->ordered);
    return true;
}

static uint32_t look_at(struct gateway *gateway, struct pop_link *link, uint64_t now)
{
    const uint64_t given = link->given;
    const bool taken = pop_link_take(gateway, link);
    uint32_t done = 0, left = 0;
    bool notices = false;
    link->open = 0;
    link->asked = 0;
    lapse(link, now);
    link->crowded = link->crowded && link->leases.count >= POP_LEASES_MAX;
    for (uint32_t i = 0; i < link->wait_count; i++) {
        if (serve(gateway, link, &link->waits[i], now)) {
            done++;
            continue;
        }
        const struct pop_wait *const wait = &link->waits[i];
        link->open += !wait->full;
        link->asked += wait->full || wait->notice ? 0 : wait->most;
        notices |= !wait->full && wait->notice;
        link->waits[left++] = *wait;
    }
    link->wait_count = left;
    link->asked += notices ? POP_MOST : 0; /* as many as the pop that follows may want; for all of them */
    if (done)
        link->used_ms = now;
    const bool unwanted = link->stock_count && (link->crowded || link->yields_ms || (!link->open && (gateway->stopping || now - link->used_ms >= POP_STOCK_MS)));
    if (unwanted || (link->crowded && link->open))
        pop_link_check(link, now);
    if (unwanted)
        pop_link_give_back(link);
    if (!link->lost)
        pop_link_put(link);
    return done + taken + (link->given != given) + pop_link_tell(gateway, link);
}

uint32_t gateway_look_at_pops(struct gateway *gateway)
{
    uint32_t done = 0;
    const uint64_t now = gateway->pop_count ? clock_ms() : 0;
    for (uint32_t i = 0; i < gateway->pop_count; i++)
        done += look_at(gateway, gateway->pops[i], now);
    return done;
}

bool gateway_pops_wait(const struct gateway *gateway)
{
    for (uint32_t i = 0; i < gateway->pop_count; i++)
        if (gateway->pops[i]->wait_count || gateway->pops[i]->told != gateway->pops[i]->given || gateway->pops[i]->stock_count)
            return true;
    return false;
}

uint64_t gateway_pops_until(const struct gateway *gateway)
{
    uint64_t until = UINT64_MAX;
    for (uint32_t i = 0; i < gateway->pop_count; i++) {
        const struct pop_link *const link = gateway->pops[i];
        if (link->leases.until_ms < until)
            until = link->leases.until_ms;
        if (link->stock_count && !link->open && link->used_ms + POP_STOCK_MS < until)
            until = link->used_ms + POP_STOCK_MS;
        for (uint32_t w = 0; w < link->wait_count; w++) {
            const struct pop_wait *const wait = &link->waits[w];
            if (is_full(gateway, wait))
                continue;
            if (wait->full)
                return 0; /* its client has read since the last look */
            if (wait->until_ms < until)
                until = wait->until_ms;
        }
    }
    return until;
}

bool gateway_pops_unsettled(const struct gateway *gateway)
{
    if (clock_ms() - gateway->stopping_ms > SETTLE_MS)
        return false;
    for (uint32_t i = 0; i < gateway->pop_count; i++)
        if (!gateway->pops[i]->lost && gateway->pops[i]->told != gateway->pops[i]->given)
            return true;
    return false;
}

bool gateway_owes_pop(const struct gateway *gateway, const struct connection *connection)
{
    for (uint32_t i = 0; i < gateway->pop_count; i++) {
        const struct pop_link *const link = gateway->pops[i];
        for (uint32_t w = 0; w < link->wait_count; w++)
            if (gateway_is_its_own(&link->waits[w].asker, connection))
                return true;
        for (uint64_t a = link->told; a < link->given; a++) {
            const struct pop_promise *const promise = link->answers[a - link->base].promise;
            if (promise && gateway_is_its_own(&promise->asker, connection))
                return true;
        }
    }
    return false;
}

void gateway_pops_free(struct gateway *gateway)
{
    while (gateway->pop_count)
        pop_link_free(gateway->pops[--gateway->pop_count]);
}

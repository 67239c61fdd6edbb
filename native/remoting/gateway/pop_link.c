/* One link: what the dispatcher hands out to it, and what it is told. */
#include "base/crash_point.h"
#include "remoting/gateway/gateway_pop.h"

#include <stdlib.h>

#define RECORDS 256u

static bool same(struct slice a, struct slice b) { return a.size == b.size && (!a.size || memcmp(a.data, b.data, a.size) == 0); }

struct pop_link *pop_link_find(const struct gateway *gateway, const struct gateway_popped *what)
{
    for (uint32_t i = 0; i < gateway->pop_count; i++) {
        struct pop_link *const link = gateway->pops[i];
        if (!link->lost && link->ordered == what->ordered && same(link->group, what->group) && same(link->topic, what->topic) &&
            (what->any || (link->sql == what->sql && same(link->filter, what->filter))))
            return link;
    }
    return NULL;
}

void pop_link_free(struct pop_link *link)
{
    pop_leases_free(&link->leases);
    for (; link->told < link->given; link->told++) {
        struct pop_promise *const promise = link->answers[link->told - link->base].promise;
        if (promise && --promise->left == 0)
            free(promise);
    }
    if (link->work)
        work_link_close(link->work);
    free(link->name);
    free(link->stock);
    free(link->answers);
    free(link->waits);
    free(link);
}

/* ---- hand-outs ---- */

static void stock(struct pop_link *link, const struct work_record *record)
{
    if (link->stock_to == link->stock_room) {
        if (link->stock_from) {
            memmove(link->stock, link->stock + link->stock_from, (link->stock_to - link->stock_from) * sizeof *link->stock);
            link->stock_to -= link->stock_from;
            link->stock_from = 0;
        } else {
            const uint32_t room = link->stock_room ? 2 * link->stock_room : 16;
            struct pop_range *const ranges = realloc(link->stock, room * sizeof *ranges);
            if (!ranges) {
                link->lost = true; /* what it has comes again */
                return;
            }
            link->stock = ranges;
            link->stock_room = room;
        }
    }
    link->stock[link->stock_to++] =
        (struct pop_range){.first = record->first, .slot = record->queue, .opening = record->opening, .count = record->count, .tries = record->tries};
    link->stock_count += record->count;
}

/* The group was moved, say: what was handed out before is not ours any more. */
static void forget(struct pop_link *link, const struct work_record *record)
{
    for (uint32_t i = 0; i < record->count; i++) {
        struct pop_lease *const lease = pop_leases_find(&link->leases, record->queue, record->first + i);
        if (lease && lease->opening == record->opening && lease->tries == record->tries)
            pop_leases_remove(&link->leases, lease);
    }
}

bool pop_link_take(struct gateway *gateway, struct pop_link *link)
{
    struct work_record records[RECORDS];
    uint32_t count, taken = 0;
    while ((count = work_link_take(link->work, records, RECORDS)) > 0) {
        for (uint32_t i = 0; i < count; i++) {
            if (records[i].kind == WORK_HAND_OUT)
                stock(link, &records[i]);
            else if (records[i].kind == WORK_REFUSED)
                forget(link, &records[i]);
        }
        taken += count;
    }
    if (!gateway->stopping && !work_link_alive(link->work))
        link->lost = true;
    return taken;
}

/* ---- answers ---- */

static bool make_room(struct pop_link *link)
{
    if (link->given - link->base < link->answers_room)
        return true;
    const uint64_t left = link->given - link->told;
    const uint32_t room = 2 * left < link->answers_room ? link->answers_room : link->answers_room ? 2 * link->answers_room : 64;
    struct pop_answer *const answers = malloc(room * sizeof *answers);
    if (!answers) {
        link->lost = true;
        return false;
    }
    if (left)
        memcpy(answers, link->answers + (link->told - link->base), left * sizeof *answers);
    free(link->answers);
    link->answers = answers;
    link->answers_room = room;
    link->base = link->told;
    return true;
}

bool pop_link_answer(struct pop_link *link, enum work_kind kind, uint32_t slot, uint32_t opening, uint64_t first, uint32_t count,
                     uint32_t tries, uint64_t time_ms, struct pop_promise *promise)
{
    const uint32_t most = link->work->capacity / 4; /* of one record */
    for (uint32_t part; count; first += part, count -= part) {
        part = count < most ? count : most;
        if (!make_room(link))
            return false;
        link->answers[link->given++ - link->base] = (struct pop_answer){
            .first = first, .time_ms = time_ms, .kind = kind, .slot = slot, .opening = opening, .count = part, .tries = tries,
            .promise = count == part ? promise : NULL};
    }
    return true;
}

void pop_link_give_back_rest(struct pop_link *link)
{
    const struct pop_range *const range = &link->stock[link->stock_from++];
    link->stock_count -= range->count;
    pop_link_answer(link, WORK_GIVE_BACK, range->slot, range->opening, range->first, range->count, range->tries, 0, NULL);
}

void pop_link_give_back(struct pop_link *link)
{
    while (link->stock_count)
        pop_link_give_back_rest(link);
}

void pop_link_check(struct pop_link *link, uint64_t now_ms)
{
    struct pop_lease *lease;
    if (link->lost || !link->leases.count || link->told != link->given || (link->checked_ms && now_ms - link->checked_ms < POP_CHECK_MS))
        return;
    link->checked_ms = now_ms;
    for (uint32_t position = 0; (lease = pop_leases_next(&link->leases, &position));) {
        if (!pop_link_answer(link, WORK_EXTEND, lease->slot, lease->opening, lease->offset, 1, lease->tries, POP_HELD_MS, NULL))
            return;
        lease->held_ms = now_ms + POP_HELD_MS;
    }
}

/* What clients have, and what others wait for. */
static uint32_t wanted(const struct pop_link *link)
{
    const uint32_t asked = link->asked;
    if (link->crowded) /* the dispatcher may not count all that we have */
        return 0;
    const uint32_t sum = link->leases.count + (asked > link->stock_count ? asked : link->stock_count);
    return sum < POP_LEASES_MAX ? sum : POP_LEASES_MAX;
}

void pop_link_put(struct pop_link *link)
{
    const uint64_t before = link->put;
    const uint32_t want = wanted(link), had = link->wanted;
    link->wanted = want;
    if (want < had) /* before what is done makes room for more than anybody waits for */
        work_link_want(link->work, want);
    while (link->put < link->given) {
        const struct pop_answer *const answer = &link->answers[link->put - link->base];
        if (!work_link_answer(link->work, answer->kind, answer->slot, answer->opening, answer->first, answer->count, answer->tries,
                              answer->time_ms))
            break; /* until the dispatcher has taken some */
        link->put++;
    }
    if (link->put != before) {
        CRASH_POINT("pop_link_answered");
        work_link_publish(link->work);
        work_link_tell(link->work);
        CRASH_POINT("pop_link_told");
    }
    if (want > had)
        work_link_want(link->work, want);
}

uint32_t pop_link_tell(struct gateway *gateway, struct pop_link *link)
{
    const uint64_t applied = work_link_applied(link->work);
    const uint64_t until = link->lost ? link->given : applied < link->put ? applied : link->put;
    uint32_t done = 0;
    for (; link->told < until; link->told++, done++) {
        struct pop_promise *const promise = link->answers[link->told - link->base].promise;
        if (!promise)
            continue;
        promise->failed |= link->told >= applied;
        if (--promise->left)
            continue;
        if (!promise->failed)
            gateway_refuse(gateway, &promise->asker, GATEWAY_SUCCESS, NULL);
        else
            gateway_refuse(gateway, &promise->asker, GATEWAY_SYSTEM_ERROR, "the broker cannot note that the message is done; it comes again");
        free(promise);
    }
    return done;
}

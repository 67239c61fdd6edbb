/* The sessions by which the gateway is a worker: Python opens one for the first pop of its kind, and closes it when nobody pops any more. */
#include "remoting/gateway/gateway_pop.h"

#include <stdlib.h>

static struct slice keep(uint8_t **to, struct slice text)
{
    const struct slice kept = {*to, text.size};
    if (text.size)
        memcpy(*to, text.data, text.size);
    *to += text.size;
    return kept;
}

/* The bit by which the dispatcher knows that it is to ring us. */
static void ask_for_rings(struct gateway *gateway, const struct pop_link *link, bool on)
{
    _Atomic uint64_t *const word = &gateway->attachment->control->popped[link->slot / 64];
    const uint64_t bit = UINT64_C(1) << (link->slot % 64);
    /* relaxed, both: the fence of our next announcement stands between this and the look at the rings, the dispatcher's between what it
     * publishes and its look at the bit [Y2]. */
    if (on)
        atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
    else
        atomic_fetch_and_explicit(word, ~bit, memory_order_relaxed);
}

bool gateway_pop_known(const struct gateway *gateway, const struct gateway_popped *what)
{
    return pop_link_find(gateway, what);
}

bool gateway_pop_open(struct gateway *gateway, const struct gateway_popped *what, void *memory, const struct session_shape *shape)
{
    struct attachment *const attachment = gateway->attachment;
    struct pop_link *const link = gateway->pop_count < POP_LINKS ? calloc(1, sizeof *link) : NULL;
    if (!link)
        return false;
    pop_leases_init(&link->leases);
    link->name = malloc((uint64_t)what->group.size + what->topic.size + what->filter.size + 1);
    link->work = work_link_open((uintptr_t)memory, (uintptr_t)attachment->control, (uintptr_t)attachment->wake, -1, shape);
    if (!link->name || !link->work) {
        pop_link_free(link);
        return false;
    }
    uint8_t *to = link->name;
    link->group = keep(&to, what->group);
    link->topic = keep(&to, what->topic);
    link->filter = keep(&to, what->filter);
    link->sql = what->sql;
    link->ordered = what->ordered;
    link->memory = memory;
    link->slot = shape->slot;
    link->epoch = shape->epoch;
    link->used_ms = clock_ms();
    ask_for_rings(gateway, link, true);
    gateway->pops[gateway->pop_count++] = link;
    return true;
}

/* Nobody waits, and nothing is in hand or to be told. */
static bool is_done(const struct pop_link *link)
{
    return !link->wait_count && !link->leases.count && !link->stock_count && link->told == link->given;
}

bool gateway_pops_yielded(const struct gateway *gateway)
{
    for (uint32_t i = 0; i < gateway->pop_count; i++)
        if (gateway->pops[i]->yields_ms && is_done(gateway->pops[i]))
            return true;
    return false;
}

static bool is_over(const struct pop_link *link, uint64_t now_ms)
{
    return link->lost || (is_done(link) && (link->yields_ms || now_ms - link->used_ms > POP_IDLE_MS));
}

bool gateway_pop_over(struct gateway *gateway, struct gateway_pop_end *end)
{
    const uint64_t now = clock_ms();
    for (uint32_t i = 0; i < gateway->pop_count; i++) {
        struct pop_link *const link = gateway->pops[i];
        if (!is_over(link, now) || link->wait_count || link->told != link->given)
            continue;
        ask_for_rings(gateway, link, false);
        *end = (struct gateway_pop_end){.memory = link->memory, .slot = link->slot, .epoch = link->epoch};
        gateway->pops[i] = gateway->pops[--gateway->pop_count];
        pop_link_free(link);
        return true;
    }
    return false;
}

#include "remoting/gateway/pop_leases.h"

#include <stdlib.h>

void pop_leases_init(struct pop_leases *leases)
{
    *leases = (struct pop_leases){.free = POP_LEASE_NONE, .until_ms = UINT64_MAX};
}

void pop_leases_free(struct pop_leases *leases)
{
    free(leases->lease);
    free(leases->bucket);
    pop_leases_init(leases);
}

static uint32_t *bucket_of(const struct pop_leases *leases, uint32_t slot, uint64_t offset)
{
    return &leases->bucket[(offset * UINT64_C(0x9e3779b97f4a7c15) + slot * UINT64_C(0xc2b2ae3d27d4eb4f)) >> 32 & (leases->room - 1)];
}

static bool grow(struct pop_leases *leases)
{
    const uint32_t room = leases->room ? 2 * leases->room : 64;
    if (room > POP_LEASES_MAX)
        return false;
    uint32_t *const bucket = malloc(room * sizeof *bucket);
    struct pop_lease *const lease = bucket ? realloc(leases->lease, room * sizeof *lease) : NULL;
    if (!lease) {
        free(bucket);
        return false;
    }
    free(leases->bucket);
    leases->lease = lease;
    leases->bucket = bucket;
    leases->room = room;
    for (uint32_t i = 0; i < room; i++)
        bucket[i] = POP_LEASE_NONE;
    for (uint32_t i = 0; i < leases->used; i++) { /* all are in use, or there would be no need to grow */
        uint32_t *const first = bucket_of(leases, lease[i].slot, lease[i].offset);
        lease[i].next = *first;
        *first = i;
    }
    return true;
}

struct pop_lease *pop_leases_find(const struct pop_leases *leases, uint32_t slot, uint64_t offset)
{
    if (!leases->count)
        return NULL;
    for (uint32_t i = *bucket_of(leases, slot, offset); i != POP_LEASE_NONE; i = leases->lease[i].next)
        if (leases->lease[i].slot == slot && leases->lease[i].offset == offset)
            return &leases->lease[i];
    return NULL;
}

void pop_leases_move(struct pop_leases *leases, struct pop_lease *lease, uint64_t until_ms)
{
    lease->until_ms = until_ms;
    if (until_ms < leases->until_ms)
        leases->until_ms = until_ms;
}

struct pop_lease *pop_leases_add(struct pop_leases *leases, uint32_t slot, uint64_t offset, uint64_t until_ms)
{
    struct pop_lease *lease = pop_leases_find(leases, slot, offset);
    if (!lease) {
        if (leases->free == POP_LEASE_NONE && leases->used == leases->room && !grow(leases))
            return NULL;
        const uint32_t at = leases->free != POP_LEASE_NONE ? leases->free : leases->used++;
        lease = &leases->lease[at];
        if (at == leases->free)
            leases->free = lease->next;
        uint32_t *const first = bucket_of(leases, slot, offset);
        *lease = (struct pop_lease){.slot = slot, .offset = offset, .next = *first};
        *first = at;
        leases->count++;
    }
    pop_leases_move(leases, lease, until_ms);
    return lease;
}

void pop_leases_remove(struct pop_leases *leases, struct pop_lease *lease)
{
    const uint32_t at = (uint32_t)(lease - leases->lease);
    uint32_t *link = bucket_of(leases, lease->slot, lease->offset);
    while (*link != at)
        link = &leases->lease[*link].next;
    *link = lease->next;
    lease->until_ms = 0;
    lease->next = leases->free;
    leases->free = at;
    leases->count--;
}

struct pop_lease *pop_leases_next(struct pop_leases *leases, uint32_t *position)
{
    while (*position < leases->used) {
        struct pop_lease *const lease = &leases->lease[(*position)++];
        if (lease->until_ms)
            return lease;
    }
    return NULL;
}

bool pop_leases_lapsed(struct pop_leases *leases, uint64_t now_ms, uint32_t *position, struct pop_lease *lapsed)
{
    if (*position == 0) {
        if (now_ms < leases->until_ms)
            return false;
        leases->until_ms = UINT64_MAX;
    }
    while (*position < leases->used) {
        struct pop_lease *const lease = &leases->lease[(*position)++];
        if (lease->until_ms && lease->until_ms <= now_ms) {
            *lapsed = *lease;
            pop_leases_remove(leases, lease);
            return true;
        }
        if (lease->until_ms && lease->until_ms < leases->until_ms)
            leases->until_ms = lease->until_ms;
    }
    return false;
}

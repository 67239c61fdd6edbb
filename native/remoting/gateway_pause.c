/* Groups that are paused: pulls for them are refused, as RocketMQ does for a group whose setting consumeEnable is false. Which those are, Python
 * reads from the groups' settings (actors/paused_groups.py). They are kept by their hashes, and so are held pulls, which are many.
 */
#include "remoting/gateway_parts.h"

#include <stdlib.h>

uint64_t gateway_group_hash(struct slice name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a, 64 bits */
    for (uint32_t i = 0; i < name.size; i++)
        hash = (hash ^ name.data[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static int compare(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

bool gateway_pause(struct gateway *gateway, const struct slice *groups, uint32_t count)
{
    uint64_t *const paused = count ? calloc(count, sizeof *paused) : NULL;
    if (count && !paused)
        return false;
    for (uint32_t i = 0; i < count; i++)
        paused[i] = gateway_group_hash(groups[i]);
    if (count)
        qsort(paused, count, sizeof *paused, compare);
    free(gateway->paused);
    gateway->paused = paused;
    gateway->paused_count = count;
    gateway->holds_until_ms = 0; /* held pulls are looked at now */
    return true;
}

bool gateway_is_paused(const struct gateway *gateway, uint64_t group)
{
    return gateway->paused_count && bsearch(&group, gateway->paused, gateway->paused_count, sizeof group, compare);
}

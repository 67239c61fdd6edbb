/* Groups that are paused: pulls for them are refused, as RocketMQ does for a group whose setting consumeEnable is false. Which those are, Python
 * reads from the groups' settings (actors/gateway/paused_groups.py). They are kept by their hashes, and so are held pulls, which are many.
 */
#include "remoting/gateway/gateway_parts.h"
#include "base/hash.h"

#include <stdlib.h>

uint64_t gateway_group_hash(struct slice name)
{
    return hash_bytes_64(HASH_BEGIN_64, name.data, name.size);
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

/* How many connections there may be: in all, and of one address, so that no machine takes the places of the others. */
#include "remoting/gateway_parts.h"

#include <stdio.h>

void gateway_limit(struct gateway *gateway, uint32_t of_one_address) { gateway->of_one_address = of_one_address; }

/* The size of an address without its port. */
static size_t host_size(const char *peer)
{
    const char *const port = strrchr(peer, ':');
    return port ? (size_t)(port - peer) : strlen(peer);
}

static bool has_many(const struct gateway *gateway, const char *peer)
{
    const size_t size = host_size(peer);
    uint32_t count = 0;
    if (!gateway->of_one_address || gateway->count < gateway->of_one_address)
        return false;
    for (uint32_t i = 0; i < gateway->used; i++) {
        const struct connection *const other = gateway->connections[i];
        count += other && !other->ended && host_size(other->peer) == size && memcmp(other->peer, peer, size) == 0;
    }
    return count >= gateway->of_one_address;
}

bool gateway_has_room(struct gateway *gateway, const char *peer)
{
    if (gateway->count < GATEWAY_CONNECTIONS && !has_many(gateway, peer))
        return true;
    gateway->turned_away++;
    snprintf(gateway->last_turned_away, sizeof gateway->last_turned_away, "%s", peer);
    return false;
}

uint32_t gateway_turned_away(struct gateway *gateway, const char **last)
{
    const uint32_t count = gateway->turned_away;
    gateway->turned_away = 0;
    *last = gateway->last_turned_away;
    return count;
}

/* How many connections there may be: in all, and of one address, so that no machine takes the places of the others; and how much
 * memory their requests may take before they are whole. */
#include "remoting/gateway/gateway_parts.h"

#include <stdio.h>

#define SMALL_REQUEST (256u << 10) /* which always has memory */

void gateway_limit(struct gateway *gateway, const struct gateway_limits *limits)
{
    assert(limits->in_all <= GATEWAY_CONNECTIONS);
    gateway->limits = *limits;
}

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
    if (!gateway->limits.of_one_address || gateway->count < gateway->limits.of_one_address)
        return false;
    for (uint32_t i = 0; i < gateway->used; i++) {
        const struct connection *const other = gateway->connections[i];
        count += other && !other->ended && host_size(other->peer) == size && memcmp(other->peer, peer, size) == 0;
    }
    return count >= gateway->limits.of_one_address;
}

void gateway_turn_away(struct gateway *gateway, enum gateway_crowd why, const char *peer)
{
    gateway->turned_away++;
    gateway->turned_away_why = why;
    snprintf(gateway->last_turned_away, sizeof gateway->last_turned_away, "%s", peer);
}

bool gateway_has_room(struct gateway *gateway, const char *peer)
{
    const bool all_full = gateway->count >= gateway->limits.in_all;
    if (!all_full && !has_many(gateway, peer))
        return true;
    gateway_turn_away(gateway, all_full ? GATEWAY_ALL_FULL : GATEWAY_ADDRESS_FULL, peer);
    return false;
}

bool gateway_has_memory(struct gateway *gateway, const struct connection *connection)
{
    if (connection->in_room < SMALL_REQUEST || connection->in_from || connection->in_to < connection->in_room)
        return true;
    uint64_t all = connection->in_room; /* it is to have twice as much */
    for (uint32_t i = 0; i < gateway->used; i++)
        all += gateway->connections[i] ? gateway->connections[i]->in_room : 0;
    if (all <= gateway->limits.parts_bytes)
        return true;
    gateway_turn_away(gateway, GATEWAY_NO_MEMORY, connection->peer);
    return false;
}

uint32_t gateway_turned_away(struct gateway *gateway, enum gateway_crowd *why, const char **last)
{
    const uint32_t count = gateway->turned_away;
    gateway->turned_away = 0;
    *why = gateway->turned_away_why;
    *last = gateway->last_turned_away;
    return count;
}

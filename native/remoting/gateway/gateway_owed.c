/* What a client that sends no more is still to be told: a program may close its sending side, as `nc -N` does, and read its receipts
 * afterwards. Most clients have gone altogether: the first answer to them shows it. What they sent before is still served, to the last request,
 * for some clients wait for no answer (those in Go commit their offsets so, and close).
 */
#include "remoting/gateway/gateway_pop.h"

void gateway_finished(struct gateway *gateway, struct connection *connection)
{
    connection->finished = true;
    gateway->holds_until_ms = 0; /* its own are answered now: it is to end, not to wait for messages */
}

bool gateway_is_its_own(const struct gateway_asker *asker, const struct connection *connection)
{
    return asker->connection == connection->index && asker->epoch == connection->epoch && !asker->one_way;
}

bool gateway_owes(const struct gateway *gateway, const struct connection *connection)
{
    if (connection->asked || connection->stalled || connection->waits || connection->relay || connection_unsent(connection))
        return true;
    if (connection->deaf)
        return false;
    for (uint64_t i = gateway->sent_from; i < gateway->sent_to; i++)
        if (gateway_is_its_own(&gateway->sent[i & (gateway->sender.shape.window - 1)].asker, connection))
            return true;
    for (uint32_t i = 0; i < gateway->forward_count; i++)
        if (gateway_is_its_own(&gateway->forwards[i].asker, connection))
            return true;
    for (uint32_t i = 0; i < gateway->hold_count; i++)
        if (gateway_is_its_own(&gateway->holds[i].asker, connection))
            return true;
    return gateway_owes_pop(gateway, connection);
}

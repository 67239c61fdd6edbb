/* NOTIFICATION (200054): a client that wants to know whether there is a message to pop, and takes none. It waits in the link like a pop. Once the
 * dispatcher has handed out something, it is told; what was handed out is in stock for the pop that follows, or goes back after POP_STOCK_MS.
 * And POLLING_INFO (200055): how many pops wait. Python has read both.
 */
#include "base/crash_point.h"
#include "remoting/gateway/gateway_pop.h"

static const char *truth(bool value) { return value ? "true" : "false"; }

void gateway_tell_notice(struct gateway *gateway, const struct gateway_asker *asker, bool has, bool full)
{
    struct remoting_header *const answer = gateway_begin(gateway, GATEWAY_SUCCESS, NULL);
    gateway_add_text(answer, "hasMsg", truth(has));
    gateway_add_text(answer, "pollingFull", truth(full));
    CRASH_POINT("gateway_pop_notice_told");
    gateway_finish(gateway, asker, NULL, 0);
}

bool gateway_pop_may(const struct gateway *gateway, const struct gateway_request *request)
{
    return pop_opened_by(gateway, gateway->connections[request->client.connection]) < POP_LINKS_OF_ONE;
}

bool gateway_pop_notice(struct gateway *gateway, const struct gateway_request *request, const struct gateway_popped *what, uint32_t poll_ms)
{
    struct connection *const connection = gateway->connections[request->client.connection];
    struct pop_link *const link = pop_link_find(gateway, what);
    struct remoting_frame frame;
    if (!link)
        return false;
    remoting_frame(connection->in + connection->in_from, connection->in_to - connection->in_from, &frame);
    const struct gateway_asker asker = gateway_asker(connection, connection->parsed, frame.type);
    const struct pop_wait wait = {.asker = asker, .notice = true, .queue = -1, .until_ms = clock_ms() + pop_poll_ms(poll_ms)};
    link->used_ms = clock_ms();
    if (!link->opener_epoch) {
        link->opener = connection->index;
        link->opener_epoch = connection->epoch;
    }
    if (!asker.one_way && !pop_hold(link, &wait))
        gateway_tell_notice(gateway, &asker, false, true);
    gateway_pass_asked(gateway, request);
    return true;
}

static bool same(struct slice a, struct slice b) { return a.size == b.size && (!a.size || memcmp(a.data, b.data, a.size) == 0); }

uint32_t gateway_pops_waiting(const struct gateway *gateway, struct slice group, struct slice topic, int64_t queue)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < gateway->pop_count; i++) {
        const struct pop_link *const link = gateway->pops[i];
        if (!same(link->group, group) || !same(link->topic, topic))
            continue;
        for (uint32_t w = 0; w < link->wait_count; w++) {
            const struct pop_wait *const wait = &link->waits[w];
            count += !wait->notice && wait->queue == queue && gateway_connection(gateway, &wait->asker) != NULL;
        }
    }
    return count;
}

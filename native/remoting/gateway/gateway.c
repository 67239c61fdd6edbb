/* Opening and closing the gateway, its session, and the topics that it knows. */
#include "base/crash_point.h"
#include "remoting/gateway/gateway_line.h"
#include "remoting/gateway/gateway_pop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

struct gateway *gateway_open(struct attachment *attachment, int listener, uint32_t number)
{
    const struct settings *const settings = &attachment->control->settings;
    struct gateway *const gateway = calloc(1, sizeof *gateway);
    if (!gateway)
        return NULL;
    assert(number < GATEWAYS_MAX);
    gateway->attachment = attachment;
    gateway_accept_at(gateway, listener);
    gateway->number = number;
    for (uint32_t i = 0; i < GATEWAYS_MAX; i++)
        gateway->lines[i] = -1;
    gateway_limit(gateway, &(struct gateway_limits){.in_all = GATEWAY_CONNECTIONS, .idle_ms = GATEWAY_IDLE_MS, .parts_bytes = GATEWAY_PARTS_BYTES});
    gateway->poll = epoll_create1(EPOLL_CLOEXEC);
    gateway->cursors = calloc(attachment->topics->queue_capacity, sizeof *gateway->cursors);
    gateway->reader = reader_open(attachment->control, attachment->topics, settings->store, settings->log_file_size, settings->queue_file_units);
    if (gateway->poll < 0 || !gateway->cursors || !gateway->reader || !gateway_holds_open(gateway)) {
        const int error = errno;
        gateway_close(gateway);
        errno = error;
        return NULL;
    }
    if (!number)
        gateway_subscriptions_changed(gateway); /* of its predecessor there are none any more */
    return gateway;
}

void gateway_close(struct gateway *gateway)
{
    for (uint32_t i = 0; i < gateway->used; i++)
        if (gateway->connections[i]) {
            connection_flush(gateway->connections[i]);
            gateway_drop(gateway, gateway->connections[i]);
        }
    if (gateway->poll >= 0)
        close(gateway->poll);
    if (gateway->reader) {
        reader_close(gateway->reader);
        reader_free(gateway->reader);
    }
    gateway_filters_free(&gateway->filters);
    gateway_pops_free(gateway);
    gateway_forget_hellos(gateway);
    acl_free(gateway->acl);
    free(gateway->raw);
    free(gateway->cursors);
    free(gateway->held);
    free(gateway->paused);
    free(gateway->holds);
    free(gateway->sent);
    free(gateway->ids);
    free(gateway);
}

void gateway_attach(struct gateway *gateway, void *memory, const struct session_shape *shape)
{
    struct attachment *const attachment = gateway->attachment;
    assert(!gateway->attached);
    gateway->sent = calloc(shape->window, sizeof *gateway->sent);
    gateway->ids = calloc(shape->window, GATEWAY_ID_ROOM);
    if (!gateway->sent || !gateway->ids)
        return;
    sender_attach(&gateway->sender, memory, shape, attachment->control, attachment->topics, attachment->wake, -1);
    gateway->attached = true;
}

uint32_t gateway_connections(const struct gateway *gateway) { return gateway->count; }

const struct topic_entry *gateway_topic(const struct gateway *gateway, struct slice name, uint32_t *index)
{
    const struct topics *const topics = gateway->attachment->topics;
    *index = name.data && name.size <= TOPIC_NAME_MAX ? topics_find(topics, name.data, name.size) : TOPIC_NONE;
    const struct topic_entry *const topic = *index == TOPIC_NONE ? NULL : &topics->topic[*index];
    return topic && !topic_deleted(topic) ? topic : NULL;
}

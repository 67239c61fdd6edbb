/* A record as remote clients see it: without the CRC property that OrbitMQ ends each record with, and without the mark of an atomic batch
 * that it may begin its properties with. Its bytes are sent out of the log. Only the two sizes that change are written anew. A request gets
 * the property by which RocketMQ's clients find the topic of replies; RocketMQ's brokers store it with every message. Brokers of RocketMQ 5 also
 * store the region that their answers to sends name: without it, newer ones of its clients do not trace what they consume. */
#include "remoting/gateway/gateway_parts.h"

#include "base/bytes.h"
#include "format/atomic.h"

static const char NOTES[] = "MSG_REGION\1DefaultRegion\2CLUSTER\1DefaultCluster\2";
enum { REGION_SIZE = sizeof "MSG_REGION\1DefaultRegion\2" - 1 };

static bool is_request(struct slice properties)
{
    return properties_get(properties.data, properties.size, "CORRELATION_ID", 14).data &&
           !properties_get(properties.data, properties.size, "CLUSTER", 7).data;
}

uint32_t gateway_record(const struct message_ref *ref, bool region, struct gateway_sizes *sizes, struct iovec *pieces)
{
    uint8_t *const record = (uint8_t *)(uintptr_t)ref->record;
    const uint32_t topic_at = ref->body_at + ref->body_size;
    const uint32_t properties_at = topic_at + 1 + record[topic_at];
    const uint32_t size = load_be16(record + properties_at);
    const struct record_view view = {.properties = {record + properties_at + 2, size}};
    if (!record_sealed(&view)) {
        pieces[0] = (struct iovec){record, ref->size};
        return 1;
    }
    struct mark mark;
    const uint32_t marked = mark_read(view.properties, &mark) ? mark.size : 0; /* the checksum is behind it */
    const uint32_t left = size - RECORD_CRC_SIZE - marked;
    uint32_t from = region ? 0 : REGION_SIZE;
    const uint32_t to = is_request(view.properties) ? sizeof NOTES - 1 : REGION_SIZE;
    if (left + to - from >= PROPERTIES_MAX)
        from = REGION_SIZE;
    const uint32_t more = left + to - from < PROPERTIES_MAX ? to - from : 0;
    store_be32(sizes->record, ref->size - RECORD_CRC_SIZE - marked + more);
    store_be16(sizes->properties, (uint16_t)(left + more));
    pieces[0] = (struct iovec){sizes->record, sizeof sizes->record};
    pieces[1] = (struct iovec){record + 4, properties_at - 4};
    pieces[2] = (struct iovec){sizes->properties, sizeof sizes->properties};
    pieces[3] = (struct iovec){record + properties_at + 2 + marked, left};
    pieces[4] = (struct iovec){(void *)(uintptr_t)(NOTES + from), more};
    return more ? GATEWAY_RECORD_PIECES : GATEWAY_RECORD_PIECES - 1;
}

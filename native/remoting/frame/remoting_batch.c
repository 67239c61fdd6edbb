#include "remoting/frame/remoting_batch.h"

#include "base/bytes.h"

#define ENTRY_START 20u
#define ENTRY_LEAST 22u /* and without body and properties */

bool remoting_batch_next(struct slice *rest, struct remoting_batch_entry *entry)
{
    if (rest->size < ENTRY_LEAST)
        return false;
    const uint32_t size = load_be32(rest->data), body = load_be32(rest->data + 16);
    if (size < ENTRY_LEAST || size > rest->size || body > size - ENTRY_LEAST)
        return false;
    const uint8_t *const behind = rest->data + ENTRY_START + body;
    const uint32_t properties = load_be16(behind);
    if (properties != size - ENTRY_LEAST - body)
        return false;
    entry->flag = load_be32(rest->data + 12);
    entry->body = (struct slice){rest->data + ENTRY_START, body};
    entry->properties = (struct slice){behind + 2, properties};
    rest->data += size;
    rest->size -= size;
    return true;
}

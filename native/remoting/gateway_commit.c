/* Offsets that consumers commit with their pulls: the newest of each group and queue, until Python hands them to the coordinator. There is
 * room for so many between two looks; what finds none is left out, as if the pull had committed nothing, for clients commit by a request
 * of its own as well.
 */
#include "remoting/gateway_parts.h"

#include "base/hash.h"

#include <string.h>

static bool is(const struct gateway_commit *commit, struct slice group, uint32_t slot)
{
    return commit->slot == slot && commit->group_size == group.size && memcmp(commit->group, group.data, group.size) == 0;
}

void gateway_gather(struct gateway *gateway, struct slice group, const struct topic_entry *topic, uint32_t queue_id, uint64_t offset)
{
    struct gateway_commits *const own = &gateway->commits;
    const uint32_t slot = topic->first_slot + queue_id;
    if (!group.size || group.size > sizeof own->entry->group)
        return;
    uint32_t hash = hash_bytes(HASH_BEGIN, group.data, group.size) ^ slot * 2654435761u;
    hash ^= hash >> 15;
    uint32_t *place = &own->place[hash % GATEWAY_COMMIT_PLACES];
    while (*place && !is(&own->entry[*place - 1], group, slot))
        place = ++place == own->place + GATEWAY_COMMIT_PLACES ? own->place : place;
    if (!*place && own->count == GATEWAY_COMMITS)
        return;
    if (!*place) {
        struct gateway_commit *const commit = &own->entry[own->count];
        *place = ++own->count;
        *commit = (struct gateway_commit){.group_size = group.size, .slot = slot, .queue_id = queue_id};
        memcpy(commit->group, group.data, group.size);
        commit->topic_size = topic->name_size;
        memcpy(commit->topic, topic->name, topic->name_size);
    }
    own->entry[*place - 1].offset = offset;
}

bool gateway_gathered(struct gateway *gateway, struct gateway_commit *commit)
{
    struct gateway_commits *const own = &gateway->commits;
    if (own->given == own->count) {
        if (own->count)
            memset(own->place, 0, sizeof own->place);
        own->given = own->count = 0;
        return false;
    }
    *commit = own->entry[own->given++];
    return true;
}

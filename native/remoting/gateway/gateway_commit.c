/* Offsets that consumers commit with their pulls: the newest of each group and queue, until Python hands them to the coordinator. There is
 * room for so many between two looks; what finds none is left out, as if the pull had committed nothing, for clients commit by a request
 * of its own as well.
 */
#include "remoting/gateway/gateway_line.h"

#include "base/crash_point.h"
#include "base/hash.h"

#include <string.h>

static bool is(const struct gateway_commit *commit, struct slice group, uint32_t slot)
{
    return commit->slot == slot && commit->group_size == group.size && memcmp(commit->group, group.data, group.size) == 0;
}

/* The entry of the group and the queue, made if it is missing; UINT32_MAX: there is no room. */
static uint32_t find(struct gateway_commits *own, struct slice group, uint32_t slot)
{
    uint32_t hash = hash_bytes(HASH_BEGIN, group.data, group.size) ^ slot * 2654435761u;
    hash ^= hash >> 15;
    uint32_t *place = &own->place[hash % GATEWAY_COMMIT_PLACES];
    while (*place && !is(&own->entry[*place - 1], group, slot))
        place = ++place == own->place + GATEWAY_COMMIT_PLACES ? own->place : place;
    if (!*place && own->count == GATEWAY_COMMITS)
        return UINT32_MAX;
    if (!*place)
        *place = ++own->count;
    return *place - 1;
}

static void forget_all(struct gateway_commits *own)
{
    if (own->count)
        memset(own->place, 0, sizeof own->place);
    own->given = own->count = 0;
}

/* The newest counts. */
static void keep(struct gateway_commits *own, const struct gateway_commit *commit)
{
    const uint32_t entry = find(own, (struct slice){commit->group, commit->group_size}, commit->slot);
    if (entry == UINT32_MAX)
        return;
    own->entry[entry] = *commit;
    if (entry < own->given) /* it is given once more */
        own->given = entry;
}

void gateway_gather_told(struct gateway *gateway, const struct gateway_commit *commit)
{
    if (commit->group_size && commit->group_size <= sizeof commit->group && commit->topic_size <= sizeof commit->topic)
        keep(&gateway->commits, commit);
}

/* False: there is no room on the line. */
static bool tell(const struct gateway *gateway, const struct gateway_commit *commit)
{
    const struct line_message message = {.kind = LINE_COMMIT, .commit = *commit};
    const bool told = gateway_line_put(gateway->lines[gateway->number], &message, -1);
    CRASH_POINT("gateway_commit_told");
    return told;
}

void gateway_tell_commits(struct gateway *gateway)
{
    struct gateway_commits *const own = &gateway->commits;
    if (!gateway->number || !own->count)
        return;
    while (own->given < own->count && tell(gateway, &own->entry[own->given]))
        own->given++;
    if (own->given == own->count)
        forget_all(own);
}

void gateway_gather(struct gateway *gateway, struct slice group, const struct topic_entry *topic, uint32_t queue_id, uint64_t offset)
{
    struct gateway_commit commit = {
        .group_size = group.size, .topic_size = topic->name_size, .slot = topic->first_slot + queue_id, .queue_id = queue_id, .offset = offset};
    if (!group.size || group.size > sizeof commit.group)
        return;
    memcpy(commit.group, group.data, group.size);
    memcpy(commit.topic, topic->name, topic->name_size);
    /* A front has the lead hand it over at once: so it is there before anybody who has the answer to the pull can ask for it. If the
     * line is full, it is there a little later. */
    const bool told = gateway->number && !gateway->commits.count && tell(gateway, &commit);
    if (!told)
        keep(&gateway->commits, &commit);
}

bool gateway_gathered(struct gateway *gateway, struct gateway_commit *commit)
{
    struct gateway_commits *const own = &gateway->commits;
    if (!own->given)
        gateway_take_lines(gateway); /* what clients of fronts have committed before */
    if (own->given == own->count) {
        forget_all(own);
        return false;
    }
    *commit = own->entry[own->given++];
    return true;
}

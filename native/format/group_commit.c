#include "format/group_commit.h"
#include "base/bytes.h"

#define COMMIT_FIXED (1 + 4 + 8 + 8) /* bytes of a queue beside the topic's name */

static bool take(struct slice *rest, uint32_t size, const uint8_t **at)
{
    if (rest->size < size)
        return false;
    *at = rest->data;
    rest->data += size;
    rest->size -= size;
    return true;
}

static bool take_name(struct slice *rest, struct slice *name)
{
    const uint8_t *at;
    if (!take(rest, 1, &at) || *at == 0)
        return false;
    name->size = *at;
    return take(rest, name->size, &name->data);
}

bool group_commits_begin(struct slice body, struct group_commits *commits)
{
    const uint8_t *at;
    *commits = (struct group_commits){.rest = body};
    if (!take(&commits->rest, 1, &at) || *at != 1 || !take_name(&commits->rest, &commits->group) || !take(&commits->rest, 2, &at))
        return false;
    commits->count = load_be16(at);
    return commits->count && commits->count <= COMMITS_MOST;
}

bool group_commits_next(struct group_commits *commits, struct group_commit *next)
{
    const uint8_t *at;
    if (commits->count == 0 || !take_name(&commits->rest, &next->topic) || !take(&commits->rest, COMMIT_FIXED - 1, &at))
        return false;
    next->queue = load_be32(at);
    next->from = load_be64(at + 4);
    next->to = load_be64(at + 12);
    commits->count--;
    return (next->to <= COMMIT_OFFSET_MAX || next->to == COMMIT_TO_NOTHING) && (next->from <= COMMIT_OFFSET_MAX || next->from == COMMIT_FROM_NOTHING);
}

bool group_commits_whole(struct slice body)
{
    struct group_commits commits;
    struct group_commit next;
    if (!group_commits_begin(body, &commits))
        return false;
    while (commits.count)
        if (!group_commits_next(&commits, &next))
            return false;
    return commits.rest.size == 0;
}

static uint64_t fold(uint64_t one, uint64_t other)
{
    const unsigned __int128 product = (unsigned __int128)one * other;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_slice(uint64_t hash, struct slice bytes)
{
    for (uint32_t at = 0; at < bytes.size; at += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes.data + at, bytes.size - at < 8 ? bytes.size - at : 8);
        hash = fold(hash ^ word, UINT64_C(0x9E3779B97F4A7C15)) + word;
    }
    return fold(hash ^ bytes.size, UINT64_C(0xD6E8FEB86659FD93)) + bytes.size;
}

struct commit_key commit_key(struct slice group, struct slice topic, uint32_t queue)
{
    static const uint64_t seeds[2] = {UINT64_C(0xA0761D6478BD642F), UINT64_C(0xE7037ED1A0B428DB)};
    struct commit_key key;
    for (uint32_t i = 0; i < 2; i++)
        key.word[i] = fold(hash_slice(hash_slice(seeds[i], group), topic) ^ seeds[1 - i], queue + UINT64_C(0x8EBC6AF09C88C6E3));
    key.word[0] += key.word[0] == 0;
    return key;
}

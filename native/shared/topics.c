#include "shared/topics.h"
#include "base/hash.h"
#include <string.h>

/* 1 for the bytes a topic may hold: % | a-z A-Z 0-9 _ - */
static const uint8_t allowed[128] = {
    ['%'] = 1, ['|'] = 1, ['_'] = 1, ['-'] = 1,
    ['0'] = 1, ['1'] = 1, ['2'] = 1, ['3'] = 1, ['4'] = 1, ['5'] = 1, ['6'] = 1, ['7'] = 1, ['8'] = 1, ['9'] = 1,
    ['a'] = 1, ['b'] = 1, ['c'] = 1, ['d'] = 1, ['e'] = 1, ['f'] = 1, ['g'] = 1, ['h'] = 1, ['i'] = 1, ['j'] = 1,
    ['k'] = 1, ['l'] = 1, ['m'] = 1, ['n'] = 1, ['o'] = 1, ['p'] = 1, ['q'] = 1, ['r'] = 1, ['s'] = 1, ['t'] = 1,
    ['u'] = 1, ['v'] = 1, ['w'] = 1, ['x'] = 1, ['y'] = 1, ['z'] = 1,
    ['A'] = 1, ['B'] = 1, ['C'] = 1, ['D'] = 1, ['E'] = 1, ['F'] = 1, ['G'] = 1, ['H'] = 1, ['I'] = 1, ['J'] = 1,
    ['K'] = 1, ['L'] = 1, ['M'] = 1, ['N'] = 1, ['O'] = 1, ['P'] = 1, ['Q'] = 1, ['R'] = 1, ['S'] = 1, ['T'] = 1,
    ['U'] = 1, ['V'] = 1, ['W'] = 1, ['X'] = 1, ['Y'] = 1, ['Z'] = 1,
};

enum topic_name_fault topic_name_check(const uint8_t *name, uint32_t size, uint32_t *at)
{
    *at = 0;
    if (size == 0)
        return TOPIC_NAME_EMPTY;
    if (size > TOPIC_NAME_MAX)
        return TOPIC_NAME_LONG;
    for (uint32_t i = 0; i < size; i++) {
        if (name[i] >= 128 || !allowed[name[i]]) {
            *at = i;
            return TOPIC_NAME_CHARACTER;
        }
    }
    return TOPIC_NAME_GOOD;
}

/* Finished with a multiplication so that the low bits depend on every byte. */
uint32_t topic_hash(const uint8_t *name, uint32_t size)
{
    uint32_t hash = hash_bytes(HASH_BEGIN, name, size);
    hash ^= hash >> 15;
    return hash * 0x85EBCA6Bu;
}

uint64_t topics_size(uint32_t topic_capacity, uint32_t queue_capacity)
{
    return sizeof(struct topics) + (uint64_t)topic_capacity * sizeof(struct topic_entry) +
           (uint64_t)queue_capacity * sizeof(struct queue_slot);
}

void topics_init(struct topics *topics, uint32_t topic_capacity, uint32_t queue_capacity, uint64_t generation)
{
    assert(topic_capacity && (topic_capacity & (topic_capacity - 1)) == 0);
    segment_init(topics, SEGMENT_TOPICS, topics_size(topic_capacity, queue_capacity), generation);
    topics->topic_capacity = topic_capacity;
    topics->queue_capacity = queue_capacity;
}

/* The entry of this name, or the empty one where it belongs, or NULL when every entry was passed. */
static const struct topic_entry *probe(const struct topics *topics, const uint8_t *name, uint32_t size, uint32_t hash)
{
    const uint32_t mask = topics->topic_capacity - 1;
    for (uint32_t i = 0; i <= mask; i++) {
        const struct topic_entry *entry = &topics->topic[(hash + i) & mask];
        /* acquire: state before the rest of the entry. Pairs with the release in topics_add [T1]. */
        if (atomic_load_explicit(&entry->state, memory_order_acquire) == TOPIC_EMPTY)
            return entry;
        if (entry->hash == hash && entry->name_size == size && memcmp(entry->name, name, size) == 0)
            return entry;
    }
    return NULL;
}

uint32_t topics_find(const struct topics *topics, const uint8_t *name, uint32_t size)
{
    const struct topic_entry *entry = probe(topics, name, size, topic_hash(name, size));
    /* relaxed: probe has acquired it [T1] */
    if (!entry || atomic_load_explicit(&entry->state, memory_order_relaxed) == TOPIC_EMPTY)
        return TOPIC_NONE;
    return (uint32_t)(entry - topics->topic);
}

enum topics_add_result topics_room(const struct topics *topics, const uint8_t *name, uint32_t size, uint32_t slot_capacity)
{
    const struct topic_entry *entry = probe(topics, name, size, topic_hash(name, size));
    /* relaxed, all: only the coordinator writes these words */
    const uint32_t count = atomic_load_explicit(&topics->topic_count, memory_order_relaxed);
    const uint32_t first = atomic_load_explicit(&topics->queue_count, memory_order_relaxed);
    if (entry && atomic_load_explicit(&entry->state, memory_order_relaxed) == TOPIC_LIVE)
        return TOPICS_EXISTS;
    /* an eighth stays empty, so that a probe for a missing name is short */
    if (!entry || count >= topics->topic_capacity - topics->topic_capacity / 8)
        return TOPICS_FULL;
    return slot_capacity > topics->queue_capacity - first ? TOPICS_QUEUES_FULL : TOPICS_ADDED;
}

void topics_expect(struct topics *topics, const uint8_t *name, uint32_t size, uint32_t retention_hours, bool durable)
{
    struct topic_entry *entry = (struct topic_entry *)probe(topics, name, size, topic_hash(name, size));
    /* relaxed: only the coordinator writes it */
    if (!entry || atomic_load_explicit(&entry->state, memory_order_relaxed) == TOPIC_LIVE)
        return;
    /* relaxed, both: the state publishes them [T1]. If the coordinator dies before, its successor writes them again, for whichever
     * topic comes here. */
    atomic_store_explicit(&entry->retention_hours, retention_hours, memory_order_relaxed);
    atomic_store_explicit(&entry->durable, durable, memory_order_relaxed);
}

enum topics_add_result topics_add(struct topics *topics, const uint8_t *name, uint32_t size, uint32_t queues,
                                  uint32_t slot_capacity, uint32_t perm, uint32_t *index)
{
    assert(size >= 1 && size <= TOPIC_NAME_MAX && queues >= 1 && slot_capacity >= queues);
    const uint32_t hash = topic_hash(name, size);
    struct topic_entry *entry = (struct topic_entry *)probe(topics, name, size, hash);
    /* relaxed, here and below: only the coordinator writes these words */
    const uint32_t count = atomic_load_explicit(&topics->topic_count, memory_order_relaxed);
    const uint32_t first = atomic_load_explicit(&topics->queue_count, memory_order_relaxed);
    const enum topics_add_result room = topics_room(topics, name, size, slot_capacity);
    if (room == TOPICS_FULL || room == TOPICS_QUEUES_FULL)
        return room;
    *index = (uint32_t)(entry - topics->topic);
    if (room == TOPICS_EXISTS)
        return room;
    for (uint32_t i = 0; i < slot_capacity; i++) {
        struct queue_slot *queue = topics_queue(topics, first + i);
        queue->topic = *index;
        queue->queue_id = i;
    }
    /* release: the slots before their count, for whoever looks at a slot by its number. Pairs with the acquires in reader_add,
     * topics_next and notifier.c [T2]. A coordinator that died between here and the state left an entry that nobody sees; its slots
     * stay unused until the tree restarts. */
    atomic_store_explicit(&topics->queue_count, first + slot_capacity, memory_order_release);
    entry->hash = hash;
    entry->first_slot = first;
    entry->slot_capacity = slot_capacity;
    /* relaxed, here and below: the state publishes them */
    atomic_store_explicit(&entry->queues, queues, memory_order_relaxed);
    atomic_store_explicit(&entry->perm, perm, memory_order_relaxed);
    entry->name_size = (uint8_t)size;
    memcpy(entry->name, name, size);
    atomic_store_explicit(&topics->topic_count, count + 1, memory_order_relaxed);
    /* release: the entry before its state [T1] */
    atomic_store_explicit(&entry->state, TOPIC_LIVE, memory_order_release);
    return TOPICS_ADDED;
}

bool topic_see(const struct topics *topics, uint32_t index, struct topic_seen *seen)
{
    const struct topic_entry *entry = &topics->topic[index & (topics->topic_capacity - 1)];
    /* acquire: [T1] */
    if (atomic_load_explicit(&entry->state, memory_order_acquire) != TOPIC_LIVE)
        return false;
    seen->first_slot = entry->first_slot;
    seen->slot_capacity = entry->slot_capacity;
    /* acquire: pairs with topic_set_queues. relaxed: permission is a word of its own */
    seen->queues = atomic_load_explicit(&entry->queues, memory_order_acquire);
    seen->perm = atomic_load_explicit(&entry->perm, memory_order_relaxed);
    /* relaxed, both: likewise */
    seen->retention_hours = atomic_load_explicit(&entry->retention_hours, memory_order_relaxed);
    seen->durable = atomic_load_explicit(&entry->durable, memory_order_relaxed);
    seen->deleted = topic_deleted(entry);
    seen->name_size = entry->name_size;
    memset(seen->name, 0, sizeof seen->name);
    memcpy(seen->name, entry->name, entry->name_size);
    return true;
}

uint32_t topics_next(const struct topics *topics, uint32_t *slot, struct topic_seen *seen)
{
    /* acquire: the slots before their count. Pairs with the release in topics_add [T2]. */
    const uint32_t count = atomic_load_explicit(&topics->queue_count, memory_order_acquire);
    while (*slot < count) {
        const uint32_t first = (*slot)++;
        const uint32_t index = topics_queue(topics, first)->topic;
        /* Slots that a coordinator handed out before it died belong to no topic, or to one that has others. */
        if (topic_see(topics, index, seen) && seen->first_slot == first) {
            *slot = first + seen->slot_capacity;
            return index;
        }
    }
    return TOPIC_NONE;
}

uint32_t topics_unburied(const struct topics *topics, uint32_t *slot, struct topic_seen *seen)
{
    uint32_t index;
    while ((index = topics_next(topics, slot, seen)) != TOPIC_NONE) {
        for (uint32_t queue = 0; seen->deleted && queue < seen->slot_capacity; queue++) {
            struct queue_seen state;
            queue_see(topics, seen->first_slot + queue, &state);
            if (state.next_offset > state.min_offset || state.max_offset > state.min_offset)
                return index;
        }
    }
    return TOPIC_NONE;
}

void topics_bury(struct topics *topics)
{
    /* relaxed: only says that it is worth looking. The reader compares each queue's own words, and looks again if they do not yet
     * say that the queue holds nothing. Its partner is the load in topics_burials. */
    atomic_fetch_add_explicit(&topics->burials, 1, memory_order_relaxed);
}

uint32_t topics_burials(const struct topics *topics)
{
    /* relaxed: as above */
    return atomic_load_explicit(&topics->burials, memory_order_relaxed);
}

void topics_raise_buried(struct topics *topics)
{
    /* relaxed: whoever has acquired a max_offset [Q1] that counts a unit in a file made after this sees the new number too. Its partner is
     * the load in topics_buried. */
    atomic_fetch_add_explicit(&topics->buried, 1, memory_order_relaxed);
}

uint32_t topics_buried(const struct topics *topics)
{
    /* relaxed: as above */
    return atomic_load_explicit(&topics->buried, memory_order_relaxed);
}

void topic_set_queues(struct topics *topics, uint32_t index, uint32_t queues)
{
    struct topic_entry *entry = &topics->topic[index];
    assert(queues <= entry->slot_capacity);
    /* release: for a look that counts on what the coordinator did before, such as having stored the topic's file */
    atomic_store_explicit(&entry->queues, queues, memory_order_release);
}

void topic_set_retention(struct topics *topics, uint32_t index, uint32_t hours)
{
    /* relaxed: a word of its own, looked at now and then */
    atomic_store_explicit(&topics->topic[index].retention_hours, hours, memory_order_relaxed);
}

void topic_set_durable(struct topics *topics, uint32_t index, bool durable)
{
    /* relaxed: a word of its own. Its partner is the load in topic_durable. */
    atomic_store_explicit(&topics->topic[index].durable, durable, memory_order_relaxed);
}

void topic_set_perm(struct topics *topics, uint32_t index, uint32_t perm)
{
    /* relaxed: a word of its own. Its partners are the loads in handler_judge.c and topic_see. */
    atomic_store_explicit(&topics->topic[index].perm, perm, memory_order_relaxed);
}

void topic_set_deleted(struct topics *topics, uint32_t index, bool deleted)
{
    /* relaxed: a word of its own. Its partner is the load in topic_deleted. */
    atomic_store_explicit(&topics->topic[index].deleted, deleted, memory_order_relaxed);
}

uint32_t topics_queue_count(const struct topics *topics)
{
    /* relaxed: the coordinator alone writes it */
    return atomic_load_explicit(&topics->queue_count, memory_order_relaxed);
}

void queue_see(const struct topics *topics, uint32_t slot, struct queue_seen *seen)
{
    assert(slot < topics->queue_capacity);
    const struct queue_slot *queue = topics_queue(topics, slot);
    /* relaxed, and for physical_end: only shown */
    seen->next_offset = atomic_load_explicit(&queue->next_offset, memory_order_relaxed);
    /* acquire: the units below max_offset may be read afterwards [Q1] */
    seen->max_offset = atomic_load_explicit(&queue->max_offset, memory_order_acquire);
    seen->min_offset = atomic_load_explicit(&queue->min_offset, memory_order_acquire);
    seen->physical_end = atomic_load_explicit(&queue->physical_end, memory_order_relaxed);
    seen->topic = queue->topic;
    seen->queue_id = queue->queue_id;
}

void queue_recovered(struct topics *topics, uint32_t slot, uint64_t min_offset, uint64_t max_offset, uint64_t physical_end)
{
    assert(slot < topics->queue_capacity && min_offset <= max_offset);
    struct queue_slot *queue = topics_queue(topics, slot);
    /* relaxed: no other process has these mappings yet */
    atomic_store_explicit(&queue->min_offset, min_offset, memory_order_relaxed);
    atomic_store_explicit(&queue->max_offset, max_offset, memory_order_relaxed);
    atomic_store_explicit(&queue->next_offset, max_offset, memory_order_relaxed);
    atomic_store_explicit(&queue->physical_end, physical_end, memory_order_relaxed);
}

void queue_raise_min(struct topics *topics, uint32_t slot, uint64_t min_offset)
{
    struct queue_slot *queue = topics_queue(topics, slot);
    /* relaxed: only grows */
    assert(slot < topics->queue_capacity && min_offset <= atomic_load_explicit(&queue->max_offset, memory_order_relaxed));
    /* relaxed: the exchange below looks again, because retention and a purge may raise it at once */
    uint64_t seen = atomic_load_explicit(&queue->min_offset, memory_order_relaxed);
    /* release: before any file that held the units below is unlinked, and before the log's min offset. Pairs with the acquires in
     * reader.h and reader.c [O1]. relaxed on failure: only compared. */
    while (min_offset > seen && !atomic_compare_exchange_weak_explicit(&queue->min_offset, &seen, min_offset, memory_order_release,
                                                                       memory_order_relaxed))
        ;
}

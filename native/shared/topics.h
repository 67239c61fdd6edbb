/* The topic table segment: topics by name, and the queue slots that the writer, reput and the notifier index by number.
 *
 *   | header | table line | reput's line | topics, topic_capacity entries | queue slots, queue_capacity entries |
 *
 * Topics are open-addressed by the hash of their name with linear probing, and are only ever added while the tree lives.
 * The coordinator alone adds them: it fills an entry, then sets `state` with release [T1]; readers load `state` with
 * acquire before they believe the rest. A topic's index in the table is its number; its queues are the slots
 * first_slot .. first_slot + queues - 1. A topic that gets more queues keeps its first slots: room for them is taken when it
 * is made (slot_capacity), and `queues` is raised with release.
 */
#ifndef ORBITMQ_TOPICS_H
#define ORBITMQ_TOPICS_H

#include "shared/segment.h"

#define TOPIC_NAME_MAX 127u
#define TOPIC_NONE UINT32_MAX

enum { TOPIC_EMPTY = 0, TOPIC_LIVE = 1 };
enum { PERM_WRITE = 2, PERM_READ = 4 };

#define RETENTION_FOR_EVER UINT32_MAX

struct topic_entry {
    _Alignas(SEGMENT_LINE) _Atomic uint32_t state; /* [T1] */
    uint32_t hash;
    uint32_t first_slot;
    uint32_t slot_capacity;
    _Atomic uint32_t queues; /* writable and readable queues; only grows */
    _Atomic uint32_t perm;
    _Atomic uint32_t retention_hours; /* the topic's own: 0 as the broker's setting, RETENTION_FOR_EVER */
    _Atomic uint32_t durable; /* 1: a send waits for the disk if neither it nor its producer says what it waits for */
    _Atomic uint32_t deleted; /* 1: to clients it does not exist; reput still indexes what the log holds of it */
    uint8_t name_size;
    uint8_t name[TOPIC_NAME_MAX];
    uint8_t pad[28];
};
static_assert(sizeof(struct topic_entry) == 3 * SEGMENT_LINE, "a topic takes three lines");

/* The writer of each line is named above it. Everything only grows, except `audience` and a successor writer's next offset. */
struct queue_slot {
    /* the CommitLog writer's: the queue offset that the next message gets */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t next_offset;
    /* reput's: units [min_offset, max_offset) may be read; physical end of the newest unit. min_offset is reput's until it
     * first raises max_offset in this tree; from then on the flush service's retention and the coordinator's purges raise it */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t max_offset;
    _Atomic uint64_t min_offset;
    _Atomic uint64_t physical_end;
    uint32_t topic;    /* index of the topic; the coordinator sets it before the topic is live */
    uint32_t queue_id;
    /* the notifier's: who waits for this queue: 0 nobody, PULL_HOLD_MANY, or a lone session's slot + 1 (below) and epoch << 32 */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t audience;
};
static_assert(sizeof(struct queue_slot) == 3 * SEGMENT_LINE, "a queue slot is three owners' lines");

#define PULL_HOLD_NONE UINT64_C(0)
#define PULL_HOLD_MANY UINT64_MAX

struct topics {
    struct segment_header header;
    _Alignas(SEGMENT_LINE) uint32_t topic_capacity; /* power of two */
    uint32_t queue_capacity;
    _Atomic uint32_t topic_count;
    _Atomic uint32_t queue_count; /* slots handed out so far */
    _Atomic uint32_t burials; /* how often queues of deleted topics were found to hold nothing any more: their files may go */
    _Alignas(SEGMENT_LINE) _Atomic uint32_t buried; /* reput's: how often it has removed such files */
    _Alignas(SEGMENT_LINE) struct topic_entry topic[];
    /* struct queue_slot follows the last topic */
};

uint64_t topics_size(uint32_t topic_capacity, uint32_t queue_capacity);
void topics_init(struct topics *topics, uint32_t topic_capacity, uint32_t queue_capacity, uint64_t generation);

static inline struct queue_slot *topics_queue(const struct topics *topics, uint32_t slot)
{
    return (struct queue_slot *)(uintptr_t)(topics->topic + topics->topic_capacity) + slot;
}

uint32_t topic_hash(const uint8_t *name, uint32_t size);

enum topic_name_fault { TOPIC_NAME_GOOD = 0, TOPIC_NAME_EMPTY = 1, TOPIC_NAME_LONG = 2, TOPIC_NAME_CHARACTER = 3 };

/* RocketMQ's rule, from a 128-entry table: % | a-z A-Z 0-9 _ -. *at is the first forbidden byte's index. */
enum topic_name_fault topic_name_check(const uint8_t *name, uint32_t size, uint32_t *at);

/* Index of a live topic, or TOPIC_NONE. */
uint32_t topics_find(const struct topics *topics, const uint8_t *name, uint32_t size);

enum topics_add_result { TOPICS_ADDED = 0, TOPICS_FULL = 1, TOPICS_QUEUES_FULL = 2, TOPICS_EXISTS = 3 };

/* The coordinator only: the answer that topics_add would give. */
enum topics_add_result topics_room(const struct topics *topics, const uint8_t *name, uint32_t size, uint32_t slot_capacity);

/* The coordinator only, before topics_add: how long the messages of the new topic are kept, and whether sends to it wait for the
 * disk, so that nobody sees the topic without. */
void topics_expect(struct topics *topics, const uint8_t *name, uint32_t size, uint32_t retention_hours, bool durable);

/* The coordinator only. *index: the topic's, new or existing. */
enum topics_add_result topics_add(struct topics *topics, const uint8_t *name, uint32_t size, uint32_t queues,
                                  uint32_t slot_capacity, uint32_t perm, uint32_t *index);

/* For Python: a live topic's entry, and a queue's range. topic_see returns false for an empty entry. topics_next sees the first live
 * topic whose slots begin at *slot or later, and moves *slot past them; index of the topic, or TOPIC_NONE. So a walk over all topics,
 * in the order in which they were made, looks at as many slots as there are topics, not at each entry that a topic could be in. */
struct topic_seen {
    uint32_t first_slot, slot_capacity, queues, perm, retention_hours, durable, deleted, name_size;
    uint8_t name[TOPIC_NAME_MAX + 1]; /* NUL-terminated */
};
bool topic_see(const struct topics *topics, uint32_t index, struct topic_seen *seen);
uint32_t topics_next(const struct topics *topics, uint32_t *slot, struct topic_seen *seen);
/* The coordinator: more queues for a topic, up to its slot_capacity. */
void topic_set_queues(struct topics *topics, uint32_t index, uint32_t queues);
/* The coordinator: how long the topic's messages are kept; as struct topic_entry has it. */
void topic_set_retention(struct topics *topics, uint32_t index, uint32_t hours);
/* The coordinator: whether sends to the topic wait for the disk unless they say otherwise. Counts for every later send. */
void topic_set_durable(struct topics *topics, uint32_t index, bool durable);
/* The coordinator: what clients may do. Counts for every later send. */
void topic_set_perm(struct topics *topics, uint32_t index, uint32_t perm);
/* The coordinator: whether the topic was deleted. Counts for every later send. Its entry and its queue slots stay, and if the topic is
 * made again, they are its own again, so that its queues' offsets go on. */
void topic_set_deleted(struct topics *topics, uint32_t index, bool deleted);
static inline bool topic_deleted(const struct topic_entry *entry)
{
    /* relaxed: a word of its own that orders nothing. Its partner is the store in topic_set_deleted. */
    return atomic_load_explicit(&entry->deleted, memory_order_relaxed) != 0;
}
/* The coordinator: the next deleted topic, as topics_next finds it, that got messages which nobody has purged yet. */
uint32_t topics_unburied(const struct topics *topics, uint32_t *slot, struct topic_seen *seen);
/* The coordinator: asks reput to remove files of deleted topics. Reput, and whoever is not to mistake a file that it has removed for a
 * damaged store: how often it was asked. */
void topics_bury(struct topics *topics);
uint32_t topics_burials(const struct topics *topics);
/* Reput: files are removed, and those that it makes from here on are new. The flush service: how often that was. */
void topics_raise_buried(struct topics *topics);
uint32_t topics_buried(const struct topics *topics);
/* The coordinator: the number of queue slots that have been handed out, and so the slot that the next topic begins with. */
uint32_t topics_queue_count(const struct topics *topics);
/* For senders. relaxed: a word of its own that orders nothing. Its partner is the store in topic_set_durable. A sender that was
 * told of the change by the process that asked for it sees the change, because the message goes through the kernel. */
static inline bool topic_durable(const struct topics *topics, uint32_t index)
{
    return atomic_load_explicit(&topics->topic[index].durable, memory_order_relaxed) != 0;
}

struct queue_seen {
    uint64_t next_offset, max_offset, min_offset, physical_end;
    uint32_t topic, queue_id;
};
void queue_see(const struct topics *topics, uint32_t slot, struct queue_seen *seen);
/* The supervisor, after recovery and before the first actor starts; the coordinator, for slots that no topic has yet. */
void queue_recovered(struct topics *topics, uint32_t slot, uint64_t min_offset, uint64_t max_offset, uint64_t physical_end);
/* The flush service, the coordinator and a starting supervisor: messages below min_offset are no longer delivered. Only raises;
 * min_offset is at most a max_offset seen. */
void queue_raise_min(struct topics *topics, uint32_t slot, uint64_t min_offset);

#endif

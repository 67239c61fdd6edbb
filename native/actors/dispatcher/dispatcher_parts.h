/* What the files of the dispatcher share.
 *
 *   dispatcher.c          its life and its loop
 *   dispatcher_plan.c     from the plan to groups, workers and queues; what a predecessor left
 *   work_queue.c          the words of one queue
 *   dispatcher_answers.c  what workers answer, and their ends
 *   dispatcher_hand.c     who gets what
 *   dispatcher_put.c      what failed, and is put into the log again or into the dead letters
 *   dispatcher_image.c    the records for that
 *   dispatcher_filter.c   which messages a group's workers want of a topic
 *   dispatcher_order.c    which messages wait for others of their key, in groups that want that
 *   dispatcher_order_look.c  the look at such a group's messages that makes them known
 *   dispatcher_chain.c    the known ones: which have a key in common, and which can be handed out
 *   dispatcher_kept.c     the file orbitmq/retries, and what the log knows after a death of the whole tree
 */
#ifndef ORBITMQ_DISPATCHER_PARTS_H
#define ORBITMQ_DISPATCHER_PARTS_H

#include "actors/dispatcher/dispatcher.h"
#include "actors/dispatcher/dispatcher_order.h"
#include "actors/put_lane.h"
#include "base/crash_point.h"
#include "base/pace.h"
#include "format/consume_queue.h"
#include "format/log_map.h"
#include "format/retry.h"
#include "shared/work_file.h"
#include "shared/work_partings.h"

#define WORK_TOPICS_MAX 64u /* of a group */

struct work_worker;
struct work_group;
struct work_filter;

/* Why work failed: a reason, 0x01 and a digest, or nothing. */
struct work_text {
    uint32_t size;
    uint8_t text[WORK_TEXT_MAX];
};

/* One queue of one group. */
struct work_queue {
    struct work_file *file;
    _Atomic uint64_t *words;
    const struct queue_slot *slot_entry;
    struct dispatcher *dispatcher;
    struct work_group *group;
    uint64_t key; /* of group, topic and queue: names them where a pointer cannot */
    uint64_t opening; /* another number each time it is to begin where the plan says */
    uint32_t slot;
    uint32_t topic;
    uint64_t floor, frontier; /* as in the file */
    uint64_t free;            /* messages between them that are free ... */
    uint64_t hint;            /* ... none of them before this one */
    uint64_t due_ms;          /* no message in hand or waiting is due before */
    uint64_t scan_ms;         /* not looked for due ones before: a look costs as many words as are in the window */
    uint64_t parting;         /* messages that are to be put into the log elsewhere ... */
    uint64_t part_hint;       /* ... none of them before this one */
    struct consume_queue_reader units;
    uint32_t *nodes;          /* of a key-ordered group, by offset % WORK_WINDOW; else NULL. This and what follows: dispatcher_order.c */
    uint64_t looked;          /* messages below were looked at */
    uint64_t place;           /* of the next one in the log, if `placed` */
    bool placed;
    uint32_t ready_head, ready_tail; /* nodes that can be handed out ... */
    uint64_t ready;                  /* ... and how many */
    uint64_t short_ms;        /* nothing is handed out before: see dispatcher_reconsumed, dispatcher_judge */
    struct work_filter *filter; /* of its topic; NULL: workers want every message */
    uint64_t judge;             /* that filter's number, or 0 */
    bool retry;               /* of the group's retry topic: its records know how often they were handed out before */
    bool fresh;               /* its words were not counted yet */
    bool named;               /* by the plan that is being taken */
};

struct work_group {
    uint64_t opening;
    char name[TOPIC_NAME_MAX + 1];
    uint32_t name_size;
    uint32_t max_tries;
    uint64_t missing_ms; /* its topics were asked for; not again before */
    uint64_t missing_since_ms; /* ... for the first time; 0: none is missing, as far as is known */
    struct order *order; /* of a key-ordered group; else NULL */
    bool queue_ordered;  /* a queue's messages go in runs, one after the other: see work_queue_busy */
    bool puts;           /* its name leaves room for topics of its own */
    bool replays;        /* a predecessor may have applied an answer that is still in a worker's ring */
    bool paused, named;
    struct work_queue **queues; /* by slot */
    uint32_t queue_count, queue_room;
    struct work_worker **workers;
    uint32_t worker_count, worker_room;
    uint32_t worker_turn, queue_turn;
    struct work_filter *filters[WORK_TOPICS_MAX * 2];
    uint32_t filter_count;
    uint32_t looks; /* messages that may still be judged in this turn */
};

struct work_worker {
    struct work_group *group;
    uint32_t slot, epoch;
    uint64_t topics;
    uint32_t most, held;
    uint32_t lapsed; /* messages whose time was over before it answered; it has them in its hands for all it knows, and gets no others for them */
    uint64_t visibility_ms;
    uint64_t tail;   /* of its hand-outs, ours */
    uint64_t taken;  /* of its answers, ours */
    uint64_t replay; /* the answer before this one may have been applied by a predecessor */
    uint64_t last;   /* of its answers, if it is ending: those behind came too late */
    bool attached;   /* the three above are known */
    bool ending;     /* its session closes, and its answers up to `last` are taken in several steps */
    uint64_t short_at; /* where its answers ended when the last of them was not whole */
    bool waits;      /* its next answer waits for a place for its text */
    bool broken;     /* it wrote into its rings what cannot be; it gets nothing more */
    bool named;
};

struct dispatcher {
    struct attachment *attachment;
    uint8_t boot[16];
    uint32_t work_version;     /* of the plan taken last */
    bool planned;              /* one was taken */
    uint32_t sessions_version; /* as last looked at */
    bool looked;               /* at all of them */
    struct work_group **groups;
    uint32_t group_count, group_room;
    struct work_worker *by_slot[SESSIONS_MAX];
    struct pace pace;
    struct work_partings *partings; /* NULL: nothing is put into the log */
    struct put_lane put;
    bool loaded;                    /* what the log knows stands in the words */
    uint64_t load_at, load_end;
    uint64_t put_retry_ms;          /* the log took no more, or this process is short of something; not before then */
    uint64_t sweep_ms;              /* texts of no use are not looked for before then */
    uint32_t put_turn;              /* the group to begin the next portion with */
    uint32_t passed;                /* messages that this step has passed over, or looked at for a key-ordered group */
    uint32_t known_max;             /* messages of a key-ordered group: see dispatcher_know */
    uint64_t log_end;               /* when this process began */
    struct log_map log;
    uint64_t read;                  /* bytes of the log read through mappings since they were made */
    char missing[TOPIC_NAME_MAX + 1]; /* a group whose topics are asked for, or "" */
    uint8_t properties[PROPERTIES_MAX];
};

/* ---- dispatcher_plan.c ---- */

struct work_queue *dispatcher_find_queue(const struct work_group *group, uint32_t slot);
void dispatcher_forget_worker(struct dispatcher *dispatcher, struct work_worker *worker);
/* The worker's session, mapped, with its positions known; NULL: not now. */
struct session_map *dispatcher_session(struct dispatcher *dispatcher, struct work_worker *worker);

/* ---- work_queue.c       ---- */

static inline _Atomic uint64_t *work_word_at(const struct work_queue *queue, uint64_t offset)
{
    return &queue->words[offset % WORK_WINDOW];
}
/* relaxed: only this process has the words; a successor reads them after its death */
static inline uint64_t work_load(const struct work_queue *queue, uint64_t offset)
{
    return atomic_load_explicit(work_word_at(queue, offset), memory_order_relaxed);
}
static inline void work_store(struct work_queue *queue, uint64_t offset, uint64_t word)
{
    atomic_store_explicit(work_word_at(queue, offset), word, memory_order_relaxed);
    if (queue->nodes)
        order_changed(queue, offset, word);
}

/* Maps a queue's file and makes it fit: 0 or an errno. opening: of the group. */
int work_queue_open(struct work_queue *queue, const char *path, uint64_t opening, uint64_t offset);
void work_queue_close(struct work_queue *queue);
/* Counts what is free, in whose hands, and due. What nobody of the group has in hand any more is free. */
void work_queue_count(struct work_queue *queue);
/* A message becomes free, or waits for delay_ms; its hands are let go. */
void work_queue_free(struct work_queue *queue, uint64_t offset, uint64_t word, uint32_t tries, uint64_t delay_ms, uint64_t now_ms);
/* It is to be put into the log elsewhere; its hands are let go. */
void work_queue_part(struct work_queue *queue, uint64_t offset, uint64_t word, uint32_t tries);
/* It is there. */
void work_queue_land(struct work_queue *queue, uint64_t offset);
/* Frees what the worker has in hand. */
void work_queue_release(struct work_queue *queue, const struct work_worker *worker);
/* The queue is not worked on any more: what workers have in hand of it takes no room in their hands. The words stay. */
void work_queue_forget(struct work_queue *queue);
/* Frees what is due. Returns how many. */
uint32_t work_queue_expire(struct work_queue *queue, uint64_t now_ms);
/* Nobody wants a message that was never handed out: it is done. The frontier is raised above it; what
 * lies between is free. */
void work_queue_pass(struct work_queue *queue, uint64_t offset);
/* Raises the floor above what is done, or removed by retention. */
void work_queue_raise(struct work_queue *queue);
/* Where the messages end that can be handed out, for now. */
uint64_t work_queue_end(const struct work_queue *queue);
/* Of a group that is queue-ordered: somebody has one of its messages, or one waits, so that no later one is handed out. */
bool work_queue_busy(const struct work_queue *queue);
/* Messages that could be handed out now. */
uint64_t work_queue_available(const struct work_queue *queue);
/* Up to `most` consecutive free messages, handed out equally often before: returns how many, from *first on. They are not marked, and
 * not found again. */
uint32_t work_queue_find(struct work_queue *queue, uint32_t most, uint64_t *first, uint32_t *tries);
/* Marks such messages as in the worker's hands until then. */
void work_queue_hold(struct work_queue *queue, uint64_t first, uint32_t count, uint32_t tries, struct work_worker *worker, uint64_t until_ms);
static inline bool work_is_mine(const struct work_worker *worker, uint64_t word)
{
    return work_slot(word) == worker->slot && work_epoch(word) == (worker->epoch & 0xffff);
}

/* ---- dispatcher_answers.c ---- */

/* Takes answers of all workers. Returns how many messages they were about. */
uint32_t dispatcher_take_answers(struct dispatcher *dispatcher, uint64_t now_ms);
/* Sessions that came or went. Returns how many messages the last answers of those that went were about. */
uint32_t dispatcher_look_at_sessions(struct dispatcher *dispatcher);
/* Raises the queue's floor, but not while a predecessor's last answers are not applied again: what they named is above it. Only a window
 * that is half full does not wait for a client to make room for that. */
void dispatcher_raise(struct work_queue *queue);
/* True if a worker has answered, and the answer can be taken. */
bool dispatcher_answered(struct dispatcher *dispatcher);

/* ---- dispatcher_put.c  ---- */

/* A message was not done: it comes again after delay_ms (WORK_BACK_OFF: as a retry), or goes to the dead letters. text: NULL if nobody
 * has said why. */
void dispatcher_fail(struct work_queue *queue, uint64_t offset, uint64_t word, uint32_t tries, uint64_t delay_ms, uint64_t now_ms,
                     const struct work_text *text);
/* One step: a portion is put, or counted. Returns how many messages. */
uint32_t dispatcher_put(struct dispatcher *dispatcher, uint64_t now_ms);
/* True if a message that fails for that time is a dead letter. */
static inline bool dispatcher_gives_up(const struct work_queue *queue, uint32_t tries)
{
    return queue->dispatcher->partings && queue->group->puts && tries >= queue->group->max_tries;
}
/* key: as much of it as a name has room for. Names are hashed by a function that is no secret, so the group's counts too. */
struct work_queue *dispatcher_find_key(const struct dispatcher *dispatcher, uint64_t key, struct slice group);
/* Something was published that is not counted. */
static inline bool dispatcher_putting(const struct dispatcher *dispatcher)
{
    /* relaxed: only we write it */
    return dispatcher->partings &&
           put_lane_ahead(&dispatcher->put, atomic_load_explicit(&dispatcher->partings->counted, memory_order_relaxed)) > 0;
}
/* True if there is something to put, and it may be tried now. */
bool dispatcher_has_to_put(const struct dispatcher *dispatcher, uint64_t now_ms);
/* True if something may be in the log soon. */
bool dispatcher_hopes(const struct dispatcher *dispatcher, uint64_t now_ms);

/* ---- dispatcher_image.c ---- */

enum part_result {
    PART_PUT = 0,
    PART_FULL = 1,   /* the lane has no room now */
    PART_LATER = 2,  /* this process is short of something now */
    PART_NEVER = 3,  /* it cannot be read, or is too large with what has to be noted */
    PART_TOPICS = 4, /* the group has no such topic yet */
};
enum part_result dispatcher_part(struct work_queue *queue, uint64_t offset, uint32_t tries);
enum unit_result {
    UNIT_FOUND = 0,
    UNIT_LATER = 1, /* this process is short of something now */
    UNIT_NONE = 2,  /* it cannot be read */
};
/* Where a message stands in the log. */
enum unit_result dispatcher_unit(struct work_queue *queue, uint64_t offset, struct queue_unit *unit);
/* A unit's record, mapped and parsed; NULL with errno. */
const uint8_t *dispatcher_record_of(struct work_queue *queue, const struct queue_unit *unit, struct record_view *view);
/* The same of a message. */
const uint8_t *dispatcher_record(struct work_queue *queue, uint64_t offset, struct queue_unit *unit, struct record_view *view);
/* How often a record of a retry topic was handed out before; 0 if it cannot be read. False: this process is short of something now;
 * nothing of the queue is available for a moment. */
bool dispatcher_reconsumed(struct work_queue *queue, uint64_t offset, uint32_t *tries);

/* ---- dispatcher_filter.c ---- */

enum filter_result {
    FILTER_PASSES,
    FILTER_REFUSES,
    FILTER_LATER, /* not in this turn, or this process is short of something now */
};
/* The plan names the group's filters again. */
void dispatcher_filter_begin(struct work_group *group);
/* It has: the others are forgotten, and each queue knows its own. */
void dispatcher_filter_settle(struct work_group *group);
void dispatcher_filter_forget(struct work_group *group);
/* Another turn of the group begins, which judges a bounded number of messages. */
void dispatcher_filter_turn(struct work_group *group);
/* Judges a message of a queue that has a filter. */
enum filter_result dispatcher_judge(struct work_queue *queue, uint64_t offset);
/* True if its workers want this record. code: of its unit. */
bool dispatcher_wants(const struct work_queue *queue, int64_t code, const struct record_view *view);

/* ---- dispatcher_kept.c ---- */

uint64_t dispatcher_key(const char *path);
struct work_parting *dispatcher_text(const struct dispatcher *dispatcher, uint64_t key, uint64_t offset);
bool dispatcher_text_room(struct dispatcher *dispatcher, uint64_t now_ms);
void dispatcher_text_keep(struct dispatcher *dispatcher, uint64_t key, uint64_t offset, const struct work_text *text);
void dispatcher_text_free(struct dispatcher *dispatcher, uint64_t key, uint64_t offset);
/* The group that a retry or a dead letter is for. data == NULL: it is neither. */
struct slice dispatcher_group_of(const struct record_view *view);
/* A record that a dispatcher has put into the log: the message that it was made of is done. */
void dispatcher_landed(struct dispatcher *dispatcher, const struct record_view *view);

/* ---- dispatcher_hand.c ---- */

/* The gateway sleeps behind no futex: ends its sleep, if this worker is one of its. Behind a full fence. */
void dispatcher_ring_gateway(struct dispatcher *dispatcher, const struct work_worker *worker);
/* How many messages the worker may get now. */
uint32_t dispatcher_room(struct dispatcher *dispatcher, struct work_worker *worker, struct session_map *map);
uint32_t dispatcher_hand_out(struct dispatcher *dispatcher, struct work_group *group, uint64_t now_ms);
/* True if something can be handed out. */
bool dispatcher_can_hand_out(struct dispatcher *dispatcher, struct work_group *group);
/* What a predecessor was handing out when it died. */
void dispatcher_undo(struct dispatcher *dispatcher);

#endif

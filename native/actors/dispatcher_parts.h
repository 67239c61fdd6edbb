/* What the files of the dispatcher share.
 *
 *   dispatcher.c          its life and its loop
 *   dispatcher_plan.c     from the plan to groups, workers and queues; what a predecessor left
 *   work_queue.c          the words of one queue
 *   dispatcher_answers.c  what workers answer, and their ends
 *   dispatcher_hand.c     who gets what
 */
#ifndef ORBITMQ_DISPATCHER_PARTS_H
#define ORBITMQ_DISPATCHER_PARTS_H

#include "actors/dispatcher.h"
#include "base/crash_point.h"
#include "base/pace.h"
#include "shared/work_file.h"

struct work_worker;

/* One queue of one group. */
struct work_queue {
    struct work_file *file;
    _Atomic uint64_t *words;
    const struct queue_slot *slot_entry;
    struct dispatcher *dispatcher;
    uint32_t slot;
    uint32_t topic;
    uint64_t floor, frontier; /* as in the file */
    uint64_t free;            /* messages between them that are free ... */
    uint64_t hint;            /* ... none of them before this one */
    uint64_t due_ms;          /* no message in hand or waiting is due before */
    uint64_t scan_ms;         /* not looked for due ones before: a look costs as many words as are in the window */
    bool fresh;               /* its words were not counted yet */
    bool named;               /* by the plan that is being taken */
};

struct work_group {
    uint64_t opening;
    bool paused, named;
    struct work_queue **queues; /* by slot */
    uint32_t queue_count, queue_room;
    struct work_worker **workers;
    uint32_t worker_count, worker_room;
    uint32_t worker_turn, queue_turn;
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
    bool broken;     /* it wrote into its rings what cannot be; it gets nothing more */
    bool named;
};

struct dispatcher {
    struct attachment *tree;
    uint8_t boot[16];
    uint32_t work_version;     /* of the plan taken last */
    bool planned;              /* one was taken */
    uint32_t sessions_version; /* as last looked at */
    bool looked;               /* at all of them */
    struct work_group **groups;
    uint32_t group_count, group_room;
    struct work_worker *by_slot[SESSIONS_MAX];
    struct pace pace;
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
static inline void work_store(const struct work_queue *queue, uint64_t offset, uint64_t word)
{
    atomic_store_explicit(work_word_at(queue, offset), word, memory_order_relaxed);
}

/* Maps a queue's file and makes it fit: 0 or an errno. opening: of the group. */
int work_queue_open(struct work_queue *queue, const char *path, uint64_t opening, uint64_t offset);
void work_queue_close(struct work_queue *queue);
/* Counts what is free, in whose hands, and due. What nobody of the group has in hand any more is free. */
void work_queue_count(struct work_queue *queue);
/* A message becomes free, or waits for delay_ms; its hands are let go. */
void work_queue_free(struct work_queue *queue, uint64_t offset, uint64_t word, uint32_t tries, uint64_t delay_ms, uint64_t now_ms);
/* Frees what the worker has in hand. */
void work_queue_release(struct work_queue *queue, const struct work_worker *worker);
/* The queue is not worked on any more: what workers have in hand of it takes no room in their hands. The words stay. */
void work_queue_forget(struct work_queue *queue);
/* Frees what is due. Returns how many. */
uint32_t work_queue_expire(struct work_queue *queue, uint64_t now_ms);
/* Raises the floor above what is done, or removed by retention. */
void work_queue_raise(struct work_queue *queue);
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
/* True if a worker has answered, and the answer can be taken. */
bool dispatcher_answered(struct dispatcher *dispatcher);

/* ---- dispatcher_hand.c ---- */

/* How many messages the worker may get now. */
uint32_t dispatcher_room(struct dispatcher *dispatcher, struct work_worker *worker, struct session_map *map);
uint32_t dispatcher_hand_out(struct dispatcher *dispatcher, struct work_group *group, uint64_t now_ms);
/* True if something can be handed out. */
bool dispatcher_can_hand_out(struct dispatcher *dispatcher, struct work_group *group);
/* What a predecessor was handing out when it died. */
void dispatcher_undo(struct dispatcher *dispatcher);

#endif

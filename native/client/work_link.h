/* A worker's end of its session: takes hand-outs, gives answers, and sleeps until there is news. One thread at a time may call it, except
 * work_link_wait, work_link_tell and work_link_ring. The dispatcher is the other end (actors/dispatcher/dispatcher.h).
 */
#ifndef ORBITMQ_WORK_LINK_H
#define ORBITMQ_WORK_LINK_H

#include "shared/control.h"

struct work_link {
    struct session *session;       /* mapped read-write, ours alone */
    const struct control *control;
    struct wake *wake;             /* mapped read-write */
    struct session_parts parts;
    uint32_t capacity;             /* of each ring */
    uint32_t slot, epoch;
    int supervisor;                /* pidfd of the tree's supervisor, -1: not watched */
    uint64_t answered;             /* records that we put into the ring of answers; published by work_link_publish */
    uint64_t acked;                /* messages acknowledged since the dispatcher was rung */
    bool pressing;                 /* an answer among those not published is to be applied at once */
    _Atomic uint64_t handed;       /* records that we took; work_link_wait of another thread looks at it */
    _Atomic uint64_t published;    /* records of answers that the dispatcher may take ... */
    _Atomic uint64_t told;         /* ... and of which it was told by a ring */
    _Atomic uint32_t waiting;      /* threads in work_link_wait */
};

enum work_link_result {
    WORK_LINK_NEWS = 0,
    WORK_LINK_TIMEOUT = 1,
    WORK_LINK_SIGNAL = 2, /* let Python run its handlers, then wait again */
    WORK_LINK_GONE = 3,   /* the tree is dead or stopping, or has given the session up */
};

/* Addresses as a client.session.SessionHandle has them. work: records in each ring. NULL: no memory. */
struct work_link *work_link_open(uintptr_t session, uintptr_t control, uintptr_t wake, int supervisor, const struct session_shape *shape);
void work_link_close(struct work_link *link);

/* Takes up to `most` records. Their room is given back at once. */
uint32_t work_link_take(struct work_link *link, struct work_record *records, uint32_t most);

/* Puts an answer into the ring. opening, tries: of the hand-out. False: it is full until the dispatcher has taken some. */
bool work_link_answer(struct work_link *link, uint32_t kind, uint32_t queue, uint32_t opening, uint64_t first, uint32_t count, uint32_t tries,
                      uint64_t time_ms);

/* Puts the text why a message was not done, at most WORK_TEXT_MAX bytes, and the nack, both or neither. False: it is too full for them. */
bool work_link_nack(struct work_link *link, uint32_t queue, uint32_t opening, uint64_t offset, uint32_t tries, uint64_t time_ms, const uint8_t *text,
                    uint32_t size);

/* The dispatcher may take the answers so far. It is rung for them if somebody waits for what they change; else it finds them when it is
 * rung for later ones, or BELL_LIMIT_NS after it fell asleep. */
void work_link_publish(struct work_link *link);

/* Rings the dispatcher if it was not told of all that is published. Any thread. */
void work_link_tell(struct work_link *link);
/* Published answers of which it was not told. */
uint64_t work_link_untold(const struct work_link *link);

/* How many messages this session wants to have in its hands. Tells the dispatcher if they are more than before. */
void work_link_want(struct work_link *link, uint32_t most);

/* Answers that the dispatcher has applied. */
uint64_t work_link_applied(const struct work_link *link);

/* Sleeps at most limit_ns, and at most BELL_LIMIT_NS, until there are hand-outs (WORK_LINK_NEWS), or so many answers are applied. applied
 * UINT64_MAX: only hand-outs count. */
enum work_link_result work_link_wait(struct work_link *link, uint64_t applied, uint64_t limit_ns);

/* True while the tree runs and the session is open. */
bool work_link_alive(const struct work_link *link);

/* Ends the sleeps of this session's threads. */
void work_link_ring(struct work_link *link);

#endif

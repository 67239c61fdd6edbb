/* Pop: messages of a topic that are handed out to remote clients one by one. The gateway is a worker of the group (client/work_link.h): one
 * link for each group, topic and filter that somebody pops. What the dispatcher hands to the link is leased to clients here.
 *
 * The dispatcher would take a message back after POP_HELD_MS, longer than any client may have one. So it is the gateway alone that ends a
 * lease: it gives the message back as failed (WORK_NACK), and only behind that, in the order of the ring of answers, can the dispatcher hand
 * it out again. No receipt of an earlier delivery can meet a later one in between.
 *
 * Of a group that pops in order, the dispatcher hands out no message of a queue while an earlier batch of it is in hand (work_queue_busy). One
 * answer has one batch, so what a pop does not take of a range goes back at once.
 *
 * A reset of the group makes all that was handed out before nobody's. Then the queue has another opening, by which the dispatcher tells answers,
 * so that a receipt from before it counts for no later delivery.
 *
 *   handed out -> stock -> leased -> acknowledged -> applied, and its client is told
 *                    |        '----> lapsed: nacked, and handed out again with one delivery more
 *                    '----> given back: nobody waits for it, or others of its batch were leased
 */
#ifndef ORBITMQ_GATEWAY_POP_H
#define ORBITMQ_GATEWAY_POP_H

#include "client/work_link.h"
#include "remoting/gateway/gateway_parts.h"
#include "remoting/gateway/pop_leases.h"
#include "shared/work_file.h"

#define POP_WAITS 4096u          /* pops that are held, of one link */
#define POP_LINKS_OF_ONE 16u     /* that one connection may have opened */
#define POP_MOST 32u             /* messages in one answer, as RocketMQ gives */
#define POP_BYTES 262144u        /* after which no further message is added */
#define POP_HELD_MS WORK_WAIT_MS_MAX
#define POP_INVISIBLE_MS_MAX (UINT64_C(11) * 3600 * 1000)
#define POP_MARGIN_MS (UINT64_C(1800) * 1000) /* by which the dispatcher leaves a message with us for longer than its client has it */
#define POP_POLL_MS_MAX 60000
#define POP_POLL_MS_MIN 100      /* for a client that does not want to wait: as long as the dispatcher may take to look */
#define POP_STOCK_MS 250u        /* how long what nobody waits for is kept for the next pop */
#define POP_IDLE_MS 5000u        /* a link that nobody uses is closed */
#define POP_YIELD_MS 1000u       /* how long a pop waits for a link to make way */
#define POP_CHECK_MS 2000u       /* between two looks for leases of messages that the dispatcher has let go */
#define POP_DAMAGED_MS 30000u    /* until a message that cannot be read is tried again */

/* A client that is told once the dispatcher has applied the last of `left` answers. */
struct pop_promise {
    struct gateway_asker asker;
    uint32_t left;
    bool failed; /* one of them was not applied */
};

/* What the dispatcher is told; the n-th of a link is the n-th record of its ring. */
struct pop_answer {
    uint64_t first, time_ms;
    uint32_t kind, slot, opening, count, tries;
    struct pop_promise *promise; /* NULL: nobody waits for it */
};

/* Handed out, and with no client yet. */
struct pop_range {
    uint64_t first;
    uint32_t slot, opening, count, tries;
};

/* A pop that waits for messages, or a notice, which takes none. */
struct pop_wait {
    struct gateway_asker asker;
    uint32_t most;
    int32_t queue;             /* that it has named; -1: none */
    uint64_t attempt;          /* a hash of that by which it may be asked again, of a pop in order; or 0 */
    bool notice;
    bool full;                 /* at the last look its client did not read */
    uint64_t invisible_ms, until_ms;
};

struct pop_link {
    uint8_t *name;             /* group, topic and filter, one behind the other */
    struct slice group, topic, filter;
    bool sql, ordered;
    struct work_link *work;
    void *memory;              /* of its session; Python's */
    uint32_t slot, epoch;      /* of its session */
    bool lost;                 /* the session has ended */
    bool popped;               /* somebody has popped by it; before that, it makes way for a pop with another filter or order ... */
    uint64_t yields_ms;        /* ... from then on; 0: it does not */
    bool crowded;              /* there is no room for a lease: it takes nothing until there is */
    uint64_t checked_ms;       /* when pop_link_check asked last */
    struct pop_leases leases;
    struct pop_range *stock;   /* [stock_from, stock_to) of stock_room */
    uint32_t stock_from, stock_to, stock_room, stock_count; /* the last: messages */
    struct pop_answer *answers; /* numbers [told, given) at number - base; below `put` they are in the ring */
    uint64_t base, told, put, given;
    uint32_t answers_room;
    struct pop_wait *waits;
    uint32_t wait_count, wait_room;
    uint32_t open, asked;      /* waits whose clients read, and the messages that they want; as of the last look */
    uint32_t wanted;           /* what the dispatcher was told */
    uint32_t opener, opener_epoch; /* the connection for which it was opened; no epoch: none is known */
    uint64_t used_ms;          /* when somebody popped or acknowledged last */
};

/* gateway_pop.c: requests for messages. */
uint64_t pop_poll_ms(int64_t asked); /* how long one waits */
bool pop_hold(struct pop_link *link, const struct pop_wait *wait); /* false: there is no room */
uint32_t pop_opened_by(const struct gateway *gateway, const struct connection *connection); /* links */
enum gateway_served gateway_pop(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header);
/* Serves whom it can. Returns how much was done. */
uint32_t gateway_look_at_pops(struct gateway *gateway);
bool gateway_owes_pop(const struct gateway *gateway, const struct connection *connection);
/* Some link has made way, and Python may close its session. */
bool gateway_pops_yielded(const struct gateway *gateway);
/* Reput or the dispatcher is to end our sleeps, for some link. */
bool gateway_pops_wait(const struct gateway *gateway);
uint64_t gateway_pops_until(const struct gateway *gateway); /* when there is something to do by the clock */
/* At a stop: some acknowledgement may still be applied, and its client told. */
bool gateway_pops_unsettled(const struct gateway *gateway);
void gateway_pops_free(struct gateway *gateway);

/* pop_serve.c: the moment of a pop, by the wall clock, which does not go back here: so a later receipt of a message differs. */
int64_t pop_moment(struct gateway *gateway);
/* Gives a client what the link has in stock. False: there is nothing that can be read. */
bool pop_serve(struct gateway *gateway, struct pop_link *link, const struct pop_wait *wait);
/* Answers a pop without messages. */
void pop_refuse(struct gateway *gateway, const struct gateway_asker *asker, int32_t code, const char *status, uint64_t invisible_ms, bool ordered);

/* gateway_pop_notice.c */
void gateway_tell_notice(struct gateway *gateway, const struct gateway_asker *asker, bool has, bool full);

/* gateway_pop_settle.c: acknowledgements and changes of the invisible time. */
enum gateway_served gateway_pop_ack(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header);
enum gateway_served gateway_pop_change(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header);

/* pop_link.c */
struct pop_link *pop_link_find(const struct gateway *gateway, const struct gateway_popped *what);
void pop_link_free(struct pop_link *link);
/* Takes what was handed out, and what was refused. */
bool pop_link_take(struct gateway *gateway, struct pop_link *link);
/* Tells the dispatcher something about messages. False: no memory; it is tried again where that matters. */
bool pop_link_answer(struct pop_link *link, enum work_kind kind, uint32_t slot, uint32_t opening, uint64_t first, uint32_t count,
                     uint32_t tries, uint64_t time_ms, struct pop_promise *promise);
/* Puts answers into the ring, and tells the dispatcher how many messages the link wants. */
void pop_link_put(struct pop_link *link);
/* Tells clients whose acknowledgements the dispatcher has applied. Returns how many. */
uint32_t pop_link_tell(struct gateway *gateway, struct pop_link *link);
void pop_link_give_back(struct pop_link *link);
/* Gives back what is left of the first range of the stock. */
void pop_link_give_back_rest(struct pop_link *link);
/* Has the dispatcher refuse what it holds to be nobody's any more: it lets go of what is purged, or what the group is moved past, without a word. */
void pop_link_check(struct pop_link *link, uint64_t now_ms);

#endif

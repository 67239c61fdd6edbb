/* Doorbells: how one process sleeps until another has news for it.
 *
 * The sleeper goes announce, look again, sleep; the ringer goes publish, look at the announcement, wake. Between the two
 * halves of each stands a full fence, so at least one side sees the other:
 *
 *   sleeper                                   ringer
 *   ticket = bell_announce(bell)   [B1]       publish the news
 *   look for news; if there is some,          bell_ring(bell)                [B2]
 *       bell_cancel(bell, ticket)                nobody announced: returns at once, no system call
 *   else bell_sleep(bell, ticket, limit)
 *
 * Every sleep has a limit, so a lost or forged ring costs lateness, never a hang. Nobody holds anything while asleep: a
 * sleeper that dies leaves `asleep` raised, which costs the next ringer one needless system call. Several threads or
 * processes may sleep on one bell; a ring wakes them all and each looks for itself. That is why `asleep` is a count and
 * why whoever cancels shows its ticket: it may only take back an announcement that no ring has answered yet, or it would
 * take back that of somebody who came after the ring.
 */
#ifndef ORBITMQ_BELL_H
#define ORBITMQ_BELL_H

#include "shared/segment.h"

struct bell {
    /* One word, changed as a whole by everybody who sleeps or rings; its halves are for the kernel and for a look. */
    union {
        _Alignas(SEGMENT_LINE) _Atomic uint64_t word;
        struct {
            _Atomic uint32_t rung;   /* the futex word: counts rings that woke; only grows, wraps */
            _Atomic uint32_t asleep; /* announcements since the last ring that are not taken back; a ring sets it to 0 */
            _Atomic uint32_t crowd;  /* behind the word: 1 once a ring found more sleepers than it wakes; they pass rings on */
        };
    };
};
static_assert(sizeof(struct bell) == SEGMENT_LINE, "a bell owns exactly one line");

#define BELL_LIMIT_NS UINT64_C(100000000) /* the longest sleep between two looks: 100 ms */

enum bell_wake { BELL_RUNG = 0, BELL_TIMEOUT = 1, BELL_SIGNAL = 2 };

uint32_t bell_announce(struct bell *bell);
void bell_cancel(struct bell *bell, uint32_t ticket);

/* Sleeps until a ring after the ticket, a signal, or limit_ns have passed; then the announcement is answered or taken back,
 * and the next sleep begins with a new one. */
enum bell_wake bell_sleep(struct bell *bell, uint32_t ticket, uint64_t limit_ns);

/* Rings; returns true if somebody had announced and so a system call was made. */
bool bell_ring(struct bell *bell);

/* The broker's ring for a client: wakes BELL_CLIENT_WAKES sleepers at most, because each costs the ringer some 9 us and a client
 * may have as many threads on its bell as it likes. Sleepers of an honest crowd wake each other further. Returns how many were
 * woken. */
#define BELL_CLIENT_WAKES 8
uint32_t bell_ring_client(struct bell *bell);

/* Answers the announcements without waking anybody, for sleepers that wait on something else than this futex; returns how
 * many there were. */
uint32_t bell_answer(struct bell *bell);

/* False where the kernel has no futex, or a sandbox forbids it. */
bool bell_available(void);

/* The two halves, for tests and for showing. */
uint32_t bell_rung(const struct bell *bell);
uint32_t bell_asleep(const struct bell *bell);

#endif

/* Doorbells over a futex on shared memory. See bell.h for the protocol.
 *
 * The word's two halves are changed together, so that each announcement is answered or taken back exactly once:
 *
 *   announce  asleep + 1                          cancel  asleep - 1, if rung still equals the ticket and asleep > 0
 *   ring      rung + 1, asleep = 0, wake all      sleep   while rung equals the ticket; on a timeout or signal, as cancel
 *
 * Fences rather than seq_cst operations order news against announcements, because the news lies in other words, each with
 * an order of its own. The futex calls are never FUTEX_PRIVATE: sleeper and ringer are different processes.
 */
#include "shared/bell.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ONE_ASLEEP (UINT64_C(1) << 32)
/* A bell may be in memory that a hostile client writes and crowds with sleepers. Both limits are far above what honest clients
 * need. A sleeper that a ring left out has slept for 100 ms at most. */
#define ANSWER_TRIES 1000u
#define WAKES_MAX 1024

static inline uint32_t word_rung(uint64_t word) { return (uint32_t)word; }
static inline uint32_t word_asleep(uint64_t word) { return (uint32_t)(word >> 32); }

uint32_t bell_announce(struct bell *bell)
{
    /* acquire: if the ticket already counts a ring, the look that follows sees that ring's news. Pairs with the release in
     * answer [edge B3]. */
    uint64_t before = atomic_fetch_add_explicit(&bell->word, ONE_ASLEEP, memory_order_acquire);
    /* seq_cst: the announcement before the look for news; no weaker fence orders a store before a load. Pairs with the fence in
     * answer: of the two looks, at least one sees what the other side stored [edge B1-B2]. */
    atomic_thread_fence(memory_order_seq_cst);
    return word_rung(before);
}

void bell_cancel(struct bell *bell, uint32_t ticket)
{
    /* relaxed: nothing is handed over here; the loop only needs the word's own modification order, and a ring that comes
     * between makes the exchange fail. */
    uint64_t word = atomic_load_explicit(&bell->word, memory_order_relaxed);
    while (word_rung(word) == ticket && word_asleep(word) > 0)
        if (atomic_compare_exchange_weak_explicit(&bell->word, &word, word - ONE_ASLEEP, memory_order_relaxed,
                                                  memory_order_relaxed))
            return;
}

/* relaxed: set before the ring whose news has just been acquired [edge B3] */
static enum bell_wake pass_on(struct bell *bell)
{
    if (atomic_load_explicit(&bell->crowd, memory_order_relaxed))
        syscall(SYS_futex, &bell->rung, FUTEX_WAKE, BELL_CLIENT_WAKES, NULL, NULL, 0);
    return BELL_RUNG;
}

enum bell_wake bell_sleep(struct bell *bell, uint32_t ticket, uint64_t limit_ns)
{
    struct timespec limit = {.tv_sec = (time_t)(limit_ns / 1000000000u), .tv_nsec = (long)(limit_ns % 1000000000u)};
    /* The kernel compares and queues in one step, so a ring after the announcement is either seen here or wakes us [edge B4]. A
     * relative FUTEX_WAIT runs on CLOCK_MONOTONIC. */
    long slept = syscall(SYS_futex, &bell->rung, FUTEX_WAIT, ticket, &limit, NULL, 0);
    int fault = slept < 0 ? errno : 0;
    /* acquire: the news is visible after the ring that announced it. Pairs with the release in answer [edge B3]. Looked
     * at whatever the kernel said, because a ring may have come together with the timeout or the signal. */
    if (word_rung(atomic_load_explicit(&bell->word, memory_order_acquire)) != ticket)
        return pass_on(bell);
    bell_cancel(bell, ticket);
    if (fault == EINTR)
        return BELL_SIGNAL;
    /* Anything else without a ring (a stray wake of the kernel's) means one more look for the caller, as a timeout does. */
    return BELL_TIMEOUT;
}

/* most: how many will be woken; if there are more, they are told that they are a crowd. */
static uint32_t answer(struct bell *bell, uint32_t most)
{
    /* seq_cst: the news before the look at the announcement. Pairs with the fence in bell_announce [edge B1-B2]. */
    atomic_thread_fence(memory_order_seq_cst);
    /* relaxed: the fence above orders it; the exchange below decides. */
    uint64_t word = atomic_load_explicit(&bell->word, memory_order_relaxed);
    uint32_t tries = 0;
    do {
        if (word_asleep(word) == 0)
            return 0;
        if (tries++ == ANSWER_TRIES)
            break;
        if (word_asleep(word) > most)
            /* relaxed: the ring below publishes it, and it is never taken back [edge B3] */
            atomic_store_explicit(&bell->crowd, 1, memory_order_relaxed);
        /* release: the news before the ring. Pairs with the acquires in bell_announce and bell_sleep [edge B3]. The ring changes the word
         * that the kernel compares before a sleep [edge B4]. */
    } while (!atomic_compare_exchange_weak_explicit(&bell->word, &word, (uint64_t)(uint32_t)(word_rung(word) + 1),
                                                    memory_order_release, memory_order_relaxed));
    return word_asleep(word);
}

uint32_t bell_answer(struct bell *bell) { return answer(bell, UINT32_MAX); }

uint32_t bell_ring_client(struct bell *bell)
{
    if (answer(bell, BELL_CLIENT_WAKES) == 0)
        return 0;
    const long woken = syscall(SYS_futex, &bell->rung, FUTEX_WAKE, BELL_CLIENT_WAKES, NULL, NULL, 0);
    return woken > 0 ? (uint32_t)woken : 1;
}

bool bell_ring(struct bell *bell)
{
    if (bell_answer(bell) == 0)
        return false;
    syscall(SYS_futex, &bell->rung, FUTEX_WAKE, WAKES_MAX, NULL, NULL, 0);
    return true;
}

bool bell_available(void)
{
    static uint32_t word;
    return syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0) >= 0;
}

uint32_t bell_rung(const struct bell *bell)
{
    /* acquire: a caller that finds a ring after its ticket sees the news behind it. Pairs with answer [edge B3]. */
    return word_rung(atomic_load_explicit(&bell->word, memory_order_acquire));
}

uint32_t bell_asleep(const struct bell *bell)
{
    return word_asleep(atomic_load_explicit(&bell->word, memory_order_relaxed)); /* relaxed: only shown */
}

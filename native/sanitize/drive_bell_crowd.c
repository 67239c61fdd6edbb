/* A client's crowd on one bell: the broker's ring wakes a few sleepers, whichever they are, and an honest crowd wakes the rest
 * itself. */
#include "shared/bell.h"
#include "base/clock.h"
#include "drive.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CROWD 100u
#define FOR_EVER UINT64_C(30000000000) /* 30 s: only a sleeper that was never woken sleeps that long */

struct table {
    struct bell bell;
    _Alignas(SEGMENT_LINE) _Atomic uint32_t news;
    _Atomic uint32_t awake;
    bool honest;
};

static void *sleep_once(void *with)
{
    struct table *table = with;
    const uint32_t ticket = bell_announce(&table->bell);
    if (table->honest) {
        const uint64_t from = clock_ns();
        CHECK(bell_sleep(&table->bell, ticket, FOR_EVER) == BELL_RUNG && clock_ns() - from < FOR_EVER);
    } else
        while (atomic_load_explicit(&table->news, memory_order_relaxed) < 2) /* relaxed: a flag */
            syscall(SYS_futex, &table->bell.rung, FUTEX_WAIT, ticket, NULL, NULL, 0);
    atomic_fetch_add_explicit(&table->awake, 1, memory_order_relaxed); /* relaxed: joined before it is looked at */
    return NULL;
}

/* One ring for a whole crowd; how many it woke. */
static uint32_t ring_for(struct table *table, bool honest)
{
    *table = (struct table){.honest = honest};
    pthread_t threads[CROWD];
    for (uint32_t i = 0; i < CROWD; i++)
        threads[i] = drive_start(sleep_once, table);
    while (bell_asleep(&table->bell) < CROWD)
        sched_yield();
    atomic_store_explicit(&table->news, 1, memory_order_relaxed); /* relaxed: the ring publishes it */
    const uint32_t woken = bell_ring_client(&table->bell);
    if (!honest) {
        atomic_store_explicit(&table->news, 2, memory_order_relaxed);
        syscall(SYS_futex, &table->bell.rung, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
    for (uint32_t i = 0; i < CROWD; i++)
        drive_join(threads[i]);
    CHECK(atomic_load_explicit(&table->awake, memory_order_relaxed) == CROWD);
    return woken;
}

int main(void)
{
    struct table *table = drive_memory(sizeof *table);
    CHECK(ring_for(table, true) <= BELL_CLIENT_WAKES);
    CHECK(ring_for(table, false) <= BELL_CLIENT_WAKES);
    free(table);
    return 0;
}

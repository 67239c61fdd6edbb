/* Bells between threads: ping-pong, in which one lost ring ends in a timeout; and one ringer with several sleepers and
 * cancels. */
#include "shared/bell.h"
#include "base/clock.h"
#include "drive.h"

#define ROUNDS 20000u
#define SLEEPERS 3u
#define FOR_EVER UINT64_C(30000000000) /* 30 s: only a lost ring lasts that long */

struct table {
    struct bell bell[2];
    _Alignas(SEGMENT_LINE) _Atomic uint32_t ball;
};

struct side {
    struct table *table;
    uint32_t me;
};

static void wait_for(struct bell *bell, const _Atomic uint32_t *value, uint32_t wanted, bool at_least)
{
    for (;;) {
        uint32_t ticket = bell_announce(bell);
        /* acquire: what came before the value. Pairs with the releases in play and in main [edge D1]. */
        uint32_t seen = atomic_load_explicit(value, memory_order_acquire);
        if (seen == wanted || (at_least && seen > wanted)) {
            bell_cancel(bell, ticket);
            return;
        }
        /* A ring's wake-up may reach a sleeper that has seen the ring already and announced again: one more look, at once. Only
         * a sleep that lasts its whole limit is a lost ring. */
        const uint64_t from = clock_ns();
        CHECK(bell_sleep(bell, ticket, FOR_EVER) == BELL_RUNG || clock_ns() - from < FOR_EVER);
    }
}

static void *play(void *with)
{
    struct side *side = with;
    for (uint32_t number = side->me; number < 2 * ROUNDS; number += 2) {
        wait_for(&side->table->bell[side->me], &side->table->ball, number, false);
        /* release: everything before the ball. Pairs with the acquire in wait_for [edge D1]. */
        atomic_store_explicit(&side->table->ball, number + 1, memory_order_release);
        bell_ring(&side->table->bell[1 - side->me]);
    }
    return NULL;
}

/* Waits for every hundredth value, so that the three cancel and sleep in changing orders. */
static void *follow(void *with)
{
    struct side *side = with;
    for (uint32_t number = side->me; number < ROUNDS; number += 97 + side->me)
        wait_for(&side->table->bell[0], &side->table->ball, number, true);
    return NULL;
}

int main(void)
{
    struct table *table = drive_memory(sizeof *table);
    struct side sides[SLEEPERS];
    for (uint32_t i = 0; i < SLEEPERS; i++)
        sides[i] = (struct side){table, i};
    pthread_t threads[SLEEPERS];
    threads[0] = drive_start(play, &sides[0]);
    threads[1] = drive_start(play, &sides[1]);
    drive_join(threads[0]);
    drive_join(threads[1]);

    *table = (struct table){.ball = 0};
    for (uint32_t i = 0; i < SLEEPERS; i++)
        threads[i] = drive_start(follow, &sides[i]);
    for (uint32_t number = 1; number <= ROUNDS; number++) {
        atomic_store_explicit(&table->ball, number, memory_order_release); /* pairs with wait_for [edge D1] */
        bell_ring(&table->bell[0]);
    }
    for (uint32_t i = 0; i < SLEEPERS; i++)
        drive_join(threads[i]);
    CHECK(bell_asleep(&table->bell[0]) == 0);
    free(table);
    return 0;
}

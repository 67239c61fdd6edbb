/* The lock in threads: a plain number that only the lock protects; and a holder that ends inside, from which the lock is stolen
 * exactly once. */
#include "drive.h"
#include "shared/lock.h"

#define ROUNDS 20000u
#define THREADS 3u

struct work {
    struct lock lock;
    uint64_t number; /* plain on purpose: a race on it is a lock that does not exclude */
    uint32_t stolen;
};

static void *count_up(void *with)
{
    struct work *work = with;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        CHECK(lock_acquire(&work->lock, 0) == LOCK_TAKEN);
        work->number++;
        lock_release(&work->lock);
    }
    return NULL;
}

static void *die_inside(void *with)
{
    struct work *work = with;
    CHECK(lock_acquire(&work->lock, 0) == LOCK_TAKEN);
    return NULL;
}

static void *inherit(void *with)
{
    struct work *work = with;
    const enum lock_result result = lock_acquire(&work->lock, 0);
    CHECK(result == LOCK_TAKEN || result == LOCK_STOLEN);
    if (result == LOCK_STOLEN)
        work->stolen++;
    work->number++;
    lock_release(&work->lock);
    return NULL;
}

int main(void)
{
    struct work *work = drive_memory(sizeof *work);
    pthread_t threads[THREADS];
    for (uint32_t i = 0; i < THREADS; i++)
        threads[i] = drive_start(count_up, work);
    for (uint32_t i = 0; i < THREADS; i++)
        drive_join(threads[i]);
    CHECK(work->number == (uint64_t)ROUNDS * THREADS);

    drive_join(drive_start(die_inside, work));
    for (uint32_t i = 0; i < THREADS; i++)
        threads[i] = drive_start(inherit, work);
    for (uint32_t i = 0; i < THREADS; i++)
        drive_join(threads[i]);
    CHECK(work->stolen == 1 && lock_word(&work->lock) == 0);
    free(work);
    return 0;
}

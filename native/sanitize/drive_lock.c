/* Both locks from threads: a plain number that only the lock protects; and a holder that ends inside, stolen from exactly once. */
#include "drive.h"
#include "shared/lock.h"

#define ROUNDS 20000u
#define THREADS 3u

struct kind {
    enum lock_result (*acquire)(struct lock *lock);
    void (*release)(struct lock *lock);
};

static enum lock_result block_for_ever(struct lock *lock)
{
    enum lock_result result = block_acquire(lock, 0);
    CHECK(result == LOCK_TAKEN || result == LOCK_STOLEN);
    return result;
}

struct work {
    struct lock lock;
    struct kind kind;
    uint64_t number; /* plain on purpose: a race on it is a lock that does not exclude */
    uint32_t stolen;
};

static void *count_up(void *with)
{
    struct work *work = with;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        CHECK(work->kind.acquire(&work->lock) == LOCK_TAKEN);
        work->number++;
        work->kind.release(&work->lock);
    }
    return NULL;
}

static void *die_inside(void *with)
{
    struct work *work = with;
    CHECK(work->kind.acquire(&work->lock) == LOCK_TAKEN);
    return NULL;
}

static void *inherit(void *with)
{
    struct work *work = with;
    if (work->kind.acquire(&work->lock) == LOCK_STOLEN)
        work->stolen++;
    work->number++;
    work->kind.release(&work->lock);
    return NULL;
}

static void drive(struct kind kind)
{
    struct work *work = drive_memory(sizeof *work);
    pthread_t threads[THREADS];
    work->kind = kind;
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
}

int main(void)
{
    drive((struct kind){spin_acquire, spin_release});
    drive((struct kind){block_for_ever, block_release});
    return 0;
}

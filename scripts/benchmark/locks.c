/* What a lock costs that processes share: the core's (native/shared/lock.h), one that only spins, and a robust pthread mutex.
 *
 *   locks round KIND PROCESSES WORK ROUNDS    each process, ROUNDS times: lock, WORK turns of an empty loop, unlock, as many turns again
 *   locks killed KIND WAITERS                 a holder is killed while as many wait for the lock
 *
 * KIND is core, spin or robust. Prints {"wall_ns":, "processor_ns":} of a round (those of all processes together, divided by
 * their rounds), or {"stolen_us":} from the kill until a waiter holds the lock and knows about the death.
 */
/* As a whole, so that the compiler does as much for it as for the others. */
#include "shared/lock.c"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define YIELDS_TO_CHECK 64u /* between two looks whether the holder lives, which cost microseconds */
#define SETTLE_NS 20000000  /* after this time, processes that wait for the dead holder sleep */

struct shared {
    struct lock lock; /* of the core, and the word of the spin lock */
    _Alignas(64) pthread_mutex_t mutex;
    _Alignas(64) _Atomic uint32_t ready;
    _Alignas(64) _Atomic uint32_t go;
    _Alignas(64) uint64_t number; /* what the lock protects */
    _Alignas(64) _Atomic uint64_t stolen_ns;
};

struct kind {
    const char *name;
    bool (*acquire)(struct shared *shared); /* true if the last holder had died */
    void (*release)(struct shared *shared);
};

/* seq_cst wherever nothing is measured. */
static uint32_t load(_Atomic uint32_t *word) { return atomic_load_explicit(word, memory_order_seq_cst); }
static void add_one(_Atomic uint32_t *word) { atomic_fetch_add_explicit(word, 1, memory_order_seq_cst); }

static void nap(long ns) { nanosleep(&(struct timespec){.tv_nsec = ns}, NULL); }

/* ---- the locks ---- */

static bool core_acquire(struct shared *shared)
{
    for (;;) {
        const enum lock_result result = lock_acquire(&shared->lock, 0);
        if (result == LOCK_TAKEN || result == LOCK_STOLEN)
            return result == LOCK_STOLEN;
    }
}

static void core_release(struct shared *shared) { lock_release(&shared->lock); }

static bool spin_take(struct shared *shared, uint64_t from)
{
    /* acquire: what the last holder wrote under the lock, before its release */
    return atomic_compare_exchange_strong_explicit(&shared->lock.word, &from, lock_self(), memory_order_acquire, memory_order_relaxed);
}

static bool spin_acquire(struct shared *shared)
{
    if (spin_take(shared, 0))
        return false;
    for (uint32_t yields = 1;; yields++) {
        for (uint32_t looks = 0; looks < SPIN_LOOKS; looks++) {
            if (lock_word(&shared->lock) == 0 && spin_take(shared, 0))
                return false;
            cpu_pause();
        }
        sched_yield();
        const uint64_t word = lock_word(&shared->lock);
        if (yields % YIELDS_TO_CHECK == 0 && word && lock_holder_dead(word) && spin_take(shared, word))
            return true;
    }
}

static void spin_release(struct shared *shared)
{
    assert(lock_word(&shared->lock) == lock_self());
    /* release: what was done under the lock, before the next one's acquire */
    atomic_store_explicit(&shared->lock.word, 0, memory_order_release);
}

static bool robust_acquire(struct shared *shared)
{
    const int error = pthread_mutex_lock(&shared->mutex);
    if (error == EOWNERDEAD)
        pthread_mutex_consistent(&shared->mutex);
    else
        assert(error == 0);
    return error != 0;
}

static void robust_release(struct shared *shared) { pthread_mutex_unlock(&shared->mutex); }

static const struct kind KINDS[] = {
    {"core", core_acquire, core_release}, {"spin", spin_acquire, spin_release}, {"robust", robust_acquire, robust_release}};

/* ---- the measures ---- */

static struct shared *share(void)
{
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert(shared != MAP_FAILED);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shared->mutex, &attributes);
    return shared;
}

static void turn(uint32_t turns)
{
    for (uint32_t i = 0; i < turns; i++)
        __asm__ volatile("" ::: "memory");
}

static double children_ns(void)
{
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    return 1e9 * (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1e3 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static void measure_rounds(const struct kind *kind, uint32_t processes, uint32_t work, uint32_t rounds)
{
    struct shared *shared = share();
    for (uint32_t i = 0; i < processes; i++) {
        if (fork())
            continue;
        lock_self(); /* reads /proc the first time */
        add_one(&shared->ready);
        while (!load(&shared->go))
            nap(100000);
        for (uint32_t round = 0; round < rounds; round++) {
            kind->acquire(shared);
            shared->number++;
            turn(work);
            kind->release(shared);
            turn(work);
        }
        _exit(0);
    }
    while (load(&shared->ready) != processes)
        nap(100000);
    const uint64_t start = clock_ns();
    add_one(&shared->go);
    while (wait(NULL) > 0)
        ;
    const double all = (double)processes * rounds;
    assert(shared->number == (uint64_t)processes * rounds);
    printf("{\"wall_ns\": %.1f, \"processor_ns\": %.1f}\n", (double)(clock_ns() - start) / all, children_ns() / all);
}

static void measure_killed(const struct kind *kind, uint32_t waiters)
{
    struct shared *shared = share();
    const pid_t holder = fork();
    if (holder == 0) {
        kind->acquire(shared);
        add_one(&shared->ready);
        for (;;)
            pause();
    }
    while (load(&shared->ready) != 1)
        nap(100000);
    for (uint32_t i = 0; i < waiters; i++) {
        if (fork())
            continue;
        lock_self();
        add_one(&shared->ready);
        if (kind->acquire(shared))
            atomic_store_explicit(&shared->stolen_ns, clock_ns(), memory_order_seq_cst);
        kind->release(shared);
        _exit(0);
    }
    while (load(&shared->ready) != 1 + waiters)
        nap(100000);
    nap(SETTLE_NS);
    const uint64_t start = clock_ns();
    kill(holder, SIGKILL);
    while (wait(NULL) > 0)
        ;
    const uint64_t stolen = atomic_load_explicit(&shared->stolen_ns, memory_order_seq_cst);
    assert(stolen);
    printf("{\"stolen_us\": %.1f}\n", (double)(stolen - start) / 1e3);
}

int main(int count, char **given)
{
    const struct kind *kind = NULL;
    for (size_t i = 0; count > 2 && i < sizeof KINDS / sizeof *KINDS; i++)
        if (strcmp(given[2], KINDS[i].name) == 0)
            kind = &KINDS[i];
    if (kind && count == 6 && strcmp(given[1], "round") == 0)
        measure_rounds(kind, (uint32_t)atoi(given[3]), (uint32_t)atoi(given[4]), (uint32_t)atoi(given[5]));
    else if (kind && count == 4 && strcmp(given[1], "killed") == 0)
        measure_killed(kind, (uint32_t)atoi(given[3]));
    else
        return 2;
    return 0;
}

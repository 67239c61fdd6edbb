/* Life of the lock's word, whose bits lock.h draws, and what a death in each state leaves:
 *
 *   free      -> held       exchange 0 for one's own word; dies: the next waiter finds the dead word and takes it over
 *   held      -> contended  a waiter sets SLEEPERS before it sleeps; the waiter dies: the release wakes nobody, harmless
 *   held      -> free       one exchange; dies before the wake that follows: sleepers look again after SLEEP_NS
 *   dead held -> stolen     exchange the dead word for one's own: one waiter wins and is told LOCK_STOLEN; it dies too before
 *                           it repaired: its own word is dead now, and the next thief is told the same
 *
 * A dead holder's word never comes back (thread id and start time together are unique), so taking it over by comparing the
 * whole word cannot hit a live holder that came in between. A holder without a free descriptor cannot read its start time, and writes 0
 * there: it counts as alive for as long as any thread has its id, so a theft from it may come late.
 */
#include "shared/lock.h"
#include "base/process_stat.h"
#include "base/clock.h"
#include "base/cpu.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLEEPERS (UINT64_C(1) << 31)
#define THREAD_MASK (SLEEPERS - 1)
#define SPIN_LOOKS 200u             /* looks before the first sleep: some microseconds, longer than most sections */
#define SLEEP_NS UINT64_C(50000000) /* between two looks at the holder's life; half of the 100 ms that any wait may be late */

/* Reads state and start time (clock ticks since boot) of a thread; 0, or the errno of the attempt. */
static int thread_stat(uint32_t thread, char *state, uint64_t *start)
{
    char text[PROCESS_STAT_ROOM];
    const int fault = process_stat_read(thread, text);
    if (fault != 0)
        return fault;
    const char *state_at = process_stat_field(text, PROCESS_STAT_STATE), *start_at = process_stat_field(text, PROCESS_STAT_START);
    if (state_at == NULL || start_at == NULL)
        return EINVAL;
    *state = *state_at;
    *start = strtoull(start_at, NULL, 10);
    return 0;
}

static _Thread_local uint64_t self;
static pthread_once_t fork_hook = PTHREAD_ONCE_INIT;

static void forget_self(void) { self = 0; }
static void install_fork_hook(void) { pthread_atfork(NULL, NULL, forget_self); }

uint64_t lock_self(void)
{
    if (self == 0) {
        pthread_once(&fork_hook, install_fork_hook);
        uint32_t thread = (uint32_t)syscall(SYS_gettid);
        char state;
        uint64_t start;
        int fault = thread_stat(thread, &state, &start);
        /* A process that has no descriptor left must not die of it: start 0 means that it is not known. Otherwise, without
         * /proc, no death could ever be told from life. */
        if (fault == EMFILE || fault == ENFILE || fault == ENOMEM)
            start = 0;
        else
            assert(fault == 0);
        assert(thread != 0 && thread <= THREAD_MASK);
        self = (uint64_t)(uint32_t)start << 32 | thread;
    }
    return self;
}

bool lock_holder_dead(uint64_t word)
{
    uint32_t thread = (uint32_t)(word & THREAD_MASK);
    if (thread == 0)
        return false;
    char state;
    uint64_t start;
    int fault = thread_stat(thread, &state, &start);
    if (fault == 0)
        return state == 'Z' || state == 'X' || (word >> 32 != 0 && (uint32_t)start != (uint32_t)(word >> 32));
    /* /proc may hide the processes of other users; the kernel's own answer decides. Anything unclear counts as alive: a late
     * theft is harmless, a wrong one is not. */
    return syscall(SYS_tkill, thread, 0) < 0 && errno == ESRCH;
}

/* Takes the lock over from the holder that `word` names, if that holder is dead. */
static bool steal(struct lock *lock, uint64_t word, uint64_t mine)
{
    if (word == 0 || !lock_holder_dead(word))
        return false;
    /* acquire: as in take. The dead holder's stores need no partner: the kernel ended its thread before it said so. */
    return atomic_compare_exchange_strong_explicit(&lock->word, &word, mine, memory_order_acquire, memory_order_relaxed);
}

static inline bool take(struct lock *lock, uint64_t mine)
{
    uint64_t free_word = 0;
    /* acquire: what the last holder wrote under the lock. Pairs with the release in lock_release [edge L1]. */
    return atomic_compare_exchange_strong_explicit(&lock->word, &free_word, mine, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* relaxed: this look only decides whether to try; take and steal order what follows. */
static inline uint64_t look(const struct lock *lock) { return atomic_load_explicit(&lock->word, memory_order_relaxed); }

/* The lock is not recursive: a thread that waits for itself is a bug, found at once instead of hanging. */
static inline void refuse_own(uint64_t word, uint64_t mine) { assert((word & ~SLEEPERS) != mine); }

/* The futex word is the low half of the lock word; the machine is little-endian. */
static uint32_t *futex_word(struct lock *lock) { return (uint32_t *)(void *)&lock->word; }

enum lock_result lock_acquire(struct lock *lock, uint64_t limit_ns)
{
    uint64_t mine = lock_self();
    if (take(lock, mine))
        return LOCK_TAKEN;
    refuse_own(look(lock), mine);
    for (uint32_t looks = 0; looks < SPIN_LOOKS; looks++) {
        if (look(lock) == 0 && take(lock, mine))
            return LOCK_TAKEN;
        cpu_pause();
    }
    uint64_t deadline = limit_ns == 0 ? UINT64_MAX : clock_ns() + limit_ns;
    if (deadline < limit_ns)
        deadline = UINT64_MAX; /* a limit beyond the end of time means no limit */
    for (;;) {
        uint64_t word = look(lock);
        if (word == 0) {
            /* From here on we take it as contended: others may sleep, and the word no longer says so. */
            if (take(lock, mine | SLEEPERS))
                return LOCK_TAKEN;
            continue;
        }
        /* relaxed: only asks the holder to wake us; the kernel compares the word again before we sleep, so a release
         * between the two is never missed [edge L2]. */
        if (!(word & SLEEPERS) && !atomic_compare_exchange_strong_explicit(&lock->word, &word, word | SLEEPERS,
                                                                           memory_order_relaxed, memory_order_relaxed))
            continue;
        uint64_t now = clock_ns();
        if (now >= deadline)
            return LOCK_TIMEOUT;
        uint64_t sleep_ns = deadline - now < SLEEP_NS ? deadline - now : SLEEP_NS;
        struct timespec sleep = {.tv_sec = 0, .tv_nsec = (long)sleep_ns};
        long slept = syscall(SYS_futex, futex_word(lock), FUTEX_WAIT, (uint32_t)(word | SLEEPERS), &sleep, NULL, 0);
        if (slept == 0 || errno == EAGAIN)
            continue;
        if (errno == EINTR)
            return LOCK_SIGNAL;
        if (steal(lock, look(lock), mine | SLEEPERS))
            return LOCK_STOLEN;
    }
}

void lock_release(struct lock *lock)
{
    assert((look(lock) & ~SLEEPERS) == lock_self());
    /* release: what was done under the lock. Pairs with the acquire in take [edge L1]. One exchange, so that a sleeper is
     * either in the old word or compares against the new one [edge L2]. */
    uint64_t word = atomic_exchange_explicit(&lock->word, 0, memory_order_release);
    if (word & SLEEPERS)
        syscall(SYS_futex, futex_word(lock), FUTEX_WAKE, 1, NULL, NULL, 0);
}

uint64_t lock_word(const struct lock *lock) { return look(lock); }

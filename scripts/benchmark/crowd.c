/* How fast processes that wait for the disk can be at best: N of them share one writer, and nothing else is done.
 *
 *   crowd PROCESSES MESSAGES_EACH USER_NS FOLDER
 *
 * Each process spends USER_NS of its own on a message (0: none), counts up `asked`, wakes the writer if that sleeps, and sleeps
 * until its message is on the disk. The writer waits until three quarters of those who waited last time have come back, or a
 * millisecond, writes 224 bytes for each in one piece, calls fdatasync once, and wakes all. Prints {"messages_per_s": ...}.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RECORD 224
#define FILE_BYTES (16 << 20)
#define GATHER_NS 1000000

struct shared {
    _Alignas(64) _Atomic uint32_t served; /* syncs that are over; the futex that senders sleep on */
    _Alignas(64) _Atomic uint32_t asked;  /* messages */
    _Alignas(64) _Atomic uint32_t bell;   /* the futex that the writer sleeps on */
    _Alignas(64) _Atomic uint32_t asleep; /* 1: the writer wants to be woken */
    _Alignas(64) _Atomic uint32_t ended;
    _Alignas(64) _Atomic uint32_t go;
};

static int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen, const struct timespec *limit)
{
    syscall(SYS_futex, word, FUTEX_WAIT, seen, limit, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, 1024, NULL, NULL, 0); }

static void send_all(struct shared *shared, uint32_t messages, int64_t user_ns)
{
    while (!atomic_load(&shared->go))
        futex_wait(&shared->go, 0, NULL);
    for (uint32_t i = 0; i < messages; i++) {
        for (const int64_t begin = now_ns(); now_ns() - begin < user_ns;)
            ;
        const uint32_t served = atomic_load(&shared->served);
        atomic_fetch_add(&shared->asked, 1);
        if (atomic_load(&shared->asleep) && atomic_exchange(&shared->asleep, 0)) {
            atomic_fetch_add(&shared->bell, 1);
            futex_wake(&shared->bell);
        }
        /* A sync that began before our message counts as ours: the bound is kind by that. */
        while (atomic_load(&shared->served) == served)
            futex_wait(&shared->served, served, NULL);
    }
    atomic_fetch_add(&shared->ended, 1);
}

/* Serves until all have ended. */
static void serve(struct shared *shared, uint32_t processes, int file)
{
    static char records[RECORD * 1024];
    uint32_t seen = 0, group = 1;
    off_t offset = 0;
    while (atomic_load(&shared->ended) < processes) {
        if (atomic_load(&shared->asked) == seen) {
            const uint32_t bell = atomic_load(&shared->bell);
            const struct timespec limit = {.tv_nsec = GATHER_NS};
            atomic_store(&shared->asleep, 1);
            if (atomic_load(&shared->asked) == seen)
                futex_wait(&shared->bell, bell, &limit);
            atomic_store(&shared->asleep, 0);
            continue;
        }
        for (const int64_t begin = now_ns(); (atomic_load(&shared->asked) - seen) * 4 < group * 3 && now_ns() - begin < GATHER_NS;)
            sched_yield();
        group = atomic_load(&shared->asked) - seen;
        seen += group;
        if (offset + group * RECORD > FILE_BYTES)
            offset = 0;
        if (pwrite(file, records, group * RECORD, offset) < 0 || fdatasync(file)) {
            perror("crowd: cannot write");
            exit(1);
        }
        offset += group * RECORD;
        atomic_fetch_add(&shared->served, 1);
        futex_wake(&shared->served);
    }
}

int main(int count, char **words)
{
    const uint32_t processes = count == 5 ? (uint32_t)atoi(words[1]) : 0;
    if (processes < 1 || processes > 1024) {
        fprintf(stderr, "usage: crowd PROCESSES MESSAGES_EACH USER_NS FOLDER, with 1 to 1024 processes\n");
        return 2;
    }
    const uint32_t messages = (uint32_t)atoi(words[2]);
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char path[4096];
    snprintf(path, sizeof path, "%s/crowd.probe", words[4]);
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (shared == MAP_FAILED || file < 0 || posix_fallocate(file, 0, FILE_BYTES) || fsync(file)) {
        perror("crowd: cannot begin");
        return 1;
    }
    unlink(path);
    for (uint32_t i = 0; i < processes; i++)
        if (fork() == 0) {
            send_all(shared, messages, atoll(words[3]));
            _exit(0);
        }
    const int64_t begin = now_ns();
    atomic_store(&shared->go, 1);
    futex_wake(&shared->go);
    serve(shared, processes, file);
    const double seconds = (double)(now_ns() - begin) / 1e9;
    while (wait(NULL) > 0)
        ;
    printf("{\"messages_per_s\": %.0f}\n", processes * (double)messages / seconds);
    return 0;
}

/* The best possible speed of processes that wait for the disk: N of them share one writer, and nothing else is done.
 *
 *   crowd PROCESSES MESSAGES_EACH USER_NS FOLDER
 *
 * Each process spends USER_NS of its own on a message (0: none), raises `asked`, wakes the writer if it sleeps, and sleeps
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

/* seq_cst, all of them: the strongest order costs nothing beside a system call, and nobody has to think of the others. */
static uint32_t load(_Atomic uint32_t *word) { return atomic_load_explicit(word, memory_order_seq_cst); }
static void store(_Atomic uint32_t *word, uint32_t value) { atomic_store_explicit(word, value, memory_order_seq_cst); }
static void add_one(_Atomic uint32_t *word) { atomic_fetch_add_explicit(word, 1, memory_order_seq_cst); }

static void futex_wait(_Atomic uint32_t *word, uint32_t seen, const struct timespec *limit)
{
    syscall(SYS_futex, word, FUTEX_WAIT, seen, limit, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, 1024, NULL, NULL, 0); }

static void send_all(struct shared *shared, uint32_t messages, int64_t user_ns)
{
    while (!load(&shared->go))
        futex_wait(&shared->go, 0, NULL);
    for (uint32_t i = 0; i < messages; i++) {
        for (const int64_t begin = now_ns(); now_ns() - begin < user_ns;)
            ;
        const uint32_t served = load(&shared->served);
        add_one(&shared->asked);
        if (load(&shared->asleep) && atomic_exchange_explicit(&shared->asleep, 0, memory_order_seq_cst)) {
            add_one(&shared->bell);
            futex_wake(&shared->bell);
        }
        /* A sync that began before our message counts as ours: the bound is kind by that. */
        while (load(&shared->served) == served)
            futex_wait(&shared->served, served, NULL);
    }
    add_one(&shared->ended);
}

/* Serves until all have ended. */
static void serve(struct shared *shared, uint32_t processes, int file)
{
    static char records[RECORD * 1024];
    uint32_t seen = 0, group = 1;
    off_t offset = 0;
    while (load(&shared->ended) < processes) {
        if (load(&shared->asked) == seen) {
            const uint32_t bell = load(&shared->bell);
            const struct timespec limit = {.tv_nsec = GATHER_NS};
            store(&shared->asleep, 1);
            if (load(&shared->asked) == seen)
                futex_wait(&shared->bell, bell, &limit);
            store(&shared->asleep, 0);
            continue;
        }
        for (const int64_t begin = now_ns(); (load(&shared->asked) - seen) * 4 < group * 3 && now_ns() - begin < GATHER_NS;)
            sched_yield();
        group = load(&shared->asked) - seen;
        seen += group;
        if (offset + group * RECORD > FILE_BYTES)
            offset = 0;
        if (pwrite(file, records, group * RECORD, offset) < 0 || fdatasync(file)) {
            perror("crowd: cannot write");
            exit(1);
        }
        offset += group * RECORD;
        add_one(&shared->served);
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
    store(&shared->go, 1);
    futex_wake(&shared->go);
    serve(shared, processes, file);
    const double seconds = (double)(now_ns() - begin) / 1e9;
    while (wait(NULL) > 0)
        ;
    printf("{\"messages_per_s\": %.0f}\n", processes * (double)messages / seconds);
    return 0;
}

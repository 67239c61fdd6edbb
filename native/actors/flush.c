/* Group commit without a list: a sender that needs the disk says so in `flush_wanted`, and waits for the flushed position. All
 * senders that come while one fdatasync runs are served by the next. A sync that failed is never tried again as if it had
 * worked: the kernel may have dropped the pages that it could not write, so the position stops where it is and says why.
 *
 * A process that is killed in a sync, or before it could publish the result, leaves `syncing` raised. Its successor cannot know
 * whether the pages are on disk, and another sync would not tell. So it writes everything behind the flushed position again,
 * syncs, and reads back whether the records are still the ones that were appended: the kernel may have dropped them meanwhile.
 */
#include "actors/flush.h"
#include "base/crash_point.h"
#include "base/file_extents.h"
#include "format/log_map.h"
#include "format/log_rewrite.h"
#include "format/log_scan.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define GATHER_NS 300000u /* longest wait for a group to gather: two syncs of a fast disk */
#define PASSING_NAP_NS 5000000u /* between two tries to open a file for which there is no handle */
#define LINGER_NS 60000u /* how long to look for the next demand after a sync on demand */

struct flush {
    struct attachment *attachment;
    char folder[STORE_FOLDER_ROOM];
    uint64_t file_size;
    uint64_t open_start; /* of the file behind descriptor */
    int descriptor;      /* -1: none */
    uint64_t askers;     /* flush_askers when the last sync began */
    uint32_t crowd;      /* as published */
    uint64_t synced_ms;  /* CLOCK_MONOTONIC of the last look that synced */
    bool doubt;          /* a predecessor's sync may have failed: everything behind flushed must be written again */
};

/* relaxed: a hint */
static uint64_t askers(const struct flush *flush)
{
    return atomic_load_explicit(&flush->attachment->control->flush_askers, memory_order_relaxed);
}

struct flush *flush_open(struct attachment *attachment)
{
    struct flush *flush = calloc(1, sizeof *flush);
    if (!flush)
        return NULL;
    log_folder(flush->folder, attachment->control->settings.store);
    flush->attachment = attachment;
    flush->file_size = attachment->control->settings.log_file_size;
    flush->descriptor = -1;
    flush->askers = askers(flush);
    flush->synced_ms = clock_ms();
    /* acquire: the predecessor's word. It is dead, and the supervisor has waited for it before starting us. */
    flush->doubt = atomic_load_explicit(&attachment->control->syncing, memory_order_acquire) != 0;
    return flush;
}

void flush_close(struct flush *flush)
{
    if (flush->descriptor >= 0)
        close(flush->descriptor);
    free(flush);
}

static int open_file(struct flush *flush, uint64_t start)
{
    if (flush->descriptor >= 0 && flush->open_start == start)
        return 0;
    if (flush->descriptor >= 0)
        close(flush->descriptor);
    flush->descriptor = log_file_open(flush->folder, start, O_RDWR);
    flush->open_start = start;
    return flush->descriptor < 0 ? errno : 0;
}

static int sync_file(struct flush *flush)
{
    const uint64_t from = clock_ns();
    if (fdatasync(flush->descriptor))
        return errno;
    histogram_record(&flush->attachment->page->histogram, (clock_ns() - from) / 1000u);
    count(flush->attachment->page, COUNT_SYNCS, 1);
    return 0;
}

/* Writes bytes [from, to) of the open log file again, and syncs them. The kernel reports an old error to a new descriptor, so
 * the first attempt may fail because of an earlier write. */
static int sync_again(struct flush *flush, uint64_t from, uint64_t to)
{
    const uint64_t start = flush->open_start, end = start + flush->file_size;
    const uint64_t first = from > start ? from - start : 0, last = (to < end ? to : end) - start;
    int error = 0;
    for (int tries = 2; tries > 0; tries--) {
        error = log_rewrite(flush->descriptor, first, last);
        CRASH_POINT("flush_rewritten");
        error = error ? error : sync_file(flush);
        if (!error)
            break;
    }
    /* Then only a start can help, during which nobody appends (store/recovery/log_rewrite.py). */
    return error ? error : file_extents_unwritten(flush->descriptor, first, last) ? EIO : 0;
}

/* True if [from, to), two record boundaries, still holds good records. */
static int check(const struct flush *flush, uint64_t from, uint64_t to)
{
    struct scan *scan = scan_open(flush->attachment->control->settings.store, flush->file_size, from, true);
    if (!scan)
        return errno;
    struct scan_state state = {.offset = from};
    enum scan_result result = SCAN_MORE;
    while (result == SCAN_MORE && state.offset < to) {
        attachment_beat(flush->attachment);
        result = scan_step(scan, to - state.offset);
        scan_look(scan, &state);
    }
    scan_close(scan);
    return result == SCAN_FAILED ? (int)state.error : state.offset < to ? EIO : 0;
}

/* Nothing is certain about what was not flushed: the position stops, and says why. */
static uint64_t give_up(struct flush *flush, int error)
{
    /* release: for readers that act on it; whoever waits for the disk only gives up sooner */
    atomic_store_explicit(&flush->attachment->control->flushed.error, (uint32_t)error, memory_order_release);
    bell_ring(&flush->attachment->wake->flushed);
    return 0;
}

uint64_t flush_step(struct flush *flush)
{
    struct control *control = flush->attachment->control;
    flush->synced_ms = clock_ms();
    /* relaxed: only we write it */
    if (atomic_load_explicit(&control->flushed.error, memory_order_relaxed))
        return 0;
    /* acquire: the writer's stores to the pages before the position [W1]; fdatasync then finds them dirty */
    const uint64_t wrote = atomic_load_explicit(&control->wrote.value, memory_order_acquire);
    const uint64_t flushed = atomic_load_explicit(&control->flushed.value, memory_order_relaxed); /* only we write it */
    if (flushed == wrote)
        return 0;
    /* relaxed: only a successor reads it, after our death */
    atomic_store_explicit(&control->syncing, 1, memory_order_relaxed);
    CRASH_POINT("flush_began");
    const uint64_t before = flush->askers;
    flush->askers = askers(flush);
    for (uint64_t start = flushed - flushed % flush->file_size; start < wrote; start += flush->file_size) {
        int error = open_file(flush, start);
        if (log_map_passing(error)) {
            /* The disk was not asked to do anything, so asking again loses nothing. */
            const struct timespec nap = {.tv_nsec = PASSING_NAP_NS};
            clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
            return 0;
        }
        error = error ? error : flush->doubt ? sync_again(flush, flushed, wrote) : sync_file(flush);
        if (error)
            return give_up(flush, error);
    }
    const int spoilt = flush->doubt ? check(flush, flushed, wrote) : 0;
    if (spoilt && !log_map_passing(spoilt))
        return give_up(flush, spoilt);
    if (spoilt)
        return 0;
    flush->doubt = false;
    CRASH_POINT("flush_synced");
    flush->crowd = (uint32_t)(askers(flush) - before);
    /* relaxed: a hint */
    atomic_store_explicit(&control->flush_crowd, flush->crowd, memory_order_relaxed);
    /* release: what is durable before the position that says so [F1] */
    atomic_store_explicit(&control->flushed.value, wrote, memory_order_release);
    /* release: the position before the word that is then no longer needed; a successor that sees this sees the position */
    atomic_store_explicit(&control->syncing, 0, memory_order_release);
    CRASH_POINT("flush_published");
    if (bell_ring(&flush->attachment->wake->flushed))
        count(flush->attachment->page, COUNT_WAKES, 1);
    count(flush->attachment->page, COUNT_STEPS, 1);
    CRASH_POINT("flush_rung");
    count(flush->attachment->page, COUNT_BYTES, wrote - flushed);
    return wrote - flushed;
}

static bool wanted(const struct flush *flush)
{
    const struct control *control = flush->attachment->control;
    /* acquire: what is to be flushed was written before [W1] */
    const uint64_t want = atomic_load_explicit(&control->flush_wanted, memory_order_acquire);
    return want > atomic_load_explicit(&control->flushed.value, memory_order_relaxed) &&
           !atomic_load_explicit(&control->flushed.error, memory_order_relaxed);
}

/* In a crowd, waits until three quarters as many senders ask for the disk as were waiting when the last sync ended: those that
 * were woken then come back soon, and one sync serves them all. */
static void gather(const struct flush *flush)
{
    if (flush->crowd < FLUSH_CROWD)
        return;
    const uint64_t start = clock_ns();
    do
        sched_yield();
    while ((askers(flush) - flush->askers) * 4 < (uint64_t)flush->crowd * 3 && clock_ns() - start < GATHER_NS);
}

/* True if somebody wants the disk again within a moment of the last sync: a lone sender that waits for each message comes back
 * before a sleep and a wake-up would be over. Other processes run meanwhile. */
static bool wanted_soon(const struct flush *flush)
{
    const uint64_t start = clock_ns();
    while (!wanted(flush)) {
        if (clock_ns() - start >= LINGER_NS)
            return false;
        sched_yield();
    }
    return true;
}

/* Sleeps until somebody wants the disk or the next timed flush is due. */
static enum bell_wake rest(struct flush *flush)
{
    struct bell *bell = &flush->attachment->wake->flush;
    const uint64_t interval = flush->attachment->control->settings.flush_interval_ms;
    const uint64_t since = clock_ms() - flush->synced_ms;
    uint64_t limit_ns = since >= interval ? 1 : (interval - since) * 1000000u;
    if (limit_ns > BELL_LIMIT_NS)
        limit_ns = BELL_LIMIT_NS;
    const uint32_t ticket = bell_announce(bell);
    if (wanted(flush)) {
        bell_cancel(bell, ticket);
        return BELL_RUNG;
    }
    count(flush->attachment->page, COUNT_SLEEPS, 1);
    return bell_sleep(bell, ticket, limit_ns);
}

enum run_result flush_run(struct flush *flush, uint32_t limit_ms)
{
    const struct control *control = flush->attachment->control;
    const uint64_t end = clock_ms() + limit_ms;
    for (;;) {
        const uint64_t now = clock_ms();
        attachment_beat(flush->attachment);
        if (wanted(flush)) {
            gather(flush);
            flush_step(flush);
            if (now < end && wanted_soon(flush))
                continue;
        } else if (now - flush->synced_ms >= control->settings.flush_interval_ms) {
            flush_step(flush);
        }
        if (now >= end)
            return RUN_TIME;
        if (rest(flush) == BELL_SIGNAL)
            return RUN_SIGNAL;
    }
}

#include "actors/allocator.h"
#include "base/crash_point.h"
#include "format/log_map.h"
#include <stdlib.h>
#include <sys/mman.h>

#define STEP (2u << 20)  /* pages made ready at once */
#define RETRY_MS 500u    /* between two tries to make a file after one failed */

struct allocator {
    struct attachment *attachment;
    struct log_map map;
    uint64_t file_size;
    uint64_t asked_ms; /* CLOCK_MONOTONIC of the last RUN_NEED */
};

struct allocator *allocator_open(struct attachment *attachment)
{
    struct allocator *allocator = calloc(1, sizeof *allocator);
    if (!allocator)
        return NULL;
    const struct settings *settings = &attachment->control->settings;
    allocator->attachment = attachment;
    allocator->file_size = settings->log_file_size;
    log_map_open(&allocator->map, settings->store, settings->log_file_size, false);
    return allocator;
}

void allocator_close(struct allocator *allocator)
{
    log_map_close(&allocator->map);
    free(allocator);
}

static uint64_t wrote(const struct allocator *allocator)
{
    /* acquire: no data depends on it except what is read ahead [W1] */
    return atomic_load_explicit(&allocator->attachment->control->wrote.value, memory_order_acquire);
}

/* The file that `wrote` lies in and one more must be there. */
static bool needs_file(const struct allocator *allocator)
{
    const struct control *control = allocator->attachment->control;
    if (control->settings.read_only)
        return false;
    const uint64_t at = wrote(allocator);
    const uint64_t ready = atomic_load_explicit(&control->allocated.value, memory_order_relaxed); /* only we write it */
    return ready < at - at % allocator->file_size + 2 * allocator->file_size;
}

/* Where the ready pages should end now, at a page's start. */
static uint64_t target(const struct allocator *allocator)
{
    const struct control *control = allocator->attachment->control;
    const uint64_t end = (wrote(allocator) + ALLOCATOR_AHEAD) & ~UINT64_C(4095);
    /* relaxed: only we write it */
    const uint64_t ready = atomic_load_explicit(&control->allocated.value, memory_order_relaxed);
    return control->settings.read_only ? 0 : end < ready ? end : ready;
}

uint64_t allocator_step(struct allocator *allocator)
{
    struct control *control = allocator->attachment->control;
    uint64_t from = atomic_load_explicit(&control->warmed.value, memory_order_relaxed); /* only we write it */
    const uint64_t behind = wrote(allocator);
    if (from < behind)
        from = behind; /* the writer was faster */
    from &= ~UINT64_C(4095); /* madvise takes whole pages */
    const uint64_t file_end = from - from % allocator->file_size + allocator->file_size;
    uint64_t end = from + STEP < file_end ? from + STEP : file_end;
    const uint64_t enough = target(allocator);
    if (end > enough)
        end = enough;
    if (end <= from)
        return 0;
    uint8_t *pages = log_map_at(&allocator->map, from);
    /* If the kernel cannot do it, the writer's page faults do the work: slower, not wrong. */
    if (pages)
        (void)madvise(pages, end - from, MADV_POPULATE_READ);
    CRASH_POINT("allocator_populated");
    log_map_forget(&allocator->map, from);
    /* relaxed: a hint; the kernel orders what it has done to the pages */
    atomic_store_explicit(&control->warmed.value, end, memory_order_relaxed);
    CRASH_POINT("allocator_warmed");
    count(allocator->attachment->page, COUNT_STEPS, 1);
    count(allocator->attachment->page, COUNT_BYTES, end - from);
    return end - from;
}

static bool needs_pages(const struct allocator *allocator)
{
    /* relaxed: only we write it */
    const uint64_t warmed = atomic_load_explicit(&allocator->attachment->control->warmed.value, memory_order_relaxed);
    return warmed < target(allocator) && warmed < wrote(allocator) + ALLOCATOR_AHEAD / 2;
}

enum run_result allocator_run(struct allocator *allocator, uint32_t limit_ms)
{
    struct control *control = allocator->attachment->control;
    struct bell *bell = &control->allocator_bell;
    const uint64_t end = clock_ms() + limit_ms;
    for (;;) {
        const uint64_t now = clock_ms();
        attachment_beat(allocator->attachment);
        /* relaxed: we stored it ourselves (control_set_allocated) */
        const bool failed = atomic_load_explicit(&control->allocated.error, memory_order_relaxed) != 0;
        if (needs_file(allocator) && (!failed || now - allocator->asked_ms >= RETRY_MS)) {
            allocator->asked_ms = now;
            return RUN_NEED;
        }
        if (now >= end)
            return RUN_TIME;
        if (needs_pages(allocator)) {
            while (allocator_step(allocator) && !needs_file(allocator))
                ;
            continue;
        }
        const uint32_t ticket = bell_announce(bell);
        if (needs_pages(allocator) || (needs_file(allocator) && !failed)) {
            bell_cancel(bell, ticket);
        } else {
            count(allocator->attachment->page, COUNT_SLEEPS, 1);
            if (bell_sleep(bell, ticket, BELL_LIMIT_NS) == BELL_SIGNAL)
                return RUN_SIGNAL;
        }
    }
}

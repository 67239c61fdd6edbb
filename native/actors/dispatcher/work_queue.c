/* The words of one queue. work_file.h says what they hold, and in which order the file changes. */
#include "actors/dispatcher/dispatcher_parts.h"
#include "base/file_map.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define SCAN_MS_MIN WORK_TICK_MS
#define SCAN_REST 10u /* a look for due messages takes at most one part in so many of the time */

static void set_floor(struct work_queue *queue, uint64_t floor)
{
    queue->floor = floor;
    /* release, here and below: stored after what was stored before, for whoever reads the file after our death */
    atomic_store_explicit(&queue->file->floor, floor, memory_order_release);
}

static void set_frontier(struct work_queue *queue, uint64_t frontier)
{
    queue->frontier = frontier;
    atomic_store_explicit(&queue->file->frontier, frontier, memory_order_release);
}

/* Words of messages [from, to), at most a window of them. release fence: before whatever makes these places count again. */
static void clear(struct work_queue *queue, uint64_t from, uint64_t to)
{
    if (to - from > WORK_WINDOW)
        to = from + WORK_WINDOW;
    for (uint64_t offset = from; offset < to; offset++)
        work_store(queue, offset, 0);
    atomic_thread_fence(memory_order_release);
}

/* The file continues at `offset`; nothing above is known. */
static void begin_anew(struct work_queue *queue, uint64_t offset)
{
    clear(queue, 0, WORK_WINDOW);
    /* The frontier never stands below the floor for a successor: it is lowered first, and raised last. */
    if (offset < queue->floor) {
        set_floor(queue, offset);
        set_frontier(queue, offset);
    } else {
        set_frontier(queue, offset);
        set_floor(queue, offset);
    }
}

/* Above the floor, what another boot of the machine left is not certain, and what lies outside the file's range is garbage. */
static void make_fit(struct work_queue *queue, uint64_t opening, uint64_t offset)
{
    struct work_file *file = queue->file;
    const struct dispatcher *dispatcher = queue->dispatcher;
    const uint64_t generation = dispatcher->attachment->control->header.generation;
    /* relaxed: nobody else writes them */
    queue->floor = atomic_load_explicit(&file->floor, memory_order_relaxed);
    queue->frontier = atomic_load_explicit(&file->frontier, memory_order_relaxed);
    const bool whole = file->magic == WORK_MAGIC && queue->floor <= queue->frontier && queue->frontier - queue->floor <= WORK_WINDOW &&
                       memcmp(file->boot, dispatcher->boot, sizeof file->boot) == 0;
    if (!whole) {
        queue->floor = queue->frontier = 0;
        begin_anew(queue, offset);
        memcpy(file->boot, dispatcher->boot, sizeof file->boot);
    } else if (file->opening != opening && (offset < queue->floor || offset > queue->frontier)) {
        begin_anew(queue, offset);
    } else {
        if (file->opening != opening && offset > queue->floor)
            set_floor(queue, offset);
        clear(queue, queue->frontier, queue->floor + WORK_WINDOW);
    }
    CRASH_POINT("work_queue_fitted");
    if (file->generation != generation) { /* nobody has in hand what sessions of an earlier tree had */
        for (uint64_t at = queue->floor; at < queue->frontier; at++) {
            const uint64_t word = work_load(queue, at);
            if (work_state_of(word) == WORK_HELD)
                work_store(queue, at, work_word(dispatcher_gives_up(queue, work_tries(word)) ? WORK_PARTING : WORK_FREE, work_tries(word), 0, 0, 0));
        }
        file->generation = generation;
    }
    file->opening = opening;
    file->magic = WORK_MAGIC;
    CRASH_POINT("work_queue_opened");
}

int work_queue_open(struct work_queue *queue, const char *path, uint64_t opening, uint64_t offset)
{
    void *memory = file_map(path, WORK_FILE_SIZE);
    if (!memory)
        return errno;
    queue->file = memory;
    queue->words = (_Atomic uint64_t *)(void *)((uint8_t *)memory + WORK_WORDS_AT);
    queue->fresh = true;
    make_fit(queue, opening, offset);
    return 0;
}

void work_queue_close(struct work_queue *queue)
{
    if (queue->file)
        munmap(queue->file, WORK_FILE_SIZE);
}

static void due_at(struct work_queue *queue, uint64_t ms)
{
    if (ms < queue->due_ms)
        queue->due_ms = ms;
}

static void freed(struct work_queue *queue, uint64_t offset)
{
    queue->free++;
    if (offset < queue->hint)
        queue->hint = offset;
}

static void parting(struct work_queue *queue, uint64_t offset)
{
    queue->parting++;
    if (offset < queue->part_hint)
        queue->part_hint = offset;
}

void work_queue_count(struct work_queue *queue)
{
    const uint64_t now_ms = clock_ms();
    queue->fresh = false;
    queue->free = 0;
    queue->hint = queue->frontier;
    queue->due_ms = UINT64_MAX;
    queue->scan_ms = 0;
    queue->parting = 0;
    queue->part_hint = queue->frontier;
    for (uint64_t at = queue->floor; at < queue->frontier; at++) {
        const uint64_t word = work_load(queue, at);
        struct work_worker *worker = work_state_of(word) == WORK_HELD ? queue->dispatcher->by_slot[work_slot(word)] : NULL;
        switch (work_state_of(word)) {
        case WORK_HELD:
            if (!worker || !work_is_mine(worker, word)) {
                dispatcher_fail(queue, at, word, work_tries(word), 0, now_ms, NULL);
                break;
            }
            worker->held++;
            due_at(queue, now_ms + work_left_ms(work_tick(word), now_ms));
            break;
        case WORK_WAITING:
            due_at(queue, now_ms + work_left_ms(work_tick(word), now_ms));
            break;
        case WORK_FREE:
            freed(queue, at);
            break;
        case WORK_PARTING:
            parting(queue, at);
            break;
        case WORK_DONE:
            break;
        }
    }
}

/* A word that was in hand is to be something else. */
static void let_go(struct work_queue *queue, uint64_t word)
{
    struct work_worker *worker = queue->dispatcher->by_slot[work_slot(word)];
    if (worker && work_is_mine(worker, word) && worker->held > 0)
        worker->held--;
}

void work_queue_free(struct work_queue *queue, uint64_t offset, uint64_t word, uint32_t tries, uint64_t delay_ms, uint64_t now_ms)
{
    if (work_state_of(word) == WORK_HELD)
        let_go(queue, word);
    if (delay_ms == 0) {
        work_store(queue, offset, work_word(WORK_FREE, tries, work_slot(word), work_epoch(word), 0));
        freed(queue, offset);
        return;
    }
    if (delay_ms > WORK_WAIT_MS_MAX)
        delay_ms = WORK_WAIT_MS_MAX;
    const uint32_t tick = work_tick_at(now_ms + delay_ms);
    work_store(queue, offset, work_word(WORK_WAITING, tries, work_slot(word), work_epoch(word), tick));
    due_at(queue, now_ms + delay_ms);
}

void work_queue_part(struct work_queue *queue, uint64_t offset, uint64_t word, uint32_t tries)
{
    if (work_state_of(word) == WORK_HELD)
        let_go(queue, word);
    /* the session stays in the word, so that an answer that is applied again is known */
    work_store(queue, offset, work_word(WORK_PARTING, tries, work_slot(word), work_epoch(word), 0));
    parting(queue, offset);
}

void work_queue_land(struct work_queue *queue, uint64_t offset)
{
    if (offset < queue->floor || offset >= queue->frontier)
        return;
    const uint64_t word = work_load(queue, offset);
    if (work_state_of(word) != WORK_PARTING)
        return;
    work_store(queue, offset, work_word(WORK_DONE, work_tries(word), work_slot(word), work_epoch(word), WORK_ELSEWHERE));
    if (queue->parting > 0)
        queue->parting--;
}

void work_queue_release(struct work_queue *queue, const struct work_worker *worker)
{
    for (uint64_t at = queue->floor; at < queue->frontier; at++) {
        const uint64_t word = work_load(queue, at);
        if (work_state_of(word) == WORK_HELD && work_is_mine(worker, word)) {
            dispatcher_fail(queue, at, word, work_tries(word), 0, 0, NULL);
            CRASH_POINT("work_queue_released");
        }
    }
}

void work_queue_forget(struct work_queue *queue)
{
    for (uint64_t at = queue->floor; at < queue->frontier && !queue->fresh; at++) {
        const uint64_t word = work_load(queue, at);
        if (work_state_of(word) == WORK_HELD)
            let_go(queue, word);
    }
}

uint32_t work_queue_expire(struct work_queue *queue, uint64_t now_ms)
{
    if (now_ms < queue->due_ms || now_ms < queue->scan_ms)
        return 0;
    const uint64_t began = clock_ns();
    uint32_t expired = 0;
    queue->due_ms = UINT64_MAX;
    for (uint64_t at = queue->floor; at < queue->frontier; at++) {
        const uint64_t word = work_load(queue, at);
        if (work_state_of(word) != WORK_HELD && work_state_of(word) != WORK_WAITING)
            continue;
        const uint64_t left = work_left_ms(work_tick(word), now_ms);
        if (left) {
            due_at(queue, now_ms + left);
            continue;
        }
        struct work_worker *worker = work_state_of(word) == WORK_HELD ? queue->dispatcher->by_slot[work_slot(word)] : NULL;
        if (worker && work_is_mine(worker, word))
            worker->lapsed++;
        if (work_state_of(word) == WORK_HELD)
            dispatcher_fail(queue, at, word, work_tries(word), 0, now_ms, NULL);
        else
            work_queue_free(queue, at, word, work_tries(word), 0, now_ms);
        CRASH_POINT("work_queue_expired");
        expired++;
    }
    const uint64_t rest_ms = (clock_ns() - began) * SCAN_REST / 1000000u;
    queue->scan_ms = now_ms + (rest_ms > SCAN_MS_MIN ? rest_ms : SCAN_MS_MIN);
    return expired;
}

void work_queue_raise(struct work_queue *queue)
{
    /* acquire: as every reader of a queue's range [O1] */
    const uint64_t min = atomic_load_explicit(&queue->slot_entry->min_offset, memory_order_acquire);
    const uint64_t from = queue->floor;
    uint64_t floor = from;
    while (floor < queue->frontier) {
        const uint64_t word = work_load(queue, floor);
        if (work_state_of(word) != WORK_DONE) {
            if (floor >= min)
                break;
            /* retention has removed it */
            if (work_state_of(word) == WORK_HELD)
                let_go(queue, word);
            else if (work_state_of(word) == WORK_FREE && queue->free > 0)
                queue->free--;
            else if (work_state_of(word) == WORK_PARTING && queue->parting > 0)
                queue->parting--;
        }
        floor++;
    }
    if (queue->frontier < min) {
        floor = min;
        set_frontier(queue, min);
    }
    if (floor == from)
        return;
    set_floor(queue, floor);
    CRASH_POINT("work_queue_raised");
    if (queue->nodes)
        order_raised(queue, from);
    clear(queue, from, floor);
    if (queue->hint < floor)
        queue->hint = floor;
}

uint64_t work_queue_end(const struct work_queue *queue)
{
    /* acquire: units and records below it, before a client is told of them. Pairs with reput's release [Q1]. */
    const uint64_t max = atomic_load_explicit(&queue->slot_entry->max_offset, memory_order_acquire);
    const uint64_t most = queue->floor + WORK_WINDOW;
    return max < most ? max : most;
}

/* The words say it, so it holds for a successor, too. There are few between floor and frontier: one run, and what was handed out before the
 * group was queue-ordered. */
bool work_queue_busy(const struct work_queue *queue)
{
    for (uint64_t at = queue->floor; at < queue->frontier; at++) {
        const enum work_state state = work_state_of(work_load(queue, at));
        if (state != WORK_FREE && state != WORK_DONE)
            return true;
    }
    return false;
}

uint64_t work_queue_available(const struct work_queue *queue)
{
    if (queue->nodes)
        return queue->ready;
    if (queue->short_ms && queue->short_ms > clock_ms())
        return 0;
    const uint64_t end = work_queue_end(queue);
    const uint64_t sum = queue->free + (end > queue->frontier ? end - queue->frontier : 0);
    if (!queue->group->queue_ordered || !sum)
        return sum;
    return work_queue_busy(queue) ? 0 : sum < WORK_RUN_MAX ? sum : WORK_RUN_MAX;
}

void work_queue_pass(struct work_queue *queue, uint64_t offset)
{
    if (offset >= queue->frontier) {
        set_frontier(queue, offset + 1);
        CRASH_POINT("work_queue_passing");
    } else if (queue->free > 0) {
        queue->free--;
    }
    work_store(queue, offset, work_word(WORK_DONE, 0, 0, 0, WORK_ELSEWHERE));
    queue->dispatcher->passed++;
    CRASH_POINT("work_queue_passed");
}

/* Among the messages below the frontier. *over: nothing more is to be looked for. */
static uint32_t find_free(struct work_queue *queue, uint32_t most, uint64_t *first, uint32_t *tries, bool *over)
{
    uint32_t count = 0, before = 0;
    uint64_t at = queue->hint;
    for (; count < most && at < queue->frontier; at++) {
        const uint64_t word = work_load(queue, at);
        const bool free = work_state_of(word) == WORK_FREE && (!count || work_tries(word) == before);
        if (!free && count)
            break;
        if (!free)
            continue;
        const enum filter_result judged = word == 0 && queue->filter ? dispatcher_judge(queue, at) : FILTER_PASSES;
        if (judged == FILTER_REFUSES)
            work_queue_pass(queue, at);
        *over = judged == FILTER_LATER;
        if (*over || (judged == FILTER_REFUSES && count))
            break;
        if (judged == FILTER_REFUSES)
            continue;
        if (!count) {
            *first = at;
            *tries = before = work_tries(word);
            if (queue->retry && before == 0) { /* a predecessor has raised the frontier only */
                *over = !dispatcher_reconsumed(queue, at, tries);
                if (*over)
                    break;
                most = 1;
            }
        }
        count++;
    }
    queue->hint = at;
    queue->free = queue->free > count && (count || *over) ? queue->free - count : 0;
    return count;
}

/* Messages [frontier, returned) were judged, `count` of them pass, from the frontier on or behind some that do not. */
static uint32_t find_wanted(struct work_queue *queue, uint32_t most, uint64_t end, uint64_t *first)
{
    uint32_t count = 0;
    uint64_t at = queue->frontier;
    for (; count < most && at < end; at++) {
        const enum filter_result judged = dispatcher_judge(queue, at);
        if (judged == FILTER_LATER)
            break;
        if (judged == FILTER_REFUSES) {
            work_queue_pass(queue, at); /* those before it are below the frontier then, and 0 */
            if (count)
                break;
            continue;
        }
        if (!count++)
            *first = at;
    }
    if (count && *first + count > queue->frontier)
        set_frontier(queue, *first + count);
    return count;
}

/* Among the messages that were never handed out. */
static uint32_t find_fresh(struct work_queue *queue, uint32_t most, uint64_t *first, uint32_t *tries)
{
    const uint64_t end = work_queue_end(queue), from = queue->frontier;
    if (end <= from)
        return 0;
    const uint64_t fresh = end - from;
    uint32_t count = queue->retry ? 1 : fresh < most ? (uint32_t)fresh : most;
    *first = from;
    *tries = 0;
    if (queue->retry && !dispatcher_reconsumed(queue, from, tries))
        return 0;
    if (queue->filter)
        count = find_wanted(queue, most, end, first);
    else
        set_frontier(queue, from + count); /* their words are 0: free, and never handed out */
    if (queue->hint == from)
        queue->hint = queue->frontier;
    return count;
}

uint32_t work_queue_find(struct work_queue *queue, uint32_t most, uint64_t *first, uint32_t *tries)
{
    if (queue->nodes) {
        const uint32_t count = order_find(queue, most, first, tries);
        if (count && *first + count > queue->frontier)
            set_frontier(queue, *first + count); /* those that are passed over are free, and were never handed out: their words are 0 */
        return count;
    }
    bool over = false;
    if (queue->group->queue_ordered) {
        if (work_queue_busy(queue))
            return 0;
        most = most < WORK_RUN_MAX ? most : WORK_RUN_MAX;
    }
    const uint32_t count = queue->free > 0 ? find_free(queue, most, first, tries, &over) : 0;
    return count || over ? count : find_fresh(queue, most, first, tries);
}

void work_queue_hold(struct work_queue *queue, uint64_t first, uint32_t count, uint32_t tries, struct work_worker *worker, uint64_t until_ms)
{
    const uint64_t word = work_word(WORK_HELD, tries < WORK_TRIES_MAX ? tries + 1 : tries, worker->slot, worker->epoch, work_tick_at(until_ms));
    for (uint64_t at = first; at < first + count; at++)
        work_store(queue, at, word);
    worker->held += count;
    due_at(queue, until_ms);
}

#include "actors/scheduler/timer.h"
#include "base/clock.h"
#include "format/delay.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define UNITS_MOST 65536u /* read in one step */

bool timer_open(struct timer *timer, const char *store, uint32_t file_units, struct timer_progress *progress, struct delay_record *record)
{
    timer->store = store;
    timer->file_units = file_units;
    timer->progress = progress;
    timer->record = record;
    timer->room = TIMER_HEAP;
    timer->most = UNITS_MOST;
    timer->heap = malloc(TIMER_HEAP * sizeof *timer->heap);
    timer_again(timer);
    return timer->heap != NULL;
}

void timer_unmap(struct timer *timer)
{
    consume_queue_reader_close(&timer->units, timer->file_units);
    consume_queue_reader_close(&timer->targets, timer->file_units);
}

void timer_close(struct timer *timer)
{
    timer_unmap(timer);
    cancelled_close(&timer->cancelled);
    free(timer->heap);
}

static void forget_portion(struct timer *timer)
{
    timer->taken = timer->put = 0;
    timer->of_heap = timer->passes = timer->any_late = false;
    memset(timer->passed, 0, sizeof timer->passed);
}

void timer_again(struct timer *timer)
{
    timer->count = 0;
    timer->scanned = timer->read > timer->progress->known ? timer->read : timer->progress->known;
    timer->read = timer->progress->floor;
    timer->horizon.due_ms = UINT64_MAX;
    timer->horizon.offset = UINT64_MAX;
    timer->cancels = 0;
    timer->begun_ms = clock_ms();
    forget_portion(timer);
}

static const uint8_t *unit_at(struct timer *timer, struct consume_queue_reader *reader, const struct topic_entry *topic, uint64_t offset,
                              uint64_t *units)
{
    if (!timer->folder[0])
        consume_queue_folder(timer->folder, timer->store, topic->name, topic->name_size, 0);
    return consume_queue_at(reader, timer->folder, timer->file_units, offset, units);
}

static struct timer_entry entry_of(const uint8_t *at, uint64_t offset)
{
    const struct queue_unit unit = queue_unit_load(at);
    uint64_t cancelled;
    if (cancel_of_code(unit.tags_code, &cancelled))
        return (struct timer_entry){.due_ms = cancelled, .offset = offset, .cancels = true};
    return (struct timer_entry){
        .due_ms = unit.tags_code > 0 ? (uint64_t)unit.tags_code : 0, /* what is not a time is RocketMQ's, and dropped */
        .offset = offset,
        .physical_offset = unit.physical_offset,
        .size = unit.size,
    };
}

bool timer_unit(struct timer *timer, const struct topic_entry *topic, uint64_t offset, struct timer_entry *entry)
{
    uint64_t units;
    const uint8_t *at = unit_at(timer, &timer->units, topic, offset, &units);
    if (at)
        *entry = entry_of(at, offset);
    return at != NULL;
}

/* ---- heap ---------------------------------------------------------------------------------------------------------- */

static bool before(const struct timer_entry *a, const struct timer_entry *b) { return timer_before(a->due_ms, a->offset, b->due_ms, b->offset); }

static void sift_down(struct timer_entry *heap, uint32_t count, uint32_t at)
{
    const struct timer_entry moved = heap[at];
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &moved))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* Makes a heap of entries in any order. */
static void order(struct timer *timer)
{
    for (uint32_t i = timer->count / 2; i-- > 0;)
        sift_down(timer->heap, timer->count, i);
}

/* Puts the smallest `keep` of the entries first, in any order. */
static void part(struct timer_entry *entries, uint32_t count, uint32_t keep)
{
    uint32_t from = 0, to = count;
    while (to - from > 1) {
        const struct timer_entry pivot = entries[from + (to - 1 - from) / 2];
        uint32_t low = from, high = to - 1;
        for (;;) {
            while (before(&entries[low], &pivot))
                low++;
            while (before(&pivot, &entries[high]))
                high--;
            if (low >= high)
                break;
            const struct timer_entry swapped = entries[low];
            entries[low++] = entries[high];
            entries[high--] = swapped;
        }
        if (keep <= high)
            to = high + 1;
        else
            from = high + 1;
    }
}

/* The later half is left out; it is found again by reading the queue. */
static void drop_later(struct timer *timer)
{
    const uint32_t keep = timer->room / 2;
    part(timer->heap, timer->count, keep);
    for (uint32_t i = keep; i < timer->count; i++)
        if (before(&timer->heap[i], &timer->horizon))
            timer->horizon = timer->heap[i];
    timer->count = keep;
    order(timer);
}

static void add(struct timer *timer, const struct timer_entry *entry)
{
    if (!before(entry, &timer->horizon))
        return;
    if (timer->count == timer->room) {
        drop_later(timer);
        if (!before(entry, &timer->horizon))
            return;
    }
    uint32_t at = timer->count++;
    for (; at && before(entry, &timer->heap[(at - 1) / 2]); at = (at - 1) / 2)
        timer->heap[at] = timer->heap[(at - 1) / 2];
    timer->heap[at] = *entry;
}

static void remove_first(struct timer *timer)
{
    timer->heap[0] = timer->heap[--timer->count];
    if (timer->count)
        sift_down(timer->heap, timer->count, 0);
}

bool timer_low(const struct timer *timer)
{
    const struct timer_progress *progress = timer->progress;
    if (timer->horizon.due_ms != UINT64_MAX && (timer->count == 0 || timer->count < timer->room / 4))
        return true;
    /* The next start, too, reads from the floor on, which a reading may raise. One under way goes on: it is below `scanned`. */
    return timer->read > timer->scanned && timer->read - timer->scanned > (1u << 20) + (timer->scanned - progress->floor);
}

/* ---- portions ------------------------------------------------------------------------------------------------------ */

/* Which extra this is; -1: none. */
static int extra_of(const struct timer_progress *progress, uint64_t offset)
{
    for (uint32_t i = 0; i < progress->extra_count; i++)
        if (progress->extra[i] == offset)
            return (int)i;
    return -1;
}

void timer_raise(struct timer *timer, uint64_t min)
{
    struct timer_progress *progress = timer->progress;
    uint32_t left = 0;
    /* What was cancelled or is in the log already is remembered from the floor on only. */
    for (uint32_t i = 0; i < timer->count; i++)
        if (timer->heap[i].offset >= min ||
            !(cancelled_has(&timer->cancelled, timer->heap[i].offset) || extra_of(progress, timer->heap[i].offset) >= 0))
            timer->heap[left++] = timer->heap[i];
    timer->count = left;
    order(timer);
    left = 0;
    for (uint32_t i = 0; i < progress->extra_count; i++)
        if (progress->extra[i] >= min)
            progress->extra[left++] = progress->extra[i];
    progress->extra_count = left;
    progress->floor = min;
    if (progress->known < min)
        progress->known = min;
    if (timer->read < min)
        timer->read = min;
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

/* What becomes of a record that cancels a message before it. CANCEL_OPEN: that cannot be said now. What the writer's notes, not yet
 * read, say of a message does not matter: while there are any, nothing is read. */
static enum cancel_outcome decide(struct timer *timer, const struct topic_entry *topic, const struct timer_entry *cancel)
{
    const struct timer_progress *progress = timer->progress;
    const uint64_t target = cancel->due_ms;
    uint64_t units;
    if (target >= cancel->offset || target < progress->floor || extra_of(progress, target) >= 0)
        return CANCEL_LATE;
    if (cancelled_has(&timer->cancelled, target))
        return CANCEL_NEVER;
    const uint8_t *at = unit_at(timer, &timer->targets, topic, target, &units);
    if (!at)
        return CANCEL_OPEN;
    const struct timer_entry message = entry_of(at, target);
    if (message.cancels || timer_reached(progress, message.due_ms, target))
        return CANCEL_LATE;
    switch (cancelled_set(&timer->cancelled, target)) {
    case CANCELLED_SET:
        timer->cancels++;
        return CANCEL_NEVER;
    case CANCELLED_FAR:
        return CANCEL_REFUSED;
    case CANCELLED_SHORT:
        break;
    }
    return CANCEL_OPEN;
}

enum timer_look timer_read(struct timer *timer, const struct topic_entry *topic, uint64_t max, struct timer_entry *late)
{
    struct timer_progress *progress = timer->progress;
    uint64_t units = 0;
    const uint8_t *at = NULL;
    cancelled_raise(&timer->cancelled, progress->floor);
    bool waits = timer->read > progress->floor || timer->count; /* something before waits, or may */
    for (uint32_t n = 0; timer->read < max; n++, at += CONSUME_QUEUE_UNIT, units--) {
        if (n == timer->most)
            return TIMER_MORE;
        if (units == 0 && !(at = unit_at(timer, &timer->units, topic, timer->read, &units)))
            return TIMER_MORE; /* short of something, or it is being removed: at the next look */
        *late = entry_of(at, timer->read);
        if (late->cancels) {
            const enum cancel_outcome outcome = decide(timer, topic, late);
            if (outcome == CANCEL_OPEN)
                return TIMER_MORE;
            if (timer->read >= progress->known)
                delay_note_cancel(timer->record, timer->read, outcome);
        } else if (cancelled_has(&timer->cancelled, timer->read)) {
            /* it does not wait any more */
        } else if (!timer_reached(progress, late->due_ms, late->offset)) {
            add(timer, late);
            waits = true;
        } else if (timer->read >= progress->known) {
            const int extra = extra_of(progress, timer->read);
            if (extra < 0)
                return TIMER_LATE;
            timer->passed[extra] = timer->passes = true;
            waits = true;
        }
        timer->read++;
        if (!waits)
            progress->floor = timer->read;
    }
    return TIMER_READ;
}

const struct timer_entry *timer_first(struct timer *timer)
{
    const struct timer_progress *progress = timer->progress;
    if (timer->read < progress->known || timer->read < timer->behind)
        return NULL;
    while (timer->count) {
        if (cancelled_has(&timer->cancelled, timer->heap[0].offset)) {
            remove_first(timer);
            continue; /* the cursor stays: what is due before may still come */
        }
        const int extra = extra_of(progress, timer->heap[0].offset);
        if (extra < 0)
            return &timer->heap[0];
        timer->passed[extra] = timer->passes = true;
        timer->last = timer->heap[0];
        timer->of_heap = true;
        remove_first(timer);
    }
    return NULL;
}

void timer_take(struct timer *timer, const struct timer_entry *entry, bool late, bool in_lane)
{
    timer->taken++;
    if (in_lane) {
        assert(timer->put < TIMER_PORTION);
        timer->portion[timer->put++] = *entry;
    }
    timer->any_late |= late;
    if (late) {
        assert(entry->offset == timer->read);
        timer->read++;
    } else {
        timer->last = *entry;
        timer->of_heap = true;
        remove_first(timer);
    }
}

bool timer_advance(struct timer *timer)
{
    struct timer_progress *progress = timer->progress;
    const bool changed = timer->of_heap || timer->taken || timer->read > progress->known;
    if (timer->read > progress->known)
        progress->known = timer->read;
    if (timer->of_heap) {
        progress->due_ms = timer->last.due_ms;
        progress->offset = timer->last.offset;
    }
    uint32_t left = 0;
    for (uint32_t i = 0; i < progress->extra_count; i++)
        if (!timer->passed[i])
            progress->extra[left++] = progress->extra[i];
    progress->extra_count = left;
    if (timer->read == progress->known && timer->count == 0 && timer->horizon.due_ms == UINT64_MAX && left == 0) {
        progress->floor = timer->scanned = progress->known; /* nothing waits */
        progress->due_ms = progress->offset = 0; /* so nothing comes late, though the clock may have been set back */
    }
    forget_portion(timer);
    return changed;
}

bool timer_put_back(struct timer *timer)
{
    if (timer->taken != timer->put || timer->any_late || timer->passes)
        return false;
    for (uint32_t i = 0; i < timer->put; i++)
        add(timer, &timer->portion[i]); /* there is room: the heap has got nothing since they were taken */
    forget_portion(timer);
    return true;
}

void timer_add_extra(struct timer_progress *progress, uint64_t offset)
{
    assert(progress->extra_count < TIMER_PORTION);
    progress->extra[progress->extra_count++] = offset;
}

/* The scan's loop. */
#include "format/log_scan.h"

#include "format/atomic.h"
#include "format/log_map.h"
#include "format/queue_table.h"
#include "format/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILES_KEPT 4u /* mappings behind the scan; more would only fill the page tables */

struct scan {
    struct log_map map;
    struct scan_state state;
    struct queue_table table;
    uint64_t *next_offsets; /* by the queue's number */
    uint32_t room;
    struct mark part;  /* of the last record, if its atomic batch is not complete yet; count 0: there is none */
    struct scan_state before;  /* the state before that atomic batch */
    bool parts;
    bool headless;             /* it began before the scan */
    struct undo { uint32_t number; uint64_t next_offset; } *undo; /* what it changed in next_offsets, a record each */
    uint32_t undo_count, undo_room;
};

struct scan *scan_open(const char *store, uint64_t file_size, uint64_t from, bool parts)
{
    struct scan *scan = calloc(1, sizeof *scan);
    if (!scan)
        return NULL;
    if (queue_table_open(&scan->table) != 0) {
        free(scan);
        errno = ENOMEM;
        return NULL;
    }
    log_map_open(&scan->map, store, file_size, false);
    scan->parts = parts;
    scan->state.offset = scan->state.rising_from = from;
    return scan;
}

void scan_close(struct scan *scan)
{
    log_map_close(&scan->map);
    queue_table_close(&scan->table);
    free(scan->next_offsets);
    free(scan->undo);
    free(scan);
}

static bool make_room(struct scan *scan, uint32_t queues)
{
    if (queues <= scan->room)
        return true;
    uint64_t *larger = realloc(scan->next_offsets, 2 * (size_t)queues * sizeof *larger);
    if (!larger)
        return false;
    memset(larger + scan->room, 0, (2 * (size_t)queues - scan->room) * sizeof *larger);
    scan->next_offsets = larger;
    scan->room = 2 * queues;
    return true;
}

static bool note_undo(struct scan *scan, uint32_t number)
{
    if (scan->undo_count == scan->undo_room) {
        const uint32_t room = scan->undo_room ? 2 * scan->undo_room : 64;
        struct undo *larger = realloc(scan->undo, room * sizeof *larger);
        if (!larger)
            return false;
        scan->undo = larger;
        scan->undo_room = room;
    }
    scan->undo[scan->undo_count++] = (struct undo){number, scan->next_offsets[number]};
    return true;
}

static bool note_queue(struct scan *scan, const struct record_view *view)
{
    if (!record_queued(view->sys_flag))
        return true;
    const uint32_t number = queue_table_number(&scan->table, view->topic.data, view->topic.size, view->queue_id);
    if (number == QUEUE_NONE || !make_room(scan, number + 1) || (scan->part.count && !note_undo(scan, number)))
        return false;
    if (view->queue_offset >= scan->next_offsets[number])
        scan->next_offsets[number] = view->queue_offset + 1;
    return true;
}

/* Notes which atomic batch a record is of. */
static void follow_batch(struct scan *scan, const struct record_view *view)
{
    struct mark mark;
    const bool marked = record_sealed(view) && mark_read(view->properties, &mark);
    if (marked && scan->part.count == mark.count && mark.index == scan->part.index + 1) {
        scan->part = mark;
        return;
    }
    /* Where an atomic batch breaks off in the middle of the log, nothing is cut: only a power cut leaves such an atomic batch, at the end. */
    scan->part = marked ? mark : (struct mark){0};
    scan->headless = marked && mark.index > 0;
    scan->before = scan->state;
    scan->undo_count = 0;
}

static void pass_batch(struct scan *scan)
{
    if (scan->part.index + 1 == scan->part.count)
        scan->part = (struct mark){0};
}

/* The log ends before an atomic batch that is not complete. */
static void leave_batch_out(struct scan *scan)
{
    scan->state.fault_at = scan->state.offset;
    if (!scan->part.count || scan->parts)
        return;
    scan->state.headless = scan->headless;
    if (scan->headless)
        return; /* where it began is not known */
    const uint64_t fault_at = scan->state.offset;
    const uint32_t blanks = scan->state.blanks;
    scan->state = scan->before;
    scan->state.fault_at = fault_at;
    scan->state.blanks = blanks;
    while (scan->undo_count) {
        const struct undo undo = scan->undo[--scan->undo_count];
        scan->next_offsets[undo.number] = undo.next_offset;
    }
}

static enum scan_result end(struct scan *scan, enum record_fault fault)
{
    leave_batch_out(scan);
    scan->state.fault = fault;
    return SCAN_END;
}

static enum scan_result fail(struct scan *scan, int error)
{
    scan->state.error = (uint32_t)error;
    return SCAN_FAILED;
}

enum scan_result scan_step(struct scan *scan, uint64_t limit_bytes)
{
    struct scan_state *state = &scan->state;
    const uint64_t file_size = scan->map.file_size;
    const uint64_t stop = state->offset + limit_bytes;
    while (state->offset < stop) {
        const uint8_t *at = log_map_at(&scan->map, state->offset);
        if (!at)
            return errno == ENOENT ? end(scan, RECORD_END) : fail(scan, errno);
        const uint64_t left = file_size - state->offset % file_size;
        struct record_view view;
        const enum record_fault fault = record_check(at, left, state->offset, &view);
        if (fault == RECORD_IS_BLANK) {
            if (view.total_size != left)
                return end(scan, RECORD_BAD_SIZE);
            state->offset += left;
            state->blanks++;
            if (state->offset > FILES_KEPT * file_size)
                log_map_forget(&scan->map, state->offset - FILES_KEPT * file_size);
            continue;
        }
        if (fault != RECORD_GOOD)
            return end(scan, fault);
        /* A writer always leaves room for the blank marker; without it no reader would find the next file. */
        if (view.total_size + RECORD_BLANK_SIZE > left)
            return end(scan, RECORD_BAD_SIZE);
        follow_batch(scan, &view);
        if (!note_queue(scan, &view))
            return fail(scan, ENOMEM);
        if (state->records == 0) {
            state->first_ms = view.store_ms;
            state->first_sealed = record_sealed(&view);
        }
        if (view.store_ms < state->last_ms)
            state->rising_from = state->offset;
        state->last_ms = view.store_ms;
        state->last_offset = state->offset;
        state->offset += view.total_size;
        state->records++;
        pass_batch(scan);
    }
    return SCAN_MORE;
}

void scan_look(const struct scan *scan, struct scan_state *state)
{
    *state = scan->state;
    state->queue_count = scan->table.count;
}

uint32_t scan_queues(const struct scan *scan, uint32_t first, uint32_t most, struct scan_queue *queues)
{
    if (first >= scan->table.count)
        return 0;
    const uint32_t left = scan->table.count - first;
    const uint32_t count = left < most ? left : most;
    for (uint32_t i = 0; i < count; i++)
        queues[i] = (struct scan_queue){scan->next_offsets[first + i], scan->table.names[first + i]};
    return count;
}

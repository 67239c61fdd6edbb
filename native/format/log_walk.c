#include "format/log_walk.h"
#include "base/bytes.h"

#include <errno.h>

#define MAGIC_AT 4u
#define PLACE_END (RECORD_PHYSICAL_AT + 8u) /* bytes of a record from which its place can be read */
#define SIZE_BYTES 4u                       /* of a record, before the first byte that is never zero */
#define PAGE 4096u                          /* how much is skipped if the disk cannot read */

int log_walk_open(struct log_walk *walk, const char *store, uint64_t file_size, uint64_t from, uint64_t end)
{
    *walk = (struct log_walk){.offset = from, .good_end = from, .end = end};
    return log_window_open(&walk->window, store, file_size);
}

void log_walk_close(struct log_walk *walk) { log_window_close(&walk->window); }

static uint64_t file_end(const struct log_walk *walk, uint64_t offset)
{
    return offset - offset % walk->window.file_size + walk->window.file_size;
}

/* Checks what is at a place. A good blank marker is RECORD_IS_BLANK. *error: errno if it could not be read. */
static enum record_fault look(struct log_walk *walk, uint64_t offset, struct record_view *view, int *error)
{
    const uint64_t left = file_end(walk, offset) - offset;
    uint64_t available;
    *error = 0;
    if (left < RECORD_BLANK_SIZE)
        return RECORD_BAD_SIZE;
    const uint8_t *at = log_window_at(&walk->window, offset, RECORD_BLANK_SIZE, &available);
    if (at && load_be32(at + MAGIC_AT) == RECORD_MAGIC) {
        const uint32_t size = load_be32(at);
        if (size > WALK_RECORD_MAX || size + (uint64_t)RECORD_BLANK_SIZE > left)
            return RECORD_BAD_SIZE; /* a writer always leaves room for the blank marker */
        if (size > available)
            at = log_window_at(&walk->window, offset, size, &available);
    }
    if (!at) {
        *error = errno;
        return RECORD_BAD_SIZE;
    }
    const enum record_fault fault = record_check(at, left, offset, view);
    return fault == RECORD_IS_BLANK && view->total_size != left ? RECORD_BAD_SIZE : fault;
}

/* True if a record or blank marker seems to begin at a place: magic, and place or size, are right. `size` bytes can be read. */
static bool seems(const uint8_t *at, uint64_t size, uint64_t offset, uint64_t left)
{
    if (size < RECORD_BLANK_SIZE)
        return false;
    const uint32_t magic = load_be32(at + MAGIC_AT);
    if (magic == RECORD_BLANK)
        return load_be32(at) == left;
    return magic == RECORD_MAGIC && size >= PLACE_END && load_be64(at + RECORD_PHYSICAL_AT) == offset;
}

/* True if something seems to begin right at `offset`, or it is the end of the log. */
static bool follows_well(struct log_walk *walk, uint64_t offset)
{
    const uint64_t left = file_end(walk, offset) - offset;
    uint64_t available;
    if (offset >= walk->end || left < RECORD_BLANK_SIZE)
        return offset == walk->end;
    const uint8_t *at = log_window_at(&walk->window, offset, left < PLACE_END ? left : PLACE_END, &available);
    return at && (seems(at, available, offset, left) || load_be64(at) == 0);
}

static enum log_event hand_out_gap(struct log_walk *walk, uint64_t end)
{
    int error;
    walk->in_gap = false;
    walk->gap.end = end < walk->end ? end : walk->end;
    if (walk->gap.shaped) /* the search has moved the window that the view points into */
        look(walk, walk->gap.offset, &walk->view, &error);
    walk->offset = walk->gap.end;
    return LOG_GAP;
}

/* Continues the search for the end of the gap. True once it has been found, in `search`. */
static bool find_end(struct log_walk *walk, uint64_t stop)
{
    const uint64_t last = file_end(walk, walk->gap.offset);
    while (walk->search < last && walk->search < walk->end) {
        if (walk->search >= stop)
            return false;
        const uint64_t left = last - walk->search;
        uint64_t available;
        const uint8_t *at = log_window_at(&walk->window, walk->search, left < PLACE_END ? left : PLACE_END, &available);
        if (!at) {
            walk->search = walk->window.bad - walk->window.bad % PAGE + PAGE;
            continue;
        }
        /* The last bytes can only be judged with the bytes behind them, unless they are the last of a file. */
        const uint64_t judged = available < left ? available - (PLACE_END - 1) : available;
        for (uint64_t i = 0; i < judged; i++)
            if (seems(at + i, available - i, walk->search + i, left - i)) {
                walk->search += i;
                return true;
            }
        walk->search += judged;
    }
    walk->search = last;
    return true;
}

/* Neither a record nor a marker is at offset: begins a gap, or returns it at once if its end is known. */
static bool begin_gap(struct log_walk *walk, enum record_fault fault, int error)
{
    const bool shaped = !error && (fault == RECORD_BAD_BODY_CRC || fault == RECORD_BAD_CRC);
    walk->gap = (struct log_gap){.offset = walk->offset, .fault = fault, .error = error, .shaped = shaped};
    walk->in_gap = true;
    walk->search = error == ENOENT ? file_end(walk, walk->offset) : walk->offset + 1;
    if (fault == RECORD_END && walk->zeros_to > walk->search + SIZE_BYTES)
        walk->search = walk->zeros_to - SIZE_BYTES;
    /* Where the next thing begins according to the size; cheaper than a search, and right if the size is. */
    const uint64_t end = walk->offset + walk->view.total_size;
    if (shaped && follows_well(walk, end)) {
        walk->search = end;
        return true;
    }
    return false;
}

/* At zeros: true if nothing else follows. */
static bool only_zeros(struct log_walk *walk)
{
    if (walk->zeros_to <= walk->offset)
        walk->zeros_to = log_window_nonzero(&walk->window, walk->offset, walk->end);
    return walk->zeros_to >= walk->end;
}

enum log_event log_walk_next(struct log_walk *walk, uint64_t stop)
{
    while (walk->offset < walk->end) {
        if (walk->in_gap) {
            if (!find_end(walk, stop))
                return LOG_PAUSE;
            return hand_out_gap(walk, walk->search);
        }
        if (walk->offset >= stop)
            return LOG_PAUSE;
        int error;
        const enum record_fault fault = look(walk, walk->offset, &walk->view, &error);
        if (error == ENOMEM)
            return LOG_FAILED;
        if (!error && fault == RECORD_GOOD) {
            walk->at = walk->offset;
            walk->offset += walk->view.total_size;
            walk->good_end = walk->offset;
            return LOG_RECORD;
        }
        if (!error && fault == RECORD_IS_BLANK) {
            walk->offset += walk->view.total_size;
            walk->good_end = walk->offset;
            walk->blanks++;
            continue;
        }
        if (!error && fault == RECORD_END && only_zeros(walk))
            return LOG_END;
        if (begin_gap(walk, fault, error))
            return hand_out_gap(walk, walk->search);
    }
    return LOG_END;
}

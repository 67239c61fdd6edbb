#include "check/queue_check.h"
#include "base/file_read.h"
#include "format/consume_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOWS_BYTES (32u << 20) /* of all windows */
#define WINDOW_UNITS_MIN 51u      /* 1 KiB */
#define WINDOW_UNITS_MAX 3276u    /* 64 KiB */
#define LOST_MAX (1u << 20)       /* a queue offset that jumps further than this and than there was room for is wrong */
#define REST_UNITS 1024u

int queue_check_open(struct queue_check *check, const char *store, uint32_t file_units, uint32_t queues)
{
    *check = (struct queue_check){.store = store, .file_units = file_units};
    const uint32_t share = WINDOWS_BYTES / CONSUME_QUEUE_UNIT / (queues ? queues : 1);
    check->window_units = share < WINDOW_UNITS_MIN ? WINDOW_UNITS_MIN : share > WINDOW_UNITS_MAX ? WINDOW_UNITS_MAX : share;
    check->window_count = WINDOWS_BYTES / CONSUME_QUEUE_UNIT / check->window_units;
    check->windows = calloc(check->window_count, sizeof *check->windows);
    if (!check->windows || queue_table_open(&check->table) != 0) {
        free(check->windows);
        *check = (struct queue_check){0};
        return ENOMEM;
    }
    return 0;
}

void queue_check_close(struct queue_check *check)
{
    for (uint32_t i = 0; i < check->window_count; i++)
        free(check->windows[i].data);
    free(check->windows);
    free(check->queues);
    queue_table_close(&check->table);
}

static int open_file(const struct queue_check *check, const struct queue_name *name, uint64_t unit)
{
    char folder[STORE_FOLDER_ROOM], path[STORE_FILE_ROOM];
    consume_queue_folder(folder, check->store, name->topic, name->topic_size, name->queue_id);
    consume_queue_path(path, folder, unit - unit % check->file_units);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Reads units of one file into `to`. What is missing, or cannot be read, is zero. */
static void read_units(struct queue_check *check, int descriptor, uint64_t unit, uint32_t count, uint8_t *to)
{
    const size_t size = (size_t)count * CONSUME_QUEUE_UNIT;
    int error;
    const size_t done = descriptor < 0 ? 0 : file_read(descriptor, to, size, unit % check->file_units * CONSUME_QUEUE_UNIT, &error);
    memset(to + done, 0, size - done);
    check->read += done;
}

/* The unit's bytes, through the queue's window. NULL: no memory. */
static const uint8_t *unit_at(struct queue_check *check, uint32_t queue, uint64_t unit)
{
    struct unit_window *window = &check->windows[queue % check->window_count];
    if (window->queue != queue || unit < window->first || unit >= window->end) {
        if (!window->data && !(window->data = malloc((size_t)check->window_units * CONSUME_QUEUE_UNIT)))
            return NULL;
        const uint64_t left = check->file_units - unit % check->file_units;
        const uint32_t count = left < check->window_units ? (uint32_t)left : check->window_units;
        const int descriptor = open_file(check, &check->table.names[queue], unit);
        read_units(check, descriptor, unit, count, window->data);
        if (descriptor >= 0)
            close(descriptor);
        window->queue = queue;
        window->first = unit;
        window->end = unit + count;
    }
    return window->data + (unit - window->first) * CONSUME_QUEUE_UNIT;
}

static void close_open(struct queue_check *check, struct checked_queue *queue)
{
    if (queue->open.kind != FINDING_NONE)
        findings_add(check->findings, &queue->open);
    queue->open.kind = FINDING_NONE;
}

/* A fault of one unit or message. If it is the same as the one before, the two become one finding. */
static void note(struct queue_check *check, uint32_t number, struct finding finding)
{
    struct checked_queue *queue = &check->queues[number];
    struct finding *open = &queue->open;
    finding.queue = number;
    if (open->kind == finding.kind && open->detail == finding.detail && open->first + open->count == finding.first) {
        open->count += finding.count;
        return;
    }
    close_open(check, queue);
    *open = finding;
}

static bool is_blank(const struct queue_unit *unit)
{
    return unit->size == CONSUME_QUEUE_BLANK_SIZE && unit->physical_offset == 0;
}

/* It lies before `offset`, whatever it says. */
static bool ends_before(const struct queue_unit *unit, uint64_t offset)
{
    return unit->physical_offset < offset && unit->size <= offset - unit->physical_offset;
}

static bool is_damaged(const struct queue_check *check, const struct queue_unit *unit)
{
    return !is_blank(unit) && unit->size > 0 && spans_touch(check->gaps, unit->physical_offset, unit->physical_offset + 1);
}

/* The record at `at` has `unit`, and should have `expected`. */
static void compare(struct queue_check *check, uint32_t number, uint64_t queue_offset, const struct queue_unit *unit,
                    const struct queue_unit *expected)
{
    struct finding finding = {.kind = FINDING_UNIT_WRONG, .offset = expected->physical_offset, .first = queue_offset, .count = 1};
    if (unit->size == 0) {
        finding.kind = FINDING_UNIT_MISSING;
    } else if (unit->physical_offset != expected->physical_offset) {
        finding.detail = UNIT_PLACE;
        finding.expected = expected->physical_offset;
        finding.found = unit->physical_offset;
    } else if (unit->size != expected->size) {
        finding.detail = UNIT_SIZE;
        finding.expected = expected->size;
        finding.found = unit->size;
    } else if (unit->tags_code != expected->tags_code) {
        finding.detail = UNIT_TAGS;
        finding.expected = (uint64_t)expected->tags_code;
        finding.found = (uint64_t)unit->tags_code;
    } else {
        return;
    }
    note(check, number, finding);
}

/* Messages [next, end) of a queue have no good record, and the record of `end` is at `at`. Returns 0 or ENOMEM. */
static int note_absent(struct queue_check *check, uint32_t number, uint64_t end, uint64_t at)
{
    const struct checked_queue queue = check->queues[number];
    const bool damaged = spans_touch(check->gaps, queue.physical, at);
    for (uint64_t n = queue.next; n < end; n++) {
        const uint8_t *data = unit_at(check, number, n);
        if (!data)
            return ENOMEM;
        const struct queue_unit unit = queue_unit_load(data);
        struct finding finding = {.kind = FINDING_QUEUE_GAP, .offset = at, .first = n, .count = 1};
        if (damaged || is_damaged(check, &unit)) {
            finding.kind = FINDING_LOST;
            finding.found = unit.size > 0 && !is_blank(&unit) ? unit.physical_offset : 0;
            finding.size = at - queue.physical;
        }
        note(check, number, finding);
    }
    return 0;
}

static bool make_room(struct queue_check *check, uint32_t queues)
{
    if (queues <= check->room)
        return true;
    struct checked_queue *larger = realloc(check->queues, 2 * (size_t)queues * sizeof *larger);
    if (!larger)
        return false;
    memset(larger + check->room, 0, (2 * (size_t)queues - check->room) * sizeof *larger);
    check->queues = larger;
    check->room = 2 * queues;
    return true;
}

/* The queue offset for which a record counts: its own, unless that is impossible. -1: none, and it has been reported. */
static int64_t place_of(struct queue_check *check, uint32_t number, const struct record_view *view, int *error)
{
    const struct checked_queue queue = check->queues[number];
    const uint64_t said = view->queue_offset, due = queue.next;
    if (!queue.seen || said == due)
        return (int64_t)said;
    const uint8_t *data = unit_at(check, number, due);
    if (!data) {
        *error = ENOMEM;
        return -1;
    }
    const bool due_here = queue_unit_load(data).physical_offset == view->physical_offset && queue_unit_load(data).size > 0;
    const uint64_t room = (view->physical_offset - queue.physical) / RECORD_FIXED;
    if (!due_here && said > due && said - due <= (room > LOST_MAX ? room : LOST_MAX)) {
        *error = note_absent(check, number, said, view->physical_offset);
        return *error ? -1 : (int64_t)said;
    }
    note(check, number, (struct finding){.kind = FINDING_QUEUE_OFFSET, .offset = view->physical_offset, .first = due, .count = 1,
                                         .expected = due, .found = said});
    return due_here ? (int64_t)due : -1;
}

int queue_check_record(struct queue_check *check, const struct record_view *view, int64_t code)
{
    const uint32_t number = queue_table_number(&check->table, view->topic.data, view->topic.size, view->queue_id);
    if (number == QUEUE_NONE || !make_room(check, number + 1))
        return ENOMEM;
    int error = 0;
    const int64_t place = place_of(check, number, view, &error);
    if (place < 0)
        return error;
    struct checked_queue *queue = &check->queues[number];
    if (!queue->seen)
        queue->first = (uint64_t)place;
    queue->seen = true;
    queue->next = (uint64_t)place + 1;
    queue->physical = view->physical_offset;
    if (view->physical_offset >= check->indexed)
        return 0;
    const uint8_t *data = unit_at(check, number, (uint64_t)place);
    if (!data)
        return ENOMEM;
    const struct queue_unit unit = queue_unit_load(data);
    const struct queue_unit expected = {view->physical_offset, view->total_size, code};
    if (unit.physical_offset != expected.physical_offset || unit.size != expected.size || unit.tags_code != expected.tags_code)
        compare(check, number, (uint64_t)place, &unit, &expected);
    return 0;
}

/* One unit without a record in the log. */
static void judge_rest(struct queue_check *check, uint32_t number, uint64_t queue_offset, const uint8_t *data)
{
    static const uint8_t zero[CONSUME_QUEUE_UNIT];
    struct checked_queue *queue = &check->queues[number];
    const struct queue_unit unit = queue_unit_load(data);
    const bool damaged = is_damaged(check, &unit);
    const bool before = queue->seen ? queue_offset < queue->first : !queue->ended;
    struct finding finding = {.kind = FINDING_UNIT_EXTRA, .first = queue_offset, .count = 1, .found = unit.physical_offset};
    if (unit.size == 0) {
        if (!queue->seen)
            queue->ended = true;
        if (memcmp(data, zero, sizeof zero) == 0 || !check->settled) {
            if (!before || !queue->seen)
                return;
            finding.kind = FINDING_UNIT_MISSING;
            finding.detail = UNIT_BEFORE;
        }
    } else if (before && (is_blank(&unit) || ends_before(&unit, check->begin))) {
        return;
    } else if (damaged && (check->settled || unit.physical_offset < check->certain)) {
        finding.kind = FINDING_LOST;
    } else if (!check->settled && (damaged || unit.physical_offset >= check->indexed)) {
        return;
    }
    note(check, number, finding);
}

/* Where the next byte is that may not be zero; `end` if there is none. */
static uint64_t next_data(int descriptor, uint64_t at, uint64_t end)
{
    const off_t found = lseek(descriptor, (off_t)at, SEEK_DATA);
    return found < 0 || (uint64_t)found >= end ? end : (uint64_t)found;
}

int queue_check_rest(struct queue_check *check, const struct queue_name *name, uint64_t first, uint32_t count)
{
    const uint32_t number = queue_table_number(&check->table, name->topic, name->topic_size, name->queue_id);
    if (number == QUEUE_NONE || !make_room(check, number + 1))
        return ENOMEM;
    const int descriptor = open_file(check, name, first);
    if (descriptor < 0)
        return 0; /* retention removed it, or it has been reported missing */
    const struct checked_queue *queue = &check->queues[number];
    const uint64_t end = first + count;
    uint8_t units[REST_UNITS * CONSUME_QUEUE_UNIT];
    for (uint64_t n = first; n < end;) {
        if (queue->seen && n >= queue->first && n < queue->next) {
            n = queue->next;
            continue;
        }
        /* Behind the end a file is mostly a hole. */
        if (queue->seen ? n >= queue->next : queue->ended) {
            const uint64_t base = n - n % check->file_units;
            const uint64_t data_at = next_data(descriptor, (n - base) * CONSUME_QUEUE_UNIT, (end - base) * CONSUME_QUEUE_UNIT);
            n = base + data_at / CONSUME_QUEUE_UNIT > n ? base + data_at / CONSUME_QUEUE_UNIT : n;
            if (n >= end)
                break;
        }
        uint64_t most = end - n < REST_UNITS ? end - n : REST_UNITS;
        if (queue->seen && n < queue->first && queue->first - n < most)
            most = queue->first - n;
        read_units(check, descriptor, n, (uint32_t)most, units);
        for (uint64_t i = 0; i < most; i++)
            judge_rest(check, number, n + i, units + i * CONSUME_QUEUE_UNIT);
        n += most;
    }
    close(descriptor);
    return 0;
}

void queue_check_end(struct queue_check *check)
{
    for (uint32_t i = 0; i < check->table.count && i < check->room; i++)
        close_open(check, &check->queues[i]);
}

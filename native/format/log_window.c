#include "format/log_window.h"
#include "format/log_map.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Fits a second-level cache, so that what is checked right after it was read comes from there. */
#define WINDOW_FIRST (512u << 10)

int log_window_open(struct log_window *window, const char *store, uint64_t file_size)
{
    assert(file_size > 0);
    *window = (struct log_window){.file_size = file_size, .descriptor = -1, .capacity = WINDOW_FIRST};
    log_folder(window->folder, store);
    window->data = malloc(window->capacity);
    return window->data ? 0 : ENOMEM;
}

static void close_file(struct log_window *window)
{
    if (window->descriptor >= 0)
        close(window->descriptor);
    window->descriptor = -1;
    window->from = window->to = 0;
}

void log_window_close(struct log_window *window)
{
    close_file(window);
    free(window->data);
    window->data = NULL;
}

/* The file that holds offset, open. Returns 0 or an errno. */
static int open_file(struct log_window *window, uint64_t offset)
{
    const uint64_t start = offset - offset % window->file_size;
    if (window->descriptor >= 0 && window->file_start == start)
        return 0;
    close_file(window);
    const int descriptor = log_file_open(window->folder, start, O_RDONLY);
    if (descriptor < 0)
        return errno;
    /* Read once, in order: a failure only costs speed, and others' space in the page cache. */
    posix_fadvise(descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
    posix_fadvise(descriptor, 0, 0, POSIX_FADV_NOREUSE);
    window->descriptor = descriptor;
    window->file_start = start;
    return 0;
}

static bool make_room(struct log_window *window, uint64_t need)
{
    if (need <= window->capacity)
        return true;
    uint64_t capacity = window->capacity;
    while (capacity < need)
        capacity *= 2;
    uint8_t *data = realloc(window->data, capacity);
    if (!data)
        return false;
    window->data = data;
    window->capacity = capacity;
    return true;
}

/* Reads more behind `to`, as far as there is room. Returns 0 or an errno, ENODATA at the end of the file. */
static int read_on(struct log_window *window)
{
    const uint64_t held = window->to - window->from;
    const uint64_t file_left = window->file_start + window->file_size - window->to;
    const uint64_t room = window->capacity - held;
    const size_t size = room < file_left ? room : file_left;
    ssize_t got;
    do
        got = pread(window->descriptor, window->data + held, size, (off_t)(window->to - window->file_start));
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return got < 0 ? errno : ENODATA;
    window->to += (uint64_t)got;
    window->read += (uint64_t)got;
    return 0;
}

const uint8_t *log_window_at(struct log_window *window, uint64_t offset, uint64_t need, uint64_t *available)
{
    assert(need > 0 && need <= window->file_size - offset % window->file_size);
    if (offset < window->from || offset > window->to || offset + need > window->to) {
        int error = open_file(window, offset);
        const bool inside = offset >= window->from && offset <= window->to && window->to > window->from;
        if (!error && inside) {
            memmove(window->data, window->data + (offset - window->from), window->to - offset);
            window->from = offset;
        } else if (!error) {
            window->from = window->to = offset;
        }
        if (!error && !make_room(window, need))
            error = ENOMEM;
        while (!error && window->to < offset + need)
            error = read_on(window);
        if (error) {
            window->bad = window->descriptor >= 0 ? window->to : offset;
            errno = error;
            return NULL;
        }
    }
    *available = window->to - offset;
    return window->data + (offset - window->from);
}

static uint64_t first_nonzero(const uint8_t *data, uint64_t size)
{
    uint64_t at = 0;
    for (; at + 8 <= size; at += 8) {
        uint64_t word;
        memcpy(&word, data + at, 8);
        if (word)
            break;
    }
    while (at < size && data[at] == 0)
        at++;
    return at;
}

/* As log_window_nonzero, in the one file that begins at start. */
static uint64_t nonzero_in_file(struct log_window *window, uint64_t offset, uint64_t end)
{
    while (offset < end) {
        if (open_file(window, offset) != 0)
            return end;
        /* Space that is only reserved reads as a hole: skipped without reading. */
        const off_t data_at = lseek(window->descriptor, (off_t)(offset - window->file_start), SEEK_DATA);
        if (data_at < 0)
            return end;
        offset = window->file_start + (uint64_t)data_at;
        if (offset >= end)
            return end;
        window->from = window->to = offset;
        if (read_on(window) != 0)
            return end;
        const uint64_t held = window->to - offset;
        const uint64_t size = held < end - offset ? held : end - offset;
        const uint64_t at = first_nonzero(window->data, size);
        offset += at;
        if (at < size)
            return offset;
    }
    return end;
}

uint64_t log_window_nonzero(struct log_window *window, uint64_t offset, uint64_t end)
{
    while (offset < end) {
        const uint64_t file_end = offset - offset % window->file_size + window->file_size;
        const uint64_t stop = file_end < end ? file_end : end;
        const uint64_t found = nonzero_in_file(window, offset, stop);
        if (found < stop) {
            close_file(window);
            return found;
        }
        offset = stop;
    }
    close_file(window);
    return end;
}

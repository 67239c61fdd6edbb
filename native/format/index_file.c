/* An entry is added in two stores, and a crash may come between any two steps:
 *
 *   entry written          nobody finds it: no slot and no chain leads there
 *   slot = its number      found; the header does not count it yet
 *   header published       counted; reput's commit may still be older
 *
 * index_file_roll_back undoes everything behind the commit: from the newest entry down, the slot goes back to the previous
 * entry if it holds this very one, then the entry is zeroed. If that is interrupted in turn, there is less to do the next
 * time. */
#include "format/index_file.h"
#include "base/file_reserve.h"
#include "base/crash_point.h"
#include "base/file_read.h"
#include "format/properties.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

uint32_t index_key_hash(int32_t prefix_hash, const uint8_t *key, uint32_t size)
{
    const int32_t hash = java_hash(prefix_hash, key, size);
    return hash == INT32_MIN ? 0 : (uint32_t)(hash < 0 ? -hash : hash);
}

static uint8_t *slot_at(const struct index_file *file, uint32_t hash)
{
    return file->data + INDEX_HEADER + (uint64_t)(hash % file->slots) * INDEX_SLOT;
}

static uint64_t entry_place(const struct index_file *file, uint32_t number)
{
    return INDEX_HEADER + (uint64_t)file->slots * INDEX_SLOT + (uint64_t)number * INDEX_ENTRY;
}

struct index_header index_header_load(const uint8_t *at)
{
    return (struct index_header){load_be64(at),      load_be64(at + 8),  load_be64(at + 16),
                                 load_be64(at + 24), load_be32(at + 32), load_be32(at + 36)};
}

static void store_header(uint8_t *at, const struct index_header *header)
{
    store_be64(at, header->begin_ms);
    store_be64(at + 8, header->end_ms);
    store_be64(at + 16, header->begin_offset);
    store_be64(at + 24, header->end_offset);
    store_be32(at + 32, header->slots_used);
    store_be32(at + 36, header->next_entry);
}

/* Gives a file its length, which may be 0 after a crash, and reserves the part that is written at random places. */
static int prepare(int descriptor, uint64_t size, uint32_t slots, bool writable, bool create)
{
    struct stat state;
    if (fstat(descriptor, &state) != 0)
        return errno;
    if (create && state.st_size == 0 && ftruncate(descriptor, (off_t)size) == 0)
        state.st_size = (off_t)size;
    if ((uint64_t)state.st_size != size)
        return EIO;
    return writable ? file_reserve(descriptor, 0, INDEX_HEADER + (uint64_t)slots * INDEX_SLOT) : 0;
}

void index_file_path(char *path, const char *store, uint64_t name)
{
    const int size = snprintf(path, STORE_FILE_ROOM, "%s/index/%0*" PRIu64, store, (int)INDEX_NAME_DIGITS, name);
    assert(size > 0 && (uint32_t)size < STORE_FILE_ROOM);
}

int index_file_open(struct index_file *file, const char *path, uint32_t slots, uint32_t entries, bool writable, bool create)
{
    assert(slots > 0 && entries > 1 && (writable || !create));
    *file = (struct index_file){.slots = slots, .entries = entries, .descriptor = -1};
    const uint64_t size = index_file_size(slots, entries);
    const int descriptor = open(path, (writable ? O_RDWR : O_RDONLY) | (create ? O_CREAT : 0) | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return errno;
    int error = prepare(descriptor, size, slots, writable, create);
    void *data = MAP_FAILED;
    if (!error) {
        data = mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, descriptor, 0);
        error = data == MAP_FAILED ? errno : 0;
    }
    if (error) {
        close(descriptor);
        return error;
    }
    madvise(data, size, MADV_RANDOM); /* a failure only costs speed */
    file->data = data;
    file->header = index_header_load(file->data);
    if (file->header.next_entry == 0)
        file->header.next_entry = 1; /* a fresh file: the header was not published yet */
    if (file->header.next_entry > entries)
        file->header.next_entry = entries; /* another program's file; full, whatever it holds */
    if (writable) {
        file->descriptor = descriptor;
        file->reserved = (uint64_t)file->header.next_entry * INDEX_ENTRY; /* those before were written */
    } else {
        close(descriptor);
    }
    return 0;
}

void index_file_close(struct index_file *file)
{
    if (file->data) {
        munmap(file->data, index_file_size(file->slots, file->entries));
        if (file->descriptor >= 0)
            close(file->descriptor);
    }
    *file = (struct index_file){.descriptor = -1};
}

int index_file_reserve(struct index_file *file, uint32_t count)
{
    if (count > file->entries - file->header.next_entry)
        return ENFILE;
    const uint64_t need = ((uint64_t)file->header.next_entry + count) * INDEX_ENTRY;
    if (need <= file->reserved)
        return 0;
    const uint64_t most = (uint64_t)file->entries * INDEX_ENTRY;
    uint64_t end = (need + INDEX_RESERVE - 1) / INDEX_RESERVE * INDEX_RESERVE;
    if (end > most)
        end = most;
    const uint64_t base = entry_place(file, 0);
    int error = file_reserve(file->descriptor, base + file->reserved, base + end);
    if (error == ENOSPC && end > need) { /* the last free bytes of a disk may be enough */
        end = need;
        error = file_reserve(file->descriptor, base + file->reserved, base + end);
    }
    if (!error)
        file->reserved = end;
    return error;
}

int index_file_put(struct index_file *file, uint32_t hash, uint64_t physical_offset, uint64_t store_ms)
{
    struct index_header *header = &file->header;
    const uint32_t number = header->next_entry;
    if (number >= file->entries || ((uint64_t)number + 1) * INDEX_ENTRY > file->reserved) {
        const int error = index_file_reserve(file, 1);
        if (error)
            return error;
    }
    if (number == 1) {
        header->begin_ms = store_ms;
        header->begin_offset = physical_offset;
    }
    uint64_t seconds = header->begin_ms && store_ms > header->begin_ms ? (store_ms - header->begin_ms) / 1000 : 0;
    if (seconds > INT32_MAX)
        seconds = INT32_MAX;

    uint8_t *slot = slot_at(file, hash);
    uint32_t previous = load_be32(slot);
    if (previous >= number)
        previous = 0; /* names an entry that does not exist: half of what a crash undid */
    uint8_t *entry = file->data + entry_place(file, number);
    store_be32(entry, hash);
    store_be64(entry + 4, physical_offset);
    store_be32(entry + 12, (uint32_t)seconds);
    store_be32(entry + 16, previous);
    CRASH_POINT("index_file_entry_put");
    /* release: the entry before the slot that leads to it. Pairs with the acquire in index_file_find [X1]. Slots begin at
     * byte 40 and take 4, so they are aligned. */
    atomic_store_explicit((_Atomic uint32_t *)(void *)slot, __builtin_bswap32(number), memory_order_release);
    CRASH_POINT("index_file_slot_put");

    header->slots_used += previous == 0;
    header->next_entry = number + 1;
    header->end_ms = store_ms;
    header->end_offset = physical_offset;
    return 0;
}

void index_file_prefetch(const struct index_file *file, uint32_t hash)
{
    if (file->data)
        __builtin_prefetch(slot_at(file, hash), 1);
}

void index_file_publish(struct index_file *file) { store_header(file->data, &file->header); }

/* The number after the last entry from `from` on that is not all zero, or `from`.
 *
 * All zero is also a good entry: key hash 0 at physical offset 0. Only the first record of the log has such entries, so at most
 * INDEX_KEYS_MAX of them follow each other, and a longer run of zeros is the end. Read, not mapped: a look at a hole through a
 * mapping may need a page, for which a full disk has no room. Returns 0 or an errno. */
static int written_end(const struct index_file *file, uint32_t from, uint32_t *end)
{
    enum { CHUNK = 1024 };
    static const uint8_t zero[INDEX_ENTRY];
    uint8_t buffer[CHUNK * INDEX_ENTRY];
    *end = from;
    for (uint32_t at = from; at < file->entries && at - *end <= INDEX_KEYS_MAX; at += CHUNK) {
        const uint32_t n = file->entries - at < CHUNK ? file->entries - at : CHUNK;
        int error;
        if (file_read(file->descriptor, buffer, n * INDEX_ENTRY, entry_place(file, at), &error) < n * INDEX_ENTRY)
            return error ? error : EIO;
        for (uint32_t i = 0; i < n; i++)
            if (memcmp(buffer + (size_t)i * INDEX_ENTRY, zero, INDEX_ENTRY) != 0)
                *end = at + i + 1;
    }
    return 0;
}

int index_file_roll_back(struct index_file *file, const struct index_header *to)
{
    assert(to->next_entry >= 1 && to->next_entry <= file->entries);
    uint32_t end;
    const int error = written_end(file, to->next_entry, &end);
    if (error)
        return error;
    while (end > to->next_entry) {
        uint8_t *entry = file->data + entry_place(file, --end);
        uint8_t *slot = slot_at(file, load_be32(entry));
        if (load_be32(slot) == end) {
            const uint32_t previous = load_be32(entry + 16);
            store_be32(slot, previous < end ? previous : 0);
        }
        /* The slot first: if the entry were zeroed first, it would no longer say which slot. The stores of a killed process
         * count up to where it was, so the compiler's order is enough. */
        atomic_signal_fence(memory_order_release);
        CRASH_POINT("index_file_slot_reset");
        memset(entry, 0, INDEX_ENTRY);
        CRASH_POINT("index_file_entry_zeroed");
        atomic_signal_fence(memory_order_release);
    }
    file->header = *to;
    file->reserved = (uint64_t)to->next_entry * INDEX_ENTRY;
    index_file_publish(file);
    return 0;
}

uint32_t index_file_find(const struct index_file *file, uint32_t hash, uint64_t from_ms, uint64_t to_ms, uint64_t *offsets,
                         uint32_t most)
{
    const struct index_header header = index_header_load(file->data);
    uint32_t found = 0;
    /* acquire: the entry after the slot [X1] */
    uint32_t number = __builtin_bswap32(
        atomic_load_explicit((_Atomic uint32_t *)(void *)slot_at(file, hash), memory_order_acquire));
    if (number >= file->entries)
        return 0;
    while (number > 0 && found < most) {
        const uint8_t *entry = file->data + entry_place(file, number);
        const uint64_t time = header.begin_ms + (uint64_t)load_be32(entry + 12) * 1000;
        /* The header of a file that is being filled for the first time is published after its entries. */
        const bool timed = header.begin_ms != 0;
        if (timed && time + 999 < from_ms)
            break; /* those before are older still */
        if (load_be32(entry) == hash && !(timed && time > to_ms))
            offsets[found++] = load_be64(entry + 4);
        const uint32_t previous = load_be32(entry + 16);
        if (previous >= number)
            break; /* numbers only fall along a chain; this one is being rolled back */
        number = previous;
    }
    return found;
}

#include "check/index_check.h"
#include "base/file_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WINDOW_ENTRIES 13107u /* 256 KiB */
#define AHEAD 64u             /* how far to look for a key behind an entry that is not its own */
#define PREFETCH 16u
#define CHUNK (256u << 10)

struct entry {
    uint64_t offset;
    uint32_t hash, seconds, previous;
};

int index_check_open(struct index_check *check, const char *store, uint32_t slots, uint32_t entries, const uint64_t *names,
                     uint32_t count)
{
    *check = (struct index_check){.store = store, .slots = slots, .entries = entries, .names = names, .count = count,
                                  .descriptor = -1};
    if (count == 0)
        return 0;
    check->heads = malloc((size_t)slots * sizeof *check->heads);
    check->data = malloc(WINDOW_ENTRIES * INDEX_ENTRY > CHUNK ? WINDOW_ENTRIES * INDEX_ENTRY : CHUNK);
    if (check->heads && check->data)
        return 0;
    index_check_close(check);
    return ENOMEM;
}

void index_check_close(struct index_check *check)
{
    if (check->descriptor >= 0)
        close(check->descriptor);
    check->descriptor = -1;
    free(check->heads);
    free(check->data);
    check->heads = NULL;
    check->data = NULL;
}

static void close_open(struct index_check *check, struct finding *open)
{
    if (open->kind != FINDING_NONE)
        findings_add(check->findings, open);
    open->kind = FINDING_NONE;
}

/* Consecutive entries with the same fault become one finding. */
static void note(struct index_check *check, struct finding *open, struct finding finding)
{
    finding.queue = check->file;
    finding.count = 1;
    if (open->kind == finding.kind && open->first + open->count == finding.first) {
        open->count++;
        return;
    }
    close_open(check, open);
    *open = finding;
}

static void note_header(struct index_check *check, enum index_field field, uint64_t expected, uint64_t found)
{
    const struct finding finding = {.kind = FINDING_INDEX_HEADER, .detail = field, .queue = check->file, .expected = expected,
                                    .found = found};
    if (expected != found)
        findings_add(check->findings, &finding);
}

/* Reads all of [at, at + size) into data. What lies beyond the end of the file, or cannot be read, is zero. */
static void read_all(struct index_check *check, uint64_t at, uint64_t size)
{
    int error;
    const size_t done = file_read(check->descriptor, check->data, size, at, &error);
    if (error) {
        const struct finding finding = {.kind = FINDING_INDEX_UNREADABLE, .detail = (uint32_t)error, .queue = check->file};
        findings_add(check->findings, &finding);
    }
    memset(check->data + done, 0, size - done);
    check->read += done;
}

static uint64_t entry_place(const struct index_check *check, uint32_t number)
{
    return INDEX_HEADER + (uint64_t)check->slots * INDEX_SLOT + (uint64_t)number * INDEX_ENTRY;
}

static struct entry entry_load(const struct index_check *check, uint32_t number)
{
    const uint8_t *at = check->data + (size_t)(number - check->from) * INDEX_ENTRY;
    return (struct entry){load_be64(at + 4), load_be32(at), load_be32(at + 12), load_be32(at + 16)};
}

static bool open_next(struct index_check *check)
{
    char path[STORE_FILE_ROOM];
    index_file_path(path, check->store, check->names[check->file]);
    check->descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (check->descriptor < 0)
        return false;
    posix_fadvise(check->descriptor, 0, 0, POSIX_FADV_NOREUSE);
    read_all(check, 0, INDEX_HEADER);
    check->header = index_header_load(check->data);
    check->lenient = check->has_header && check->file == check->count - 1;
    if (check->lenient)
        check->header = check->newest;
    if (check->header.next_entry > check->entries) {
        note_header(check, INDEX_NEXT_ENTRY, check->entries, check->header.next_entry);
        check->header.next_entry = check->entries;
    }
    check->at = check->from = check->to = 1;
    check->slots_used = 0;
    check->begin_ms = check->header.begin_ms;
    check->last_ms = 0;
    check->first_offset = check->last_offset = 0;
    memset(check->heads, 0, (size_t)check->slots * sizeof *check->heads);
    return true;
}

/* Follows the chains of the entries that are new in the window. An entry of zeros ends the file, whatever its header says:
 * except for the first, no key makes one. */
static void follow_chains(struct index_check *check, uint32_t from)
{
    static const uint8_t zero[INDEX_ENTRY];
    for (uint32_t n = from; n < check->to; n++) {
        if (n + PREFETCH < check->to)
            __builtin_prefetch(&check->heads[entry_load(check, n + PREFETCH).hash % check->slots], 1);
        const struct entry entry = entry_load(check, n);
        if (n > 1 && memcmp(check->data + (size_t)(n - check->from) * INDEX_ENTRY, zero, INDEX_ENTRY) == 0) {
            note_header(check, INDEX_NEXT_ENTRY, n, check->header.next_entry);
            check->header.next_entry = check->to = n;
            return;
        }
        uint32_t *head = &check->heads[entry.hash % check->slots];
        if (entry.previous != *head)
            note(check, &check->chain, (struct finding){.kind = FINDING_ENTRY_CHAIN, .first = n, .expected = *head,
                                                        .found = entry.previous});
        check->slots_used += *head == 0;
        *head = n;
        if (n == 1)
            check->first_offset = entry.offset;
        check->last_offset = entry.offset;
    }
}

/* Loads entries [at, ...) into the window, AHEAD of them if the file has so many. */
static void fill(struct index_check *check)
{
    const uint32_t known = check->to; /* chains were followed up to here */
    const uint32_t left = check->header.next_entry - check->at;
    check->from = check->at;
    check->to = check->from + (left < WINDOW_ENTRIES ? left : WINDOW_ENTRIES);
    read_all(check, entry_place(check, check->from), (uint64_t)(check->to - check->from) * INDEX_ENTRY);
    follow_chains(check, known > check->from ? known : check->from);
}

static void compare_slots(struct index_check *check)
{
    struct finding open = {0};
    const uint32_t per_chunk = CHUNK / INDEX_SLOT;
    for (uint32_t first = 0; first < check->slots; first += per_chunk) {
        const uint32_t n = check->slots - first < per_chunk ? check->slots - first : per_chunk;
        read_all(check, INDEX_HEADER + (uint64_t)first * INDEX_SLOT, (uint64_t)n * INDEX_SLOT);
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t found = load_be32(check->data + (size_t)i * INDEX_SLOT), expected = check->heads[first + i];
            if (found == expected || (check->lenient && found >= check->header.next_entry))
                continue;
            note(check, &open, (struct finding){.kind = FINDING_SLOT, .first = first + i, .expected = expected, .found = found});
        }
    }
    close_open(check, &open);
}

/* Entry 0, and what follows the last entry, must be zero. */
static void look_at_rest(struct index_check *check)
{
    uint64_t places[2][2] = {{entry_place(check, 0), entry_place(check, 1)},
                             {entry_place(check, check->header.next_entry), entry_place(check, check->entries)}};
    for (unsigned part = 0; part < (check->lenient ? 1 : 2); part++) {
        uint64_t at = places[part][0];
        const uint64_t end = places[part][1];
        while (at < end) {
            const off_t found = lseek(check->descriptor, (off_t)at, SEEK_DATA);
            if (found < 0 || (uint64_t)found >= end)
                break;
            at = (uint64_t)found;
            const uint64_t size = end - at < CHUNK ? end - at : CHUNK;
            read_all(check, at, size);
            for (uint64_t i = 0; i < size; i++)
                if (check->data[i]) {
                    const struct finding finding = {.kind = FINDING_INDEX_REST, .queue = check->file, .found = at + i};
                    findings_add(check->findings, &finding);
                    return;
                }
            at += size;
        }
    }
}

/* All entries of the file have been seen. */
static void finish_file(struct index_check *check)
{
    close_open(check, &check->chain);
    close_open(check, &check->wrong);
    close_open(check, &check->time);
    const struct index_header *header = &check->header;
    if (header->next_entry > 1) {
        note_header(check, INDEX_BEGIN_OFFSET, check->first_offset, header->begin_offset);
        note_header(check, INDEX_END_OFFSET, check->last_offset, header->end_offset);
        if (check->last_ms)
            note_header(check, INDEX_END_MS, check->last_ms, header->end_ms);
    }
    note_header(check, INDEX_SLOTS_USED, check->slots_used, header->slots_used);
    compare_slots(check);
    look_at_rest(check);
    check->end_ms_before = header->end_ms;
    close(check->descriptor);
    check->descriptor = -1;
    check->file++;
}

/* The current entry; false if there is none left. */
static bool current(struct index_check *check, struct entry *entry)
{
    while (check->file < check->count) {
        if (check->descriptor < 0 && !open_next(check)) {
            check->file++; /* retention removed it, or it has been reported missing */
            continue;
        }
        if (check->at >= check->to && check->at < check->header.next_entry)
            fill(check);
        if (check->at < check->to) {
            *entry = entry_load(check, check->at);
            return true;
        }
        finish_file(check);
    }
    return false;
}

/* An entry without a key in the log. */
static void pass_surplus(struct index_check *check, const struct entry *entry)
{
    const uint32_t number = check->at++;
    check->last_ms = 0;
    if (entry->offset < check->begin || entry->offset >= check->indexed || spans_touch(check->gaps, entry->offset, entry->offset + 1))
        return; /* its record is gone, or not settled, or damaged, which is reported for the record */
    /* After a crash RocketMQ adds the keys of the last record in the index once more. */
    for (uint32_t i = 0; entry->offset == check->record && i < check->hash_count; i++)
        if (check->hashes[i] == entry->hash)
            return;
    note(check, &check->wrong, (struct finding){.kind = FINDING_ENTRY_WRONG, .first = number, .found = entry->offset});
}

static uint32_t seconds_between(uint64_t begin_ms, uint64_t store_ms)
{
    const uint64_t seconds = begin_ms && store_ms > begin_ms ? (store_ms - begin_ms) / 1000 : 0;
    return seconds > INT32_MAX ? INT32_MAX : (uint32_t)seconds;
}

/* The current entry belongs to the key. */
static void match(struct index_check *check, const struct entry *entry, uint64_t store_ms)
{
    const uint32_t number = check->at++;
    uint32_t expected;
    if (number == 1) {
        note_header(check, INDEX_BEGIN_MS, store_ms, check->header.begin_ms);
        check->begin_ms = store_ms;
        /* RocketMQ counts from the end of the file before. */
        expected = entry->seconds == 0 ? 0 : seconds_between(check->end_ms_before, store_ms);
    } else {
        expected = seconds_between(check->begin_ms, store_ms);
    }
    if (entry->seconds != expected)
        note(check, &check->time, (struct finding){.kind = FINDING_ENTRY_TIME, .first = number, .expected = expected,
                                                   .found = entry->seconds});
    check->last_ms = store_ms;
    close_open(check, &check->missing);
}

/* The key's entry is a little further on, behind others that match nothing. */
static bool look_ahead(struct index_check *check, uint32_t hash, uint64_t physical_offset, struct entry *entry)
{
    if (check->to - check->at <= AHEAD && check->to < check->header.next_entry)
        fill(check);
    const uint32_t left = check->to - check->at;
    const uint32_t end = check->at + (left < AHEAD ? left : AHEAD);
    for (uint32_t n = check->at + 1; n < end; n++) {
        *entry = entry_load(check, n);
        if (entry->hash == hash && entry->offset == physical_offset) {
            while (check->at < n) {
                const struct entry wrong = entry_load(check, check->at);
                pass_surplus(check, &wrong);
            }
            return true;
        }
    }
    return false;
}

static void note_missing(struct index_check *check, uint64_t physical_offset)
{
    if (check->missing.kind == FINDING_NONE)
        check->missing = (struct finding){.kind = FINDING_KEY_MISSING, .offset = physical_offset};
    check->missing.count++;
    check->missing.size = physical_offset - check->missing.offset;
}

void index_check_key(struct index_check *check, uint32_t hash, uint64_t physical_offset, uint64_t store_ms)
{
    struct entry entry;
    bool found = false;
    while (!found && current(check, &entry)) {
        if (entry.offset == physical_offset && entry.hash == hash) {
            found = true;
        } else if (entry.offset < physical_offset) {
            pass_surplus(check, &entry);
        } else {
            found = look_ahead(check, hash, physical_offset, &entry);
            break;
        }
    }
    if (found)
        match(check, &entry, store_ms);
    else
        note_missing(check, physical_offset);
    if (check->record != physical_offset)
        check->hash_count = 0;
    check->record = physical_offset;
    if (check->hash_count < INDEX_LAST_KEYS)
        check->hashes[check->hash_count++] = hash;
}

bool index_check_rest(struct index_check *check)
{
    struct entry entry;
    for (uint32_t i = 0; i < WINDOW_ENTRIES; i++) {
        if (!current(check, &entry)) {
            close_open(check, &check->missing);
            return false;
        }
        pass_surplus(check, &entry);
    }
    return true;
}

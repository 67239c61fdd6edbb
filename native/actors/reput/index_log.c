/* See index_log.h for the order of stores and for what each crash leaves. */
#include "actors/reput/index_log.h"
#include "base/file_reserve.h"
#include "base/crash_point.h"
#include "base/crc32.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SLOT_AT(version) (64 + ((version) & 1) * 128)
#define SLOT_CRC_AT 72

static const char magic[8] = {'O', 'M', 'Q', 'R', 'E', 'P', 'U', 'T'};

static void pack(uint8_t *at, const struct index_commit *commit)
{
    store_be64(at, commit->version);
    store_be64(at + 8, commit->position);
    store_be64(at + 16, commit->indexed);
    store_be64(at + 24, commit->name);
    store_be64(at + 32, commit->header.begin_ms);
    store_be64(at + 40, commit->header.end_ms);
    store_be64(at + 48, commit->header.begin_offset);
    store_be64(at + 56, commit->header.end_offset);
    store_be32(at + 64, commit->header.slots_used);
    store_be32(at + 68, commit->header.next_entry);
    store_be32(at + SLOT_CRC_AT, crc32_update(0, at, SLOT_CRC_AT));
}

bool index_commit_load(const uint8_t *data, struct index_commit *commit)
{
    commit->version = 0;
    if (memcmp(data, magic, sizeof magic) != 0)
        return false;
    for (unsigned i = 0; i < 2; i++) {
        const uint8_t *at = data + SLOT_AT(i);
        const uint64_t version = load_be64(at);
        if (version <= commit->version || load_be32(at + SLOT_CRC_AT) != crc32_update(0, at, SLOT_CRC_AT))
            continue;
        *commit = (struct index_commit){
            version, load_be64(at + 8), load_be64(at + 16), load_be64(at + 24),
            {load_be64(at + 32), load_be64(at + 40), load_be64(at + 48), load_be64(at + 56), load_be32(at + 64),
             load_be32(at + 68)}};
    }
    return commit->version != 0;
}

static int make_folder(const char *store, const char *name)
{
    char path[STORE_FILE_ROOM];
    snprintf(path, sizeof path, "%s/%s", store, name);
    return mkdir(path, 0777) == 0 || errno == EEXIST ? 0 : errno;
}

static int open_commit_file(struct index_log *log)
{
    char path[STORE_FILE_ROOM];
    snprintf(path, sizeof path, "%s/orbitmq/reput", log->store);
    const int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return errno;
    int error = file_reserve(descriptor, 0, INDEX_COMMIT_SIZE);
    void *data = MAP_FAILED;
    if (!error) {
        data = mmap(NULL, INDEX_COMMIT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        error = data == MAP_FAILED ? errno : 0;
    }
    close(descriptor);
    if (!error)
        log->data = data;
    return error;
}

/* The largest name of an index file up to `most`, 0 if there is none. If `remove`, files above it are removed. */
static int newest(const char *store, uint64_t most, bool remove, uint64_t *name)
{
    char path[STORE_FILE_ROOM];
    snprintf(path, sizeof path, "%s/index", store);
    DIR *folder = opendir(path);
    if (!folder)
        return errno;
    *name = 0;
    int error = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char *end;
        const uint64_t number = strtoull(entry->d_name, &end, 10);
        if (end == entry->d_name || *end || strlen(entry->d_name) != INDEX_NAME_DIGITS)
            continue; /* not one of ours */
        if (number > most && remove) {
            index_file_path(path, store, number);
            if (unlink(path) != 0 && errno != ENOENT)
                error = errno;
        } else if (number <= most && number > *name) {
            *name = number;
        }
    }
    closedir(folder);
    return error;
}

static int open_newest(struct index_log *log, uint64_t name)
{
    char path[STORE_FILE_ROOM];
    index_file_path(path, log->store, name);
    return index_file_open(&log->file, path, log->slots, log->entries, true, true);
}

/* Rolls back to the commit. Its file may be gone, removed by retention or by hand: then the next key begins a new one. */
static int restore(struct index_log *log)
{
    uint64_t name;
    int error = newest(log->store, log->commit.name, true, &name);
    if (error || !log->commit.name || name != log->commit.name)
        return error;
    error = open_newest(log, name);
    if (error)
        return error;
    if (log->commit.header.next_entry < 1 || log->commit.header.next_entry > log->entries)
        return EBADMSG;
    return index_file_roll_back(&log->file, &log->commit.header);
}

/* No commit: another broker's store, or recovery has removed it. */
static int adopt(struct index_log *log, uint64_t position)
{
    uint64_t name;
    memset(log->data, 0, INDEX_COMMIT_SIZE); /* no slot of a damaged commit file may count later */
    int error = newest(log->store, UINT64_MAX, false, &name);
    log->commit = (struct index_commit){.position = position, .name = name};
    log->indexed = position;
    if (error || !name)
        return error;
    error = open_newest(log, name);
    if (error)
        return error;
    const struct index_header header = log->file.header;
    error = index_file_roll_back(&log->file, &header);
    if (header.next_entry > 1 && header.end_offset >= position)
        log->indexed = header.end_offset + 1; /* a record's keys are all in one file, so its last record is whole */
    return error;
}

int index_log_open(struct index_log *log, const char *store, uint32_t slots, uint32_t entries, uint64_t *position)
{
    memset(log, 0, sizeof *log);
    log->file.descriptor = -1;
    snprintf(log->store, sizeof log->store, "%s", store);
    log->slots = slots;
    log->entries = entries;
    int error = make_folder(store, "orbitmq");
    if (!error)
        error = make_folder(store, "index");
    if (!error)
        error = open_commit_file(log);
    if (error)
        return error;
    if (index_commit_load(log->data, &log->commit)) {
        if (*position > log->commit.position)
            *position = log->commit.position;
        log->indexed = log->commit.indexed > log->commit.position ? log->commit.indexed : log->commit.position;
        error = restore(log);
    } else {
        error = adopt(log, *position);
    }
    if (!error) {
        CRASH_POINT("index_log_restored");
        index_log_commit(log, *position);
        /* Last, so that a file without magic has no slots that count. */
        atomic_signal_fence(memory_order_release);
        memcpy(log->data, magic, sizeof magic);
    }
    return error;
}

void index_log_close(struct index_log *log)
{
    index_file_close(&log->file);
    if (log->data)
        munmap(log->data, INDEX_COMMIT_SIZE);
    log->data = NULL;
}

static void put(struct index_log *log, const struct index_pending *pending)
{
    const int error = index_file_put(&log->file, pending->hash, pending->physical_offset, pending->store_ms);
    assert(error == 0); /* index_log_reserve has made sure of it */
    (void)error;
}

static void drain(struct index_log *log)
{
    for (uint32_t i = 0; i < log->pending_count; i++)
        put(log, &log->pending[i]);
    log->pending_count = 0;
}

void index_log_add(struct index_log *log, uint32_t hash, uint64_t physical_offset, uint64_t store_ms)
{
    if (log->pending_count == INDEX_PENDING)
        drain(log);
    index_file_prefetch(&log->file, hash);
    log->pending[log->pending_count++] = (struct index_pending){physical_offset, store_ms, hash};
}

void index_log_commit(struct index_log *log, uint64_t position)
{
    drain(log);
    if (log->file.data) {
        if (log->file.header.next_entry != log->commit.header.next_entry)
            index_file_publish(&log->file);
        log->commit.header = log->file.header;
    }
    log->commit.version++;
    log->commit.position = position;
    log->commit.indexed = position > log->indexed ? position : log->indexed;
    uint8_t slot[SLOT_CRC_AT + 4];
    pack(slot, &log->commit);
    uint8_t *at = log->data + SLOT_AT(log->commit.version);
    /* Void while it changes. The compiler's order is enough: a killed process leaves a prefix of its stores. */
    store_be64(at, 0);
    CRASH_POINT("index_log_voided");
    atomic_signal_fence(memory_order_release);
    memcpy(at + 8, slot + 8, sizeof slot - 8);
    CRASH_POINT("index_log_filled");
    atomic_signal_fence(memory_order_release);
    memcpy(at, slot, 8);
    CRASH_POINT("index_log_committed");
    atomic_signal_fence(memory_order_release);
}

/* Local time as RocketMQ writes it, or the next number if that is taken or the clock was set back. */
static uint64_t next_name(uint64_t after)
{
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    const uint64_t date = (uint64_t)(local.tm_year + 1900) * 10000u + (uint64_t)(local.tm_mon + 1) * 100u + (uint64_t)local.tm_mday;
    const uint64_t time = (uint64_t)local.tm_hour * 10000u + (uint64_t)local.tm_min * 100u + (uint64_t)local.tm_sec;
    const uint64_t name = (date * 1000000u + time) * 1000u + (uint64_t)now.tv_nsec / 1000000u;
    return name > after ? name : after + 1;
}

/* A new file. The old one is committed as it is left: a rollback only ever touches the newest file that the commit knows. */
static int roll(struct index_log *log, uint64_t position)
{
    index_log_commit(log, position);
    uint64_t last;
    int error = newest(log->store, UINT64_MAX, false, &last);
    if (error)
        return error;
    const uint64_t name = next_name(last > log->commit.name ? last : log->commit.name);
    char path[STORE_FILE_ROOM];
    index_file_path(path, log->store, name);
    struct index_file file;
    error = index_file_open(&file, path, log->slots, log->entries, true, true);
    if (error) {
        unlink(path); /* without room for its slots it would be useless; tried again later */
        return error;
    }
    CRASH_POINT("index_log_file_made");
    index_file_close(&log->file);
    log->file = file;
    log->commit.name = name;
    log->commit.header = file.header;
    CRASH_POINT("index_log_file_named");
    /* Writes its header before anybody may call it the newest: RocketMQ cannot read a file of zeros. */
    index_file_publish(&log->file);
    CRASH_POINT("index_log_file_published");
    index_log_commit(log, position);
    return 0;
}

int index_log_reserve(struct index_log *log, uint32_t count, uint64_t position)
{
    int error = log->file.data ? index_file_reserve(&log->file, log->pending_count + count) : ENFILE;
    if (error == ENFILE) {
        error = roll(log, position);
        if (!error)
            error = index_file_reserve(&log->file, count);
    }
    return error;
}

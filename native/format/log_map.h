/* A process's private view of the CommitLog: which of its files are mapped where. Read-only for all processes but the writer.
 *
 * Files are mapped whole when first touched and stay mapped until log_map_forget or log_map_close. A reader that hands out
 * views of a mapping keeps the handle alive (the Python side counts them). At most LOG_MAP_SLOTS files are mapped at once; the
 * least recently used one is unmapped first, but never one that is pinned.
 */
#ifndef ORBITMQ_LOG_MAP_H
#define ORBITMQ_LOG_MAP_H

#include "base/store_path.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LOG_MAP_SLOTS 64u

struct log_file {
    uint8_t *data;    /* NULL: this slot is unused */
    uint64_t start;   /* physical offset of data[0] */
    uint64_t used_at; /* tick of the last log_map_at */
    /* Raised by the map's user. Lowered when the last message of a file goes, perhaps by another thread, while the user waits
     * without the interpreter's lock. */
    _Atomic uint32_t pins;
};
struct log_map {
    char folder[STORE_FOLDER_ROOM]; /* <store>/commitlog */
    uint64_t file_size;
    bool writable;
    uint64_t tick;
    struct log_file *last; /* the slot of the previous look-up */
    struct log_file files[LOG_MAP_SLOTS];
};

/* store: root of the store. */
void log_map_open(struct log_map *map, const char *store, uint64_t file_size, bool writable);
void log_map_close(struct log_map *map);

/* Address of a physical offset, valid to the end of its file, or NULL with errno: ENOENT (no such file), EIO (its length is not
 * file_size), EMFILE (every slot is pinned), or an errno of open or mmap. */
uint8_t *log_map_at(struct log_map *map, uint64_t physical_offset);

/* The file that holds physical_offset, mapped and pinned once more, or NULL with errno. */
struct log_file *log_map_pin(struct log_map *map, uint64_t physical_offset);
void log_map_unpin(struct log_map *map, struct log_file *file);

static inline bool log_file_pinned(const struct log_file *file)
{
    /* acquire: what the last holder read of the file before the file is unmapped. Pairs with log_map_unpin [U1]. */
    return atomic_load_explicit(&file->pins, memory_order_acquire) > 0;
}

/* Unmaps files that end at or before min_offset and are not pinned. */
void log_map_forget(struct log_map *map, uint64_t min_offset);

/* True if an errno says that this process or machine has no descriptor, mapping or memory left just now: nothing is wrong with
 * the files, and it may work later. */
bool log_map_passing(int error);

/* <store>/commitlog; folder has room for STORE_FOLDER_ROOM bytes. */
void log_folder(char *folder, const char *store);

/* Opens the file <folder>/<20 digits of start> with these flags of open(2). Returns its descriptor, or -1 with errno. */
int log_file_open(const char *folder, uint64_t start, int flags);

#endif

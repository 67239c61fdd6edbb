/* Records that a sender waits for, in write groups of a few KiB, written by system call instead of through the mapping.
 *
 * A store through a mapping makes the kernel treat the whole folio of the page cache as changed, and read-ahead makes folios of
 * up to 2 MiB: each sync of 200 bytes would then write 2 MiB. A write() changes only the blocks that it touches. Larger groups
 * go through the mapping anyway, which costs them a tenth of a write().
 */
#ifndef ORBITMQ_SMALL_WRITE_H
#define ORBITMQ_SMALL_WRITE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define SMALL_WRITE_BYTES (16u << 10) /* a write group of this much is no longer small */
#define SMALL_WRITE_PARTS 64u

/* Parts for one log file, one after the other, not yet written. What the disk or the file system refuses is not tried through
 * the mapping: a store there would be a SIGBUS, or dirty a page that can never be written. */
struct small_write {
    int descriptor;      /* -1: none, and everything goes through the mapping */
    uint8_t *file;       /* where the same file is mapped, writable */
    uint64_t at;         /* where the first part goes, from the file's start */
    uint64_t size;       /* of all parts */
    uint32_t count;
    struct iovec parts[SMALL_WRITE_PARTS];
};

void small_write_open(struct small_write *write);

/* The file to write to from now on; nothing may be waiting. Without a descriptor the mapping is used: slower, not wrong. */
void small_write_enter(struct small_write *write, const char *folder, uint64_t start, uint8_t *file);
void small_write_close(struct small_write *write);

/* True if a part for `at` can be added to those that wait; otherwise call small_write_end first. */
bool small_write_takes(const struct small_write *write, uint64_t at);

/* Adds a part for `at`; its bytes must not change until small_write_end. */
void small_write_add(struct small_write *write, uint64_t at, const void *bytes, uint64_t size);

/* 0: all parts are in the page cache. An errno: the parts before `*failed`, from the file's start, are; some bytes of the next
 * one may be; the others are not. */
int small_write_end(struct small_write *write, uint64_t *failed);

#endif

/* The words in which a group's member commits: one file a session, orbitmq/commits/<slot>.<epoch> in the store, native byte
 * order.
 *
 *   | magic | closed | 48 bytes of zeros | queue_capacity offset words (u64) |
 *
 * The broker makes the file and reserves every byte of it. The member maps it, and only the member writes words, so a commit is
 * a few stores, and the page cache keeps them whichever process dies. A member could truncate its file, which would cause
 * SIGBUS in a mapping, so the broker maps no such file: it reads and writes by system call. If a file has another length than
 * when it was made, its member changed it, and its words do not count.
 *
 * `closed` ends the file. A process that takes the words for the last time (at the session's end, at a stop, at the start after
 * a death) raises it first. A member that commits looks at it after its words, so either its words are taken or it learns that
 * they may not be [G2].
 */
#ifndef ORBITMQ_COMMIT_WORDS_H
#define ORBITMQ_COMMIT_WORDS_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define COMMIT_WORDS_MAGIC UINT64_C(0x5344524f57544d43) /* "CMTWORDS" */

struct commit_words {
    uint64_t magic;
    _Atomic uint64_t closed; /* 0 until the broker has taken, or is about to take, the words for the last time [G2] */
    uint64_t zero[6];
    _Atomic uint64_t word[];
};
static_assert(sizeof(struct commit_words) == 64, "words begin on a line of their own");

/* An offset word: 16 bits of the group's epoch, 48 of the committed queue offset. 0 means "nothing committed". */
#define OFFSET_BITS 48
#define OFFSET_MASK ((UINT64_C(1) << OFFSET_BITS) - 1)

static inline uint64_t commit_words_size(uint32_t capacity) { return sizeof(struct commit_words) + (uint64_t)capacity * sizeof(uint64_t); }

/* Makes an empty, reserved file of these words. 0, or an errno, for example if the disk is full; the file cannot be used
 * then. */
int commit_words_make(int descriptor, uint32_t capacity);

/* Raises `closed` and fences: words read afterwards are the last that count. 0, or an errno. */
int commit_words_close(int descriptor);

/* Reads words 0 .. count - 1 of a file made for `capacity`. 0; EILSEQ: the file has another length or head; else an errno. */
int commit_words_read(int descriptor, uint32_t capacity, uint64_t *words, uint32_t count);

#endif

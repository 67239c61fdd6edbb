/* The first line of every shared segment, and the constants that all layouts share.
 *
 *   offset  size  field
 *   0       8     magic       "ORBITMQ\0" in memory order
 *   8       4     layout      version of every layout in native/; a process of another version refuses to attach
 *   12      4     kind        which segment this is (enum segment_kind)
 *   16      8     size        bytes of the whole segment
 *   24      8     generation  which life of the broker tree made it
 *   32      32    zero
 *
 * The creator fills the line before anybody else learns the segment's name or descriptor; it never changes afterwards.
 * Segments are transient and native-endian; nothing in them is a pointer, only offsets and indexes.
 */
#ifndef ORBITMQ_SEGMENT_H
#define ORBITMQ_SEGMENT_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEGMENT_LINE 64
#define SEGMENT_MAGIC UINT64_C(0x00514D544942524F) /* the bytes O R B I T M Q NUL */
#define SEGMENT_LAYOUT 1u

enum segment_kind {
    SEGMENT_CONTROL = 1,
    SEGMENT_TOPICS = 2,
    SEGMENT_LANE = 3,
    SEGMENT_WAKE = 4,
    SEGMENT_SESSION = 5,
};

struct segment_header {
    uint64_t magic;
    uint32_t layout;
    uint32_t kind;
    uint64_t size;
    uint64_t generation;
    uint64_t zero[4];
};
static_assert(sizeof(struct segment_header) == SEGMENT_LINE, "a segment begins with exactly one line");

enum segment_fault {
    SEGMENT_GOOD = 0,
    SEGMENT_BAD_MAGIC = 1,
    SEGMENT_BAD_LAYOUT = 2,
    SEGMENT_BAD_KIND = 3,
    SEGMENT_BAD_SIZE = 4,
};

/* Fills the header of a fresh, zeroed segment. */
void segment_init(void *memory, enum segment_kind kind, uint64_t size, uint64_t generation);

/* Says whether memory holds a segment of this kind that fits into size bytes. */
enum segment_fault segment_check(const void *memory, enum segment_kind kind, uint64_t size);

#endif

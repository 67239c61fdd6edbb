/* The first line of every shared segment, and the constants that all layouts share.
 *
 *   offset  size  field
 *   0       8     magic       "ORBITMQ\0" in memory order
 *   8       4     layout      version of every layout in native/; a process of another version refuses to attach
 *   12      4     kind        which segment this is (enum segment_kind)
 *   16      8     size        bytes of the whole segment
 *   24      8     generation  which life of the broker tree made it
 *   32      4     pid         the supervisor that made it; 0 where the segment has no name of its own (a memfd)
 *   36      4     namespace   inode of the pid namespace in which it has that number
 *   40      8     start       its start in clock ticks since boot
 *   48      8     device      of the lock file of the store that it runs on, and
 *   56      8     inode       that file's number; while the file is held nobody else's can have both
 *
 * The creator fills the line before anybody else learns the segment's name or descriptor; it never changes afterwards. A segment
 * with a name is signed first: whoever finds it later knows whose it is, also where its maker died at the next instruction.
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
#define SEGMENT_LAYOUT 5u

enum segment_kind {
    SEGMENT_CONTROL = 1,
    SEGMENT_TOPICS = 2,
    SEGMENT_LANE = 3,
    SEGMENT_WAKE = 4,
    SEGMENT_SESSION = 5,
};

struct segment_owner {
    uint32_t pid;
    uint32_t namespace;
    uint64_t start_ticks;
    uint64_t device;
    uint64_t inode;
};

struct segment_header {
    uint64_t magic;
    uint32_t layout;
    uint32_t kind;
    uint64_t size;
    uint64_t generation;
    struct segment_owner owner;
};
static_assert(sizeof(struct segment_header) == SEGMENT_LINE, "a segment begins with exactly one line");

enum segment_fault {
    SEGMENT_GOOD = 0,
    SEGMENT_BAD_MAGIC = 1,
    SEGMENT_BAD_LAYOUT = 2,
    SEGMENT_BAD_KIND = 3,
    SEGMENT_BAD_SIZE = 4,
};

/* Records who owns a fresh, zeroed segment. Call before segment_init, which leaves this part as it is. */
void segment_sign(void *memory, const struct segment_owner *owner);

/* Fills the header of a fresh segment that is zeroed except for its owner. */
void segment_init(void *memory, enum segment_kind kind, uint64_t size, uint64_t generation);

/* Says whether memory holds a segment of this kind that fits into size bytes. */
enum segment_fault segment_check(const void *memory, enum segment_kind kind, uint64_t size);

#endif

#include "shared/attachment.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct attachment *attachment_open(void *control, void *topics, void *wake, void **lanes, uint32_t lane_count, uint32_t actor)
{
    assert(lane_count <= LANES_MAX && actor < ACTORS_MAX);
    assert(segment_check(control, SEGMENT_CONTROL, sizeof(struct control)) == SEGMENT_GOOD);
    assert(segment_check(topics, SEGMENT_TOPICS, ((struct segment_header *)topics)->size) == SEGMENT_GOOD);
    /* Not the header of the wake words, because clients can write there. */
    struct attachment *attachment = calloc(1, sizeof *attachment);
    if (!attachment)
        return NULL;
    attachment->control = control;
    attachment->topics = topics;
    attachment->wake = wake;
    for (uint32_t i = 0; i < lane_count; i++)
        attachment->lanes[i] = lanes[i];
    attachment->page = &attachment->control->actors[actor];
    for (uint32_t i = 0; i < GATEWAYS_MAX; i++)
        attachment->gateway_event[i] = -1;
    return attachment;
}

void attachment_give_event(struct attachment *attachment, uint32_t gateway, int event)
{
    assert(gateway < GATEWAYS_MAX);
    attachment->gateway_event[gateway] = event;
}

bool attachment_ring_gateway(struct attachment *attachment, uint32_t gateway)
{
    const uint64_t one = 1;
    return bell_answer(&attachment->control->gateway_bell[gateway]) && write(attachment->gateway_event[gateway], &one, sizeof one) == sizeof one;
}

static void unmap(struct attachment *attachment, struct session_map *map)
{
    munmap(map->session, map->size);
    memset(map, 0, sizeof *map);
    count(attachment->page, COUNT_SESSIONS, UINT64_MAX); /* one less */
}

void attachment_close(struct attachment *attachment)
{
    for (uint32_t slot = 0; slot < SESSIONS_MAX; slot++)
        if (attachment->sessions[slot].epoch)
            unmap(attachment, &attachment->sessions[slot]);
    free(attachment);
}

/* True while the session in this entry may still be read and answered. */
static bool entry_open(const struct session_entry *entry)
{
    /* acquire: state before the rest of the entry. Pairs with the coordinator's release [E1]. */
    const uint32_t state = atomic_load_explicit(&entry->state, memory_order_acquire);
    return state == SESSION_READY || state == SESSION_CLOSING;
}

/* What the coordinator wrote into an entry, copied as a whole. */
struct entry_copy {
    int32_t descriptor;
    uint64_t inode;
    struct session_shape shape;
};

/* Copies an entry that is open under this epoch. The coordinator may free the slot and fill it again while we copy, and at once
 * if a session has no ring to drain. Half of each would be a shape that the memory does not have. So the entry is looked at
 * again after the copy. */
static bool copy_entry(const struct session_entry *entry, uint32_t epoch, struct entry_copy *copy)
{
    if (!entry_open(entry))
        return false;
    *copy = (struct entry_copy){entry->descriptor, entry->inode, entry->shape};
    /* acquire: the copy before the second look. Pairs with the fences in session_claim_entry and session_open_entry: if
     * anything in the copy is new, the state is seen FREE, or READY with the new epoch before it [E1, E2]. */
    atomic_thread_fence(memory_order_acquire);
    return entry_open(entry) && entry->shape.epoch == epoch && copy->shape.epoch == epoch;
}

/* Opens the memfd that the supervisor keeps for this entry and makes sure that it is the right one, of the right size, and
 * cannot be resized under us. */
static bool map_session(struct attachment *attachment, const struct entry_copy *entry, struct session_map *map)
{
    const int seals_needed = F_SEAL_SHRINK | F_SEAL_GROW;
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/fd/%d", attachment->control->settings.supervisor_pid, entry->descriptor);
    /* Its client can hold a lease on the memfd; without O_NONBLOCK we would wait 45 s here for the lease to be broken. */
    const int descriptor = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return false;
    struct stat status;
    const uint64_t size = session_size(&entry->shape);
    void *memory = MAP_FAILED;
    if (fstat(descriptor, &status) == 0 && (uint64_t)status.st_ino == entry->inode && (uint64_t)status.st_size == size &&
        (fcntl(descriptor, F_GET_SEALS) & seals_needed) == seals_needed)
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (memory == MAP_FAILED)
        return false;
    map->session = memory;
    map->size = size;
    map->shape = entry->shape;
    map->epoch = entry->shape.epoch;
    session_parts(map->session, &map->shape, &map->parts);
    count(attachment->page, COUNT_SESSIONS, 1);
    return true;
}

struct session_map *attachment_session(struct attachment *attachment, uint32_t slot, uint32_t epoch)
{
    if (slot >= SESSIONS_MAX || epoch == 0)
        return NULL;
    struct session_map *map = &attachment->sessions[slot];
    if (map->epoch == epoch)
        return map;
    struct entry_copy entry;
    if (!copy_entry(&attachment->control->sessions[slot], epoch, &entry))
        return NULL;
    if (map->epoch)
        unmap(attachment, map);
    return map_session(attachment, &entry, map) ? map : NULL;
}

void attachment_sweep(struct attachment *attachment)
{
    /* acquire: the entries' new states after the version. Pairs with the coordinator's release. */
    const uint32_t version = atomic_load_explicit(&attachment->control->sessions_version, memory_order_acquire);
    if (version == attachment->sessions_version)
        return;
    attachment->sessions_version = version;
    for (uint32_t slot = 0; slot < SESSIONS_MAX; slot++) {
        struct session_map *map = &attachment->sessions[slot];
        const struct session_entry *entry = &attachment->control->sessions[slot];
        if (map->epoch && !(entry_open(entry) && entry->shape.epoch == map->epoch))
            unmap(attachment, map);
    }
}

void attachment_beat(struct attachment *attachment)
{
    struct actor_page *page = attachment->page;
    const uint64_t now = clock_ms();
    /* relaxed, all: a reader wants fresh numbers, and they order nothing */
    if (now == atomic_load_explicit(&page->heartbeat_ms, memory_order_relaxed))
        return; /* once a millisecond is often enough for a line that others read, and for a system call */
    atomic_store_explicit(&page->heartbeat_ms, now, memory_order_relaxed);
    const uint32_t pid = (uint32_t)getpid();
    if (atomic_load_explicit(&page->pid, memory_order_relaxed) != pid)
        atomic_store_explicit(&page->pid, pid, memory_order_relaxed);
}

void attachment_state(struct attachment *attachment, enum actor_state state, uint32_t error)
{
    /* relaxed, then release: a reader that sees the state sees the reason */
    atomic_store_explicit(&attachment->page->error, error, memory_order_relaxed);
    atomic_store_explicit(&attachment->page->state, state, memory_order_release);
}

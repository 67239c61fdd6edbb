/* What a predecessor left, or recovery: writer.c says which death leaves what. */
#include "crash_point.h"
#include "record.h"
#include "writer_parts.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TAKE_OVER_NAP_NS 500000u  /* between two looks at reput's position */

/* Zeroes [from, from + size) where it is not zero already, so that untouched pages stay untouched. Returns 0 or an errno.
 *
 * What was there may have reached the disk already; so do the zeros, before anything is appended. Else a power cut that loses
 * the next records, or part of them, would leave well-formed ones of a batch that never happened among them. */
static int scrub(uint8_t *from, uint64_t size)
{
    static const uint8_t zeros[4096];
    bool found = false;
    for (uint64_t at = 0; at < size; at += sizeof zeros) {
        const uint64_t piece = size - at < sizeof zeros ? size - at : sizeof zeros;
        if (!memcmp(from + at, zeros, piece))
            continue;
        memset(from + at, 0, piece);
        CRASH_POINT("writer_takeover_scrubbing");
        found = true;
    }
    const uint64_t before = (uintptr_t)from % (uint64_t)sysconf(_SC_PAGESIZE); /* msync wants whole pages */
    return found && msync(from - before, size + before, MS_SYNC) ? errno : 0;
}

/* What a batch cut short may have written: up to one batch and one largest record behind `wrote`, here and in as many of
 * the next files as that may have filled. Of each file that was left, less than one largest record stayed empty. */
static void scrub_tail(struct writer *writer)
{
    const uint64_t gap = writer->tree->control->settings.message_max + RECORD_BLANK_SIZE;
    const uint64_t start = writer->wrote - writer->wrote % writer->file_size;
    uint64_t reach = WRITER_BATCH_BYTES + gap, at = writer->wrote;
    while (writer_enter_file(writer, at - at % writer->file_size)) { /* where no file is, nothing was written */
        const uint64_t left = writer->file_start + writer->file_size - at;
        const int error = scrub(writer->file + (at - writer->file_start), left < reach ? left : reach);
        if (error)
            atomic_store_explicit(&writer->tree->control->wrote.error, (uint32_t)error, memory_order_release);
        if (left >= reach)
            break;
        reach -= left > gap ? left - gap : 0;
        at += left;
    }
    if (writer->file)
        writer_enter_file(writer, start);
}

static void deliver_over(struct writer *writer)
{
    struct control *control = writer->tree->control;
    const struct commit_slot last = commit_read(&control->commit);
    struct batch batch = {0};
    for (uint32_t i = 0; i < control->settings.lanes; i++) {
        if (writer->lanes[i].position < last.applied[i]) {
            writer_deliver_lane(writer, &batch, i, writer->lanes[i].position, last.applied[i]);
            count(writer->tree->page, COUNT_REDELIVERED, 1);
            ring_consumer_attach(&writer->lanes[i], &writer->tree->lanes[i]->ring, writer->lanes[i].capacity, last.applied[i]);
        }
    }
    writer_free_lanes(writer);
    batch.bytes = 1; /* reput and the flush service look again, whatever our predecessor told them */
    batch.flush = true;
    writer_wake_followers(writer, &batch);
}

enum run_result writer_take_over(struct writer *writer, uint32_t limit_ms)
{
    struct control *control = writer->tree->control;
    if (!writer->delivered_over) {
        /* release: as in commit() [W1] */
        atomic_store_explicit(&control->wrote.value, writer->wrote, memory_order_release);
        atomic_store_explicit(&control->wrote_ms, writer->store_ms, memory_order_release);
        atomic_store_explicit(&control->flush_wanted, writer->wrote, memory_order_release);
        CRASH_POINT("writer_takeover_published");
        scrub_tail(writer);
        CRASH_POINT("writer_takeover_scrubbed");
        deliver_over(writer);
        CRASH_POINT("writer_takeover_delivered");
        writer->delivered_over = true;
    }
    const uint64_t end = clock_ms() + limit_ms;
    /* acquire: the queues' maxima before the position that covers them [Q1] */
    while (atomic_load_explicit(&control->reput.value, memory_order_acquire) < writer->wrote) {
        tree_beat(writer->tree);
        if (writer_heed_reput(writer))
            return RUN_NEED; /* no queue's next offset is known, and none is given out */
        if (clock_ms() >= end)
            return RUN_TIME;
        const uint32_t ticket = bell_announce(&control->writer_bell);
        if (bell_sleep(&control->writer_bell, ticket, TAKE_OVER_NAP_NS) == BELL_SIGNAL)
            return RUN_SIGNAL;
    }
    struct topics *topics = writer->tree->topics;
    const uint32_t queues = atomic_load_explicit(&topics->queue_count, memory_order_acquire);
    for (uint32_t slot = 0; slot < queues; slot++) {
        struct queue_slot *queue = topics_queue(topics, slot);
        atomic_store_explicit(&queue->next_offset, atomic_load_explicit(&queue->max_offset, memory_order_relaxed),
                              memory_order_relaxed);
        CRASH_POINT("writer_takeover_counting");
    }
    writer_look_ahead(writer);
    return RUN_NEED;
}

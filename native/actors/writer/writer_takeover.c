/* Clears up what a predecessor left, or recovery: writer.c says which death leaves what. */
#include "base/crash_point.h"
#include "format/record.h"
#include "actors/writer/writer_parts.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TAKE_OVER_NAP_NS 500000u  /* between two looks at reput's position */

/* What may be in one file behind the log: [at, at + size), mapped at `bytes`. */
struct stretch {
    uint8_t *bytes;
    uint64_t at, size;
};

/* Most bytes of what is appended together, and goes to one file: a record, or an atomic batch, which passes a lane. */
static uint64_t unit_max(const struct writer *writer)
{
    const struct settings *settings = &writer->attachment->control->settings;
    uint64_t most = settings->message_max;
    for (uint32_t i = 0; i < settings->lanes; i++)
        if (lane_batch_max(writer->attachment->lanes[i]->capacity) > most)
            most = lane_batch_max(writer->attachment->lanes[i]->capacity);
    return most + RECORD_BLANK_SIZE;
}

/* The parts of what an interrupted write group may have written, from `*reach` and `*at` on: up to one group and one largest unit
 * behind `wrote`, here and in as many of the next files as that may have filled. In each file that was left, less than one
 * largest unit stayed empty. False: there is no more. */
static bool next_stretch(struct writer *writer, uint64_t *at, uint64_t *reach, struct stretch *part)
{
    const uint64_t gap = unit_max(writer);
    if (*reach == 0 || !writer_enter_file(writer, *at - *at % writer->file_size)) /* if there is no file, nothing was written */
        return false;
    const uint64_t left = writer->file_start + writer->file_size - *at;
    *part = (struct stretch){writer->file + (*at - writer->file_start), *at, left < *reach ? left : *reach};
    if (left >= *reach)
        *reach = 0;
    else
        *reach -= left > gap ? left - gap : 0;
    *at += left;
    return true;
}

static uint64_t whole_reach(const struct writer *writer)
{
    return WRITER_GROUP_BYTES + unit_max(writer);
}

static bool is_zero(const uint8_t *from, uint64_t size)
{
    static const uint8_t zeros[4096];
    for (uint64_t at = 0; at < size; at += sizeof zeros) {
        const uint64_t piece = size - at < sizeof zeros ? size - at : sizeof zeros;
        if (memcmp(from + at, zeros, piece))
            return false;
    }
    return true;
}

/* Goes back to the end of the log; there may be no file yet at that place. */
static void return_to_end(struct writer *writer)
{
    if (writer->file)
        writer_enter_file(writer, writer->wrote - writer->wrote % writer->file_size);
}

uint64_t writer_left_over(struct writer *writer)
{
    if (writer->attachment->control->settings.read_only) /* what is to be repaired may be behind the end */
        return 0;
    /* relaxed: a dead predecessor's word, or ours */
    uint64_t end = atomic_load_explicit(&writer->attachment->control->zeroing, memory_order_relaxed);
    uint64_t at = writer->wrote, reach = whole_reach(writer);
    struct stretch part;
    while (next_stretch(writer, &at, &reach, &part))
        if (part.at + part.size > end && !is_zero(part.bytes, part.size))
            end = part.at + part.size;
    return_to_end(writer);
    return end;
}

/* Zeroes what was left, here and in the next files, and syncs the zeros before anything is appended: it may have reached the
 * disk already. Otherwise a power cut that loses the next records, or part of them, would leave well-formed records of a group
 * that never happened among them. All of it is written, zero or not: a predecessor's sync may have failed, and then memory
 * shows zeros that the disk does not have. */
static void scrub_tail(struct writer *writer)
{
    struct control *control = writer->attachment->control;
    const uint64_t end = writer_left_over(writer), page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (!end)
        return;
    /* relaxed: only a successor reads it, after our death */
    atomic_store_explicit(&control->zeroing, end, memory_order_relaxed);
    uint64_t at = writer->wrote, reach = whole_reach(writer);
    struct stretch part;
    int error = 0;
    while (!error && at < end && next_stretch(writer, &at, &reach, &part)) {
        const uint64_t size = end - part.at < part.size ? end - part.at : part.size;
        const uint64_t before = (uintptr_t)part.bytes % page; /* msync wants whole pages */
        memset(part.bytes, 0, size);
        CRASH_POINT("writer_takeover_scrubbing");
        error = msync(part.bytes - before, size + before, MS_SYNC) ? errno : 0;
    }
    if (error)
        atomic_store_explicit(&control->wrote.error, (uint32_t)error, memory_order_release);
    else
        atomic_store_explicit(&control->zeroing, 0, memory_order_relaxed);
    return_to_end(writer);
}

static void deliver_over(struct writer *writer)
{
    struct control *control = writer->attachment->control;
    const struct commit_slot last = commit_read(&control->commit);
    struct write_group group = {0};
    for (uint32_t i = 0; i < control->settings.lanes; i++) {
        if (writer->lanes[i].position < last.applied[i]) {
            writer_answered(writer, i, last.applied[i]);
            writer_deliver(writer, &group, i);
            count(writer->attachment->page, COUNT_REDELIVERED, 1);
            ring_consumer_attach(&writer->lanes[i], &writer->attachment->lanes[i]->ring, writer->lanes[i].capacity,
                                 last.applied[i]);
        }
    }
    writer_free_lanes(writer);
    halves_raise_floor(&control->halves, 0);
    group.bytes = 1; /* reput and the flush service must look again, whatever our predecessor told them */
    group.flush = true;
    writer_wake_followers(writer, &group);
}

enum run_result writer_take_over(struct writer *writer, uint32_t limit_ms)
{
    struct control *control = writer->attachment->control;
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
        attachment_beat(writer->attachment);
        if (writer_heed_reput(writer))
            return RUN_NEED; /* no queue's next offset is known, and none is given out */
        if (clock_ms() >= end)
            return RUN_TIME;
        const uint32_t ticket = bell_announce(&control->writer_bell);
        if (bell_sleep(&control->writer_bell, ticket, TAKE_OVER_NAP_NS) == BELL_SIGNAL)
            return RUN_SIGNAL;
    }
    if (!writer_dedup_load(writer, end))
        return RUN_TIME;
    struct topics *topics = writer->attachment->topics;
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

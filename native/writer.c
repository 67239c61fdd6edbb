/* One batch: apply, commit, deliver, free. What a death in each leaves, and what the successor does about it:
 *
 *   apply    Records are copied to the log behind `wrote`, their results noted in the lane. Nobody reads behind `wrote`;
 *            the successor zeroes there (stale well-formed records would come back in a later recovery) and applies the
 *            same lane records again: `applied` in the commit record has not moved.
 *   commit   One store flips the commit record: the new end of the log, and how far each lane is in it. Before it, the
 *            batch has not happened; after it, it has.
 *   deliver  Noted results go into the sessions' slots, then `completed` rises. The successor delivers what lies between a
 *            lane's freed and applied positions; messages at or below `completed` have their verdict already and are left alone,
 *            because their slot may hold a later one.
 *   free     The lane's head moves to applied.
 *
 * Queue offsets are counted in the queue slots while applying, so after a death they may be ahead of the log. The successor
 * takes them from reput's published maxima, once reput has indexed all that was committed.
 */
#include "writer.h"
#include "allocator.h"
#include "bytes.h"
#include "crash_point.h"
#include "log_map.h"
#include "pace.h"
#include "small_write.h"
#include "verdict.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define POPULATE_STEP (256u << 10) /* pages are made ready in steps of this, where the allocator has not been yet */
#define TAKE_OVER_NAP_NS 500000u  /* between two looks at reput's position */

struct writer {
    struct tree *tree;
    struct log_map map;
    struct ring_consumer lanes[LANES_MAX];
    uint64_t file_size;
    uint8_t *file;          /* the mapped file that holds `wrote`, or NULL */
    uint64_t file_start;    /* its physical offset */
    uint64_t populated;     /* bytes of it whose pages are ready */
    uint64_t wrote;         /* end of the log, this batch included */
    uint64_t store_ms;      /* newest timestamp given out */
    uint32_t first_lane;    /* where the next batch begins, so that no lane starves */
    struct small_write small;
    struct pace pace;
    bool waits;             /* the last batch ended for want of the next CommitLog file */
    bool delivered_over;    /* takeover: verdicts are delivered and the tail is zeroed */
    uint64_t asked_at;      /* the flushed position that asked[] belongs to */
    uint64_t asked[SESSION_WORDS]; /* sessions that have come to wait for the disk since then */
    struct session_map *session; /* of the verdict delivered last */
    uint32_t session_slot;
};

struct batch {
    uint64_t bytes;
    uint32_t messages;
    uint32_t rejected;
    uint32_t askers;        /* sessions that came to wait for the disk */
    bool flush;             /* somebody waits for the disk */
    bool waits;             /* for the next CommitLog file */
    bool small;             /* what somebody waits for on the disk goes there as a small write */
    uint64_t wake[LANES_MAX]; /* lanes with fresh deliver bits: clients sleep for a verdict */
};

struct writer *writer_open(struct tree *tree)
{
    struct writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return NULL;
    const struct settings *settings = &tree->control->settings;
    writer->tree = tree;
    writer->file_size = settings->log_file_size;
    writer->session_slot = SESSIONS_MAX;
    writer->pace = pace_start();
    small_write_open(&writer->small);
    log_map_open(&writer->map, settings->store, settings->log_file_size, true);
    const struct commit_slot last = commit_read(&tree->control->commit);
    writer->wrote = last.wrote;
    writer->store_ms = last.store_ms;
    for (uint32_t i = 0; i < settings->lanes; i++) {
        struct ring *ring = &tree->lanes[i]->ring;
        /* acquire: what our predecessor freed */
        ring_consumer_attach(&writer->lanes[i], ring, tree->lanes[i]->capacity,
                             atomic_load_explicit(&ring->head.position, memory_order_acquire));
    }
    return writer;
}

void writer_close(struct writer *writer)
{
    small_write_close(&writer->small);
    log_map_close(&writer->map);
    free(writer);
}

/* ---- deliver ------------------------------------------------------------------------------------------------------- */

/* The broker's count before the client's, so that a client that saw a verdict finds its window open. A writer killed between the
 * two leaves the client's behind; that is why a successor raises it again for every session in the lane, also where
 * all of its verdicts count as delivered. */
static void raise_completed(struct writer *writer, uint64_t sequence)
{
    struct session_map *map = writer->session;
    const uint32_t slot = writer->session_slot;
    /* release: verdicts before their count, for a successor or handler, and for the client [S1] */
    atomic_store_explicit(&writer->tree->control->sessions[slot].completed, sequence, memory_order_release);
    CRASH_POINT("writer_count_raised");
    atomic_store_explicit(&map->session->completed, sequence, memory_order_release);
    CRASH_POINT("writer_completed");
}

/* Where the verdicts of this session go, or NULL for one that is gone. */
static struct session_map *addressee(struct tree *tree, uint32_t slot, uint32_t epoch)
{
    struct session_entry *entry = &tree->control->sessions[slot];
    /* Our mapping may outlive the session; `completed` in the entry is then the next one's, whose handler would take it for
     * a count of its own messages and drop as many. */
    if (entry->shape.epoch != epoch)
        return NULL;
    struct session_map *map = tree_session(tree, slot, epoch);
    /* Nobody would ever answer its client: short of memory or descriptors, it is told that the session is lost. */
    if (!map)
        session_move_state(tree->control, slot, SESSION_READY, SESSION_FAULTY);
    return map;
}

/* Puts the verdicts of a lane's records from its position up to `applied` into their slots. Marks sessions whose clients sleep. */
static void deliver_lane(struct writer *writer, struct batch *batch, uint32_t lane, uint64_t from, uint64_t applied)
{
    struct tree *tree = writer->tree;
    struct ring_consumer look;
    ring_consumer_attach(&look, &tree->lanes[lane]->ring, tree->lanes[lane]->capacity, from);
    uint64_t sequence = 0, done = 0;
    uint32_t slot = SESSIONS_MAX, epoch = 0;
    uint64_t touched[SESSION_WORDS] = {0};
    struct ring_record header;
    uint8_t *payload;
    while (look.position < applied) {
        const enum ring_look found = ring_peek(&look, &header, &payload);
        if (look.position >= applied)
            break; /* what followed was padding */
        assert(found == RING_RECORD);
        const struct lane_record *record = (const struct lane_record *)payload;
        if (record->session_slot != slot || record->session_epoch != epoch) {
            if (writer->session && sequence)
                raise_completed(writer, sequence > done ? sequence : done);
            slot = record->session_slot;
            epoch = record->session_epoch;
            writer->session = addressee(tree, slot, epoch);
            writer->session_slot = slot;
            sequence = 0;
            done = writer->session ? atomic_load_explicit(&tree->control->sessions[slot].completed, memory_order_relaxed)
                                   : UINT64_MAX; /* relaxed: only the writer raises it */
            touched[slot / 64] |= UINT64_C(1) << (slot % 64);
        }
        if (writer->session && writer->session->parts.slots) {
            sequence = record->sequence;
            if (sequence > done) {
                struct completion *to = &writer->session->parts.slots[(sequence - 1) & (writer->session->shape.window - 1)];
                *to = (struct completion){record->physical_offset, record->queue_offset, record->image_size,
                                          record->queue_id, record->code, record->detail};
                CRASH_POINT("writer_verdict_put");
            }
        }
        ring_pass(&look, &header);
    }
    if (writer->session && sequence)
        raise_completed(writer, sequence > done ? sequence : done);

    /* seq_cst: `completed` before our look at who sleeps; a client announces, fences, then looks at `completed` [B1, B2] */
    atomic_thread_fence(memory_order_seq_cst);
    for (uint32_t word = 0; word < SESSION_WORDS; word++) {
        uint64_t sleepers = 0;
        for (uint64_t bits = touched[word]; bits; bits &= bits - 1) {
            const uint32_t at = word * 64 + (uint32_t)__builtin_ctzll(bits);
            const struct session_map *map = &tree->sessions[at];
            if (map->epoch && atomic_load_explicit(&map->session->bell.asleep, memory_order_relaxed))
                sleepers |= bits & -bits;
        }
        /* release: verdicts before the bit [D1] */
        if (sleepers)
            atomic_fetch_or_explicit(&tree->control->deliver[lane][word], sleepers, memory_order_release);
        batch->wake[lane] |= sleepers;
    }
    CRASH_POINT("writer_delivered");
}

/* ---- apply --------------------------------------------------------------------------------------------------------- */

/* A log that reput cannot read on is not appended to: nobody could read what is taken. The error stands, so a look between
 * batches is soon enough. True when it has come. */
static bool heed_reput(struct writer *writer)
{
    struct control *control = writer->tree->control;
    /* relaxed: errors that go away are reput's own affair, and of one that stands only the number is used */
    const uint32_t error = atomic_load_explicit(&control->reput.error, memory_order_relaxed);
    if (error != EBADMSG && error != EOVERFLOW)
        return false;
    /* release: as where a file cannot be mapped; refusal() acquires it */
    atomic_store_explicit(&control->wrote.error, error, memory_order_release);
    return true;
}

/* Between batches: files that are behind us let go, the next pages asked for. Where the allocator is behind, we make them
 * ready ourselves, a step at a time: a fault for each page would cost more. */
static void look_ahead(struct writer *writer)
{
    struct control *control = writer->tree->control;
    heed_reput(writer);
    log_map_forget(&writer->map, writer->file_start);
    if (!writer->file)
        return;
    /* relaxed: a hint */
    const uint64_t warmed = atomic_load_explicit(&control->warmed.value, memory_order_relaxed);
    if (warmed < writer->wrote + ALLOCATOR_AHEAD / 2)
        bell_ring(&control->allocator_bell);
    const uint64_t at = writer->wrote - writer->file_start;
    if (warmed > writer->wrote)
        writer->populated = at > warmed - writer->file_start ? at : warmed - writer->file_start;
    if (writer->populated >= writer->file_size || at + POPULATE_STEP / 2 < writer->populated)
        return;
    if (writer->populated < at)
        writer->populated = at & ~UINT64_C(4095);
    uint64_t size = writer->file_size - writer->populated;
    if (size > POPULATE_STEP)
        size = POPULATE_STEP;
    /* Where the kernel cannot, the faults come one by one: slower, not wrong. */
    (void)madvise(writer->file + writer->populated, size, MADV_POPULATE_WRITE);
    writer->populated += size;
}

/* Maps the file that begins at `start`, if it is ready. */
static bool enter_file(struct writer *writer, uint64_t start)
{
    /* acquire: the file exists before it is announced */
    if (atomic_load_explicit(&writer->tree->control->allocated.value, memory_order_acquire) < start + writer->file_size)
        return false;
    uint8_t *file = log_map_at(&writer->map, start);
    if (!file) {
        const uint32_t error = (uint32_t)errno;
        atomic_store_explicit(&writer->tree->control->wrote.error, error, memory_order_release);
        return false;
    }
    small_write_end(&writer->small);
    small_write_enter(&writer->small, writer->map.folder, start, file);
    writer->file = file;
    writer->file_start = start;
    writer->populated = 0;
    return true;
}

/* Makes sure that a record of this size fits where `wrote` is, ending the file if it does not. */
static bool make_room(struct writer *writer, uint32_t size)
{
    if (!writer->file && !enter_file(writer, writer->wrote - writer->wrote % writer->file_size))
        return false;
    const uint64_t left = writer->file_start + writer->file_size - writer->wrote;
    if (size + RECORD_BLANK_SIZE <= left)
        return true;
    uint8_t *blank = writer->file + (writer->wrote - writer->file_start);
    if (!enter_file(writer, writer->file_start + writer->file_size))
        return false;
    store_be32(blank, (uint32_t)left);
    store_be32(blank + 4, RECORD_BLANK);
    CRASH_POINT("writer_blank");
    writer->wrote = writer->file_start;
    count(writer->tree->page, COUNT_BLANKS, 1);
    return true;
}

/* Why no room can be made, as the verdict for the sender; VERDICT_NONE where waiting will help. */
static enum verdict refusal(const struct writer *writer, const struct lane_record *record, uint32_t *detail)
{
    const struct control *control = writer->tree->control;
    const uint32_t log_error = atomic_load_explicit(&control->wrote.error, memory_order_acquire);
    const uint32_t flush_error = atomic_load_explicit(&control->flushed.error, memory_order_acquire);
    if (log_error || (flush_error && (record->flags & SEND_FLUSH))) {
        *detail = log_error ? log_error : flush_error;
        return VERDICT_STORE_FAILED;
    }
    return VERDICT_NONE;
}

/* Notes that a session waits for the disk; the flush service wants to know how many do. */
static void ask(struct writer *writer, struct batch *batch, uint32_t slot)
{
    const uint64_t bit = UINT64_C(1) << (slot % 64);
    uint64_t *word = &writer->asked[slot / 64];
    batch->flush = true;
    batch->askers += !(*word & bit);
    *word |= bit;
}

static bool awaits_disk(const struct writer *writer, const struct lane_record *record)
{
    return (record->flags & SEND_FLUSH) || writer->tree->control->settings.flush_every_batch;
}

/* Copies one image to the end of the log and fills its holes, or the other way round where it is to be a small write; notes the
 * result. False: the batch must end here and wait. */
static bool apply(struct writer *writer, struct batch *batch, struct lane_record *record)
{
    uint32_t detail = 0;
    enum verdict verdict = refusal(writer, record, &detail);
    if (verdict == VERDICT_NONE && !make_room(writer, record->image_size)) {
        verdict = refusal(writer, record, &detail);
        detail = verdict ? detail : atomic_load_explicit(&writer->tree->control->allocated.error, memory_order_acquire);
        if (verdict == VERDICT_NONE && detail == 0) {
            batch->waits = true;
            return false;
        }
        verdict = verdict ? verdict : VERDICT_STORE_FULL;
    }
    if (verdict != VERDICT_NONE) {
        record->code = verdict;
        record->detail = detail;
        batch->rejected++;
        return true;
    }
    struct queue_slot *queue = topics_queue(writer->tree->topics, record->queue_slot);
    /* relaxed: only the writer reads it back; others show it */
    const uint64_t queue_offset = atomic_load_explicit(&queue->next_offset, memory_order_relaxed);
    const uint64_t at = writer->wrote - writer->file_start;
    const bool small = batch->small && awaits_disk(writer, record);
    uint8_t *to = small ? (uint8_t *)(record + 1) : writer->file + at;
    if (!small)
        memcpy(to, record + 1, record->image_size);
    CRASH_POINT("writer_copied");
    record_finish(to, record->image_size, &record->seal, queue_offset, writer->wrote, writer->store_ms);
    CRASH_POINT("writer_finished");
    if (small)
        small_write_add(&writer->small, at, to, record->image_size);
    atomic_store_explicit(&queue->next_offset, queue_offset + 1, memory_order_relaxed);
    CRASH_POINT("writer_counted");
    record->code = VERDICT_APPENDED;
    record->physical_offset = writer->wrote;
    record->queue_offset = queue_offset;
    CRASH_POINT("writer_noted");
    writer->wrote += record->image_size;
    batch->bytes += record->image_size;
    if (record->flags & SEND_FLUSH)
        ask(writer, batch, record->session_slot);
    return true;
}

static void apply_lane(struct writer *writer, struct batch *batch, uint32_t lane)
{
    struct ring_consumer *in = &writer->lanes[lane];
    struct ring_record header;
    uint8_t *payload;
    while (batch->bytes < WRITER_BATCH_BYTES && ring_peek(in, &header, &payload) == RING_RECORD) {
        struct lane_record *record = (struct lane_record *)payload;
        if (header.type == LANE_APPEND && !apply(writer, batch, record))
            return;
        batch->rejected += header.type == LANE_REJECT;
        batch->messages++;
        ring_pass(in, &header);
    }
}

/* ---- one batch ----------------------------------------------------------------------------------------------------- */

static void commit(struct writer *writer, struct batch *batch)
{
    struct control *control = writer->tree->control;
    struct commit_slot slot = {.wrote = writer->wrote, .store_ms = writer->store_ms};
    for (uint32_t i = 0; i < control->settings.lanes; i++)
        slot.applied[i] = writer->lanes[i].position;
    commit_write(&control->commit, &slot);
    CRASH_POINT("writer_committed");
    if (batch->bytes == 0)
        return;
    /* release: the log's bytes before the position that lets others read them [W1] */
    atomic_store_explicit(&control->wrote.value, writer->wrote, memory_order_release);
    CRASH_POINT("writer_published");
    atomic_store_explicit(&control->wrote_ms, writer->store_ms, memory_order_release);
    /* relaxed: only we write it, and it stands before the wish it belongs to */
    if (batch->askers)
        atomic_store_explicit(&control->flush_askers,
                              atomic_load_explicit(&control->flush_askers, memory_order_relaxed) + batch->askers,
                              memory_order_relaxed);
    if (batch->flush || control->settings.flush_every_batch)
        atomic_store_explicit(&control->flush_wanted, writer->wrote, memory_order_release);
    CRASH_POINT("writer_flush_wanted");
}

static void free_lanes(struct writer *writer)
{
    struct tree *tree = writer->tree;
    for (uint32_t i = 0; i < tree->control->settings.lanes; i++) {
        ring_release(&writer->lanes[i], writer->lanes[i].position);
        CRASH_POINT("writer_lane_freed");
    }
}

/* Everybody whom this batch concerns and who sleeps. */
static void wake_followers(struct writer *writer, const struct batch *batch)
{
    struct tree *tree = writer->tree;
    uint32_t wakes = 0;
    /* seq_cst: the lanes' heads before our look at who waits for room; a handler raises `stalled`, announces with a full
     * fence, then looks at the head [M1] */
    atomic_thread_fence(memory_order_seq_cst);
    if (batch->bytes) {
        wakes += bell_ring(&tree->control->reput_bell);
        CRASH_POINT("writer_reput_rung");
        if (batch->flush || tree->control->settings.flush_every_batch)
            wakes += bell_ring(&tree->wake->flush);
    }
    for (uint32_t i = 0; i < tree->control->settings.lanes; i++) {
        if (batch->wake[i] || atomic_load_explicit(&tree->lanes[i]->stalled, memory_order_relaxed))
            wakes += bell_ring(&tree->wake->handler[i]);
        CRASH_POINT("writer_handler_rung");
    }
    count(tree->page, COUNT_WAKES, wakes);
}

/* In all lanes, about. */
static uint64_t waiting_bytes(const struct writer *writer)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < writer->tree->control->settings.lanes; i++)
        /* relaxed: what else comes meanwhile changes nothing but speed */
        bytes += atomic_load_explicit(&writer->tree->lanes[i]->ring.tail.position, memory_order_relaxed) - writer->lanes[i].position;
    return bytes;
}

uint32_t writer_step(struct writer *writer)
{
    struct tree *tree = writer->tree;
    struct batch batch = {0};
    uint64_t from[LANES_MAX];
    const uint32_t lanes = tree->control->settings.lanes;
    const uint64_t now = clock_real_ms();
    if (now > writer->store_ms)
        writer->store_ms = now; /* never back, whatever the clock does */
    /* relaxed: whoever waits since then will be counted for the next sync, a little sooner or later */
    const uint64_t flushed = atomic_load_explicit(&tree->control->flushed.value, memory_order_relaxed);
    if (flushed != writer->asked_at) {
        writer->asked_at = flushed;
        memset(writer->asked, 0, sizeof writer->asked);
    }
    batch.small = waiting_bytes(writer) <= SMALL_WRITE_BYTES;
    for (uint32_t i = 0; i < lanes; i++) {
        const uint32_t lane = (writer->first_lane + i) % lanes;
        from[lane] = writer->lanes[lane].position;
        apply_lane(writer, &batch, lane);
    }
    small_write_end(&writer->small);
    writer->first_lane = (writer->first_lane + 1) % lanes;
    writer->waits = batch.waits;
    if (batch.messages == 0)
        return 0;

    CRASH_POINT("writer_applied");
    commit(writer, &batch);
    for (uint32_t i = 0; i < lanes; i++)
        if (from[i] != writer->lanes[i].position)
            deliver_lane(writer, &batch, i, from[i], writer->lanes[i].position);
    free_lanes(writer);
    wake_followers(writer, &batch);
    look_ahead(writer);

    count(tree->page, COUNT_STEPS, 1);
    count(tree->page, COUNT_MESSAGES, batch.messages - batch.rejected);
    count(tree->page, COUNT_REJECTED, batch.rejected);
    count(tree->page, COUNT_BYTES, batch.bytes);
    histogram_record(&tree->page->histogram, batch.messages);
    return batch.messages;
}

/* ---- takeover ------------------------------------------------------------------------------------------------------ */

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
        CRASH_POINT("writer_over_scrubbing");
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
    while (enter_file(writer, at - at % writer->file_size)) { /* where no file is, nothing was written */
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
        enter_file(writer, start);
}

static void deliver_over(struct writer *writer)
{
    struct control *control = writer->tree->control;
    const struct commit_slot last = commit_read(&control->commit);
    struct batch batch = {0};
    for (uint32_t i = 0; i < control->settings.lanes; i++) {
        if (writer->lanes[i].position < last.applied[i]) {
            deliver_lane(writer, &batch, i, writer->lanes[i].position, last.applied[i]);
            count(writer->tree->page, COUNT_REDELIVERED, 1);
            ring_consumer_attach(&writer->lanes[i], &writer->tree->lanes[i]->ring, writer->lanes[i].capacity, last.applied[i]);
        }
    }
    free_lanes(writer);
    batch.bytes = 1; /* reput and the flush service look again, whatever our predecessor told them */
    batch.flush = true;
    wake_followers(writer, &batch);
}

enum run_result writer_take_over(struct writer *writer, uint32_t limit_ms)
{
    struct control *control = writer->tree->control;
    if (!writer->delivered_over) {
        /* release: as in commit() [W1] */
        atomic_store_explicit(&control->wrote.value, writer->wrote, memory_order_release);
        atomic_store_explicit(&control->wrote_ms, writer->store_ms, memory_order_release);
        atomic_store_explicit(&control->flush_wanted, writer->wrote, memory_order_release);
        CRASH_POINT("writer_over_published");
        scrub_tail(writer);
        CRASH_POINT("writer_over_scrubbed");
        deliver_over(writer);
        CRASH_POINT("writer_over_delivered");
        writer->delivered_over = true;
    }
    const uint64_t end = clock_ms() + limit_ms;
    /* acquire: the queues' maxima before the position that covers them [Q1] */
    while (atomic_load_explicit(&control->reput.value, memory_order_acquire) < writer->wrote) {
        tree_beat(writer->tree);
        if (heed_reput(writer))
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
        CRASH_POINT("writer_over_counting");
    }
    look_ahead(writer);
    return RUN_NEED;
}

/* ---- loop ---------------------------------------------------------------------------------------------------------- */

static bool has_news(const struct writer *writer)
{
    const struct tree *tree = writer->tree;
    for (uint32_t i = 0; i < tree->control->settings.lanes; i++)
        /* acquire, after the announcement's fence [B1] */
        if (atomic_load_explicit(&tree->lanes[i]->ring.tail.position, memory_order_acquire) != writer->lanes[i].position)
            return true;
    return false;
}

/* The file that the last batch ended for, or a reason why there is none. */
static bool file_ready(const struct writer *writer)
{
    const struct control *control = writer->tree->control;
    const uint64_t start = writer->file ? writer->file_start + writer->file_size
                                        : writer->wrote - writer->wrote % writer->file_size;
    return atomic_load_explicit(&control->allocated.value, memory_order_acquire) >= start + writer->file_size ||
           atomic_load_explicit(&control->allocated.error, memory_order_acquire) != 0;
}

/* Sleeps until a handler rings, or the allocator when it is a file that is missing. */
static enum bell_wake sleep_for_news(struct writer *writer)
{
    struct tree *tree = writer->tree;
    struct bell *bell = &tree->control->writer_bell;
    tree_sweep(tree);
    writer->session = NULL;
    const uint32_t ticket = bell_announce(bell);
    if (writer->waits ? file_ready(writer) : has_news(writer)) {
        bell_cancel(bell, ticket);
        return BELL_RUNG;
    }
    if (writer->waits)
        bell_ring(&tree->control->allocator_bell);
    count(tree->page, COUNT_SLEEPS, 1);
    return bell_sleep(bell, ticket, BELL_LIMIT_NS);
}

enum run_result writer_run(struct writer *writer, uint32_t limit_ms)
{
    struct tree *tree = writer->tree;
    const uint64_t end = clock_ms() + limit_ms;
    const uint64_t spin_ns = (uint64_t)tree->control->settings.spin_us * 1000u;
    for (;;) {
        const uint32_t messages = writer_step(writer);
        const enum pace_rest rest = messages ? PACE_LOOK : pace_idle(&writer->pace, spin_ns, control_crowded(tree->control));
        if (messages)
            pace_work(&writer->pace, messages);
        if (rest == PACE_SIGNAL || (rest == PACE_SLEEP && sleep_for_news(writer) == BELL_SIGNAL))
            return RUN_SIGNAL;
        tree_beat(tree);
        if (clock_ms() >= end)
            return RUN_TIME;
    }
}

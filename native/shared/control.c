#include "shared/control.h"
#include "base/crash_point.h"

void control_init(struct control *control, const struct settings *settings, uint64_t generation)
{
    assert(handler_lanes(settings) >= 1 && handler_lanes(settings) <= HANDLERS_MAX && settings->own_lanes <= OWN_LANES);
    assert(settings->log_file_size >= settings->message_max + RECORD_BLANK_SIZE);
    assert(ring_stride(sizeof(struct lane_record) + settings->message_max) <= settings->lane_capacity / 2);
    segment_init(control, SEGMENT_CONTROL, sizeof *control, generation);
    control->settings = *settings;
    /* relaxed: no other process has the mapping yet */
    atomic_store_explicit(&control->tree_state, TREE_STARTING, memory_order_relaxed);
}

void wake_init(struct wake *wake, uint64_t generation)
{
    segment_init(wake, SEGMENT_WAKE, sizeof *wake, generation);
}

struct commit_slot commit_read(const struct commit_record *record)
{
    /* acquire: pairs with the release in commit_write [C1]. Only a successor reads, when the writer is dead: no retry. */
    const uint64_t version = atomic_load_explicit(&record->version, memory_order_acquire);
    return record->slot[version & 1];
}

void commit_write(struct commit_record *record, const struct commit_slot *slot)
{
    const uint64_t version = atomic_load_explicit(&record->version, memory_order_relaxed); /* only we write it */
    record->slot[(version + 1) & 1] = *slot;
    CRASH_POINT("control_commit_filled");
    /* release: the slot, and the log bytes and notes it speaks of, before the flip [C1] */
    atomic_store_explicit(&record->version, version + 1, memory_order_release);
}

/* acquire, in every look from Python, here and below: a reader that sees a position may read what it covers. Pairs with the
 * release of the process that raises it [W1, F1, P1]. */
static uint64_t look(const struct position *position)
{
    return atomic_load_explicit(&position->value, memory_order_acquire);
}

static uint32_t look_error(const struct position *position)
{
    /* acquire: the position beside it is not older than its error */
    return atomic_load_explicit(&position->error, memory_order_acquire);
}

int control_half_state(const struct control *control, uint64_t offset) { return (int)halves_state(&control->halves, offset); }

uint64_t control_next_open_half(const struct control *control, uint64_t from, uint64_t end)
{
    return halves_next_open(&control->halves, from, end);
}

uint64_t control_count_open_halves(const struct control *control, uint64_t from, uint64_t end)
{
    return halves_count_open(&control->halves, from, end);
}

bool control_halves_ready(const struct control *control)
{
    /* acquire: what is known of them, before the word that says so */
    return atomic_load_explicit(&control->halves.ready, memory_order_acquire);
}

uint64_t control_halves_known(const struct control *control)
{
    return atomic_load_explicit(&control->halves.known, memory_order_acquire); /* acquire: as in halves_state [Z1] */
}

uint64_t control_halves_floor(const struct control *control)
{
    /* relaxed: it only grows */
    return atomic_load_explicit(&control->halves.floor, memory_order_relaxed);
}

uint64_t control_commit_of(const struct control *control, const uint8_t *group, uint32_t group_size, const uint8_t *topic, uint32_t topic_size,
                           uint32_t queue)
{
    const struct commit_key key = commit_key((struct slice){group, group_size}, (struct slice){topic, topic_size}, queue);
    return commit_table_get(&control->commits, &key);
}

bool control_commits_ready(const struct control *control)
{
    return atomic_load_explicit(&control->commits.ready, memory_order_acquire); /* acquire: as in control_halves_ready */
}

/* relaxed, all three: see commit_table.h */
uint64_t control_commits_next(const struct control *control) { return atomic_load_explicit(&control->commits.next, memory_order_relaxed); }

uint64_t control_commits_count(const struct control *control) { return atomic_load_explicit(&control->commits.count, memory_order_relaxed); }

uint32_t control_commits_copy(const struct control *control, uint64_t *entries, uint32_t room)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < COMMIT_PLACES && count < room; i++) {
        const struct commit_place *place = &control->commits.place[i];
        const uint64_t first = atomic_load_explicit(&place->key[0], memory_order_relaxed);
        const uint64_t value = atomic_load_explicit(&place->value, memory_order_relaxed);
        if (!first || !value)
            continue;
        entries[3 * count] = first;
        entries[3 * count + 1] = atomic_load_explicit(&place->key[1], memory_order_relaxed);
        entries[3 * count++ + 2] = value - 1;
    }
    return count;
}

void session_join_group(struct control *control, uint32_t slot, const uint8_t *group, uint32_t group_size)
{
    assert(slot < SESSIONS_MAX);
    const struct commit_key none = {{0, 0}};
    const struct commit_key key = group_size ? commit_key((struct slice){group, group_size}, (struct slice){NULL, 0}, 0) : none;
    struct session_entry *entry = &control->sessions[slot];
    /* relaxed: words that order nothing; the client hears of it by its socket. Their partner is is_member in handler_commits.c. */
    for (uint32_t i = 0; i < 2; i++)
        atomic_store_explicit(&entry->member_of[i], key.word[i], memory_order_relaxed);
}

int delay_cancel_outcome(const struct control *control, uint64_t offset) { return (int)delay_record_outcome(&control->delay, offset); }

void control_positions(const struct control *control, struct positions_seen *seen)
{
    /* followers before leaders, so that no follower seems to be ahead of what it follows */
    seen->reput = look(&control->reput);
    seen->flushed = look(&control->flushed);
    seen->confirmed = look(&control->confirmed);
    seen->wrote = look(&control->wrote);
    seen->allocated = look(&control->allocated);
    seen->min_offset = look(&control->min_offset);
    seen->wrote_ms = atomic_load_explicit(&control->wrote_ms, memory_order_acquire);
    seen->reput_ms = atomic_load_explicit(&control->reput_ms, memory_order_acquire);
    seen->wrote_error = look_error(&control->wrote);
    seen->flushed_error = look_error(&control->flushed);
    seen->reput_error = look_error(&control->reput);
    seen->allocated_error = look_error(&control->allocated);
    seen->queues_error = control_queues_error(control);
}

static bool await(const struct position *position, struct bell *bell, uint64_t end, uint64_t limit_ns)
{
    const uint32_t ticket = bell_announce(bell);
    /* The look after the announcement: reput and the flush service publish, then look who sleeps [B1, B2]. */
    if (look(position) < end)
        bell_sleep(bell, ticket, limit_ns < BELL_LIMIT_NS ? limit_ns : BELL_LIMIT_NS);
    else
        bell_cancel(bell, ticket);
    return look(position) >= end;
}

bool control_await_reput(const struct control *control, struct wake *wake, uint64_t end, uint64_t limit_ns)
{
    return await(&control->reput, &wake->reput, end, limit_ns);
}

bool control_await_flushed(const struct control *control, struct wake *wake, uint64_t end, uint64_t limit_ns)
{
    return await(&control->flushed, &wake->flushed, end, limit_ns);
}

struct settings *control_settings(struct control *control) { return &control->settings; }

struct actor_page *control_actor(struct control *control, uint32_t index)
{
    assert(index < ACTORS_MAX);
    return &control->actors[index];
}

uint32_t control_tree_state(const struct control *control)
{
    /* acquire: what the supervisor did before it said so. Pairs with control_set_tree_state. */
    return atomic_load_explicit(&control->tree_state, memory_order_acquire);
}

void control_set_tree_state(struct control *control, uint32_t state)
{
    /* release: tables that are filled before "running". Pairs with control_tree_state. */
    atomic_store_explicit(&control->tree_state, state, memory_order_release);
}

void control_recovered(struct control *control, uint64_t log_min, uint64_t log_end, uint64_t reput, uint64_t flushed,
                       uint64_t allocated, uint64_t store_ms)
{
    assert(reput <= log_end && flushed <= log_end && log_end <= allocated);
    const struct commit_slot slot = {.wrote = log_end, .store_ms = store_ms};
    commit_write(&control->commit, &slot);
    /* relaxed: no other process has these mappings yet */
    atomic_store_explicit(&control->min_offset.value, log_min, memory_order_relaxed);
    atomic_store_explicit(&control->wrote.value, log_end, memory_order_relaxed);
    atomic_store_explicit(&control->wrote_ms, store_ms, memory_order_relaxed);
    atomic_store_explicit(&control->reput.value, reput, memory_order_relaxed);
    atomic_store_explicit(&control->flushed.value, flushed, memory_order_relaxed);
    atomic_store_explicit(&control->allocated.value, allocated, memory_order_relaxed);
    atomic_store_explicit(&control->warmed.value, log_end, memory_order_relaxed);
}

void control_set_rising(struct control *control, uint64_t from) { control->rising_from = from; }

uint64_t control_rising(const struct control *control) { return control->rising_from; }

void control_set_allocated(struct control *control, uint64_t end, uint32_t error)
{
    /* release, both: the file exists before the writer opens it. Pairs with the acquires in writer_log.c [A1]. */
    atomic_store_explicit(&control->allocated.error, error, memory_order_release);
    atomic_store_explicit(&control->allocated.value, end, memory_order_release);
    bell_ring(&control->writer_bell);
}

void control_raise_min_offset(struct control *control, uint64_t log_min)
{
    /* relaxed: only the flush service writes it */
    if (log_min > atomic_load_explicit(&control->min_offset.value, memory_order_relaxed)) {
        /* release: the queues' min offsets before it, and it before the files are unlinked. Pairs with the acquires in reader.c [O1]. */
        atomic_store_explicit(&control->min_offset.value, log_min, memory_order_release);
    }
}

static void sessions_changed(struct control *control)
{
    /* release: pairs with the acquire in tree_sweep */
    atomic_fetch_add_explicit(&control->sessions_version, 1, memory_order_release);
}

void session_claim_entry(struct control *control, uint32_t slot, uint32_t epoch)
{
    assert(slot < SESSIONS_MAX && epoch != 0);
    struct session_entry *entry = &control->sessions[slot];
    assert(atomic_load_explicit(&entry->state, memory_order_relaxed) == SESSION_FREE);
    /* release: the FREE state before the new epoch, as in session_open_entry [E2] */
    atomic_thread_fence(memory_order_release);
    entry->shape.epoch = epoch;
}

void session_open_entry(struct control *control, int32_t descriptor, uint64_t inode, const struct session_shape *shape)
{
    assert(shape->slot < SESSIONS_MAX && shape->epoch != 0);
    struct session_entry *entry = &control->sessions[shape->slot];
    assert(atomic_load_explicit(&entry->state, memory_order_relaxed) == SESSION_FREE);
    /* release: the FREE state before the new line, for a process that copies it meanwhile and then looks again [E2] */
    atomic_thread_fence(memory_order_release);
    entry->descriptor = descriptor;
    entry->inode = inode;
    entry->shape = *shape;
    /* relaxed, all: the state below publishes them */
    for (uint32_t i = 0; i < 2; i++)
        atomic_store_explicit(&entry->member_of[i], 0, memory_order_relaxed);
    atomic_store_explicit(&entry->completed, 0, memory_order_relaxed);
    CRASH_POINT("control_entry_filled");
    /* release: the entry before its state [E1] */
    atomic_store_explicit(&entry->state, SESSION_READY, memory_order_release);
    CRASH_POINT("control_entry_ready");
    sessions_changed(control);
}

void session_set_state(struct control *control, uint32_t slot, uint32_t state)
{
    assert(slot < SESSIONS_MAX);
    /* release: what the coordinator did with the session before its new state [E1] */
    atomic_store_explicit(&control->sessions[slot].state, state, memory_order_release);
    sessions_changed(control);
}

bool session_move_state(struct control *control, uint32_t slot, uint32_t from, uint32_t to)
{
    assert(slot < SESSIONS_MAX);
    /* release: what the caller did with the session before its new state; acquire on neither side, nothing is read */
    if (!atomic_compare_exchange_strong_explicit(&control->sessions[slot].state, &from, to, memory_order_release,
                                                 memory_order_relaxed))
        return false;
    sessions_changed(control);
    return true;
}

uint32_t session_get_state(const struct control *control, uint32_t slot)
{
    assert(slot < SESSIONS_MAX);
    /* acquire: what the handler published before DRAINED. Pairs with session_move_state. */
    return atomic_load_explicit(&control->sessions[slot].state, memory_order_acquire);
}

void session_get_entry(const struct control *control, uint32_t slot, struct session_shape *shape, int32_t *descriptor,
                       uint64_t *completed)
{
    assert(slot < SESSIONS_MAX);
    const struct session_entry *entry = &control->sessions[slot];
    *shape = entry->shape;
    *descriptor = entry->descriptor;
    /* acquire: the verdicts before their count. Pairs with the writer's release. */
    *completed = atomic_load_explicit(&entry->completed, memory_order_acquire);
}

void control_set_queues_error(struct control *control, uint32_t error)
{
    /* relaxed: only the number is used */
    atomic_store_explicit(&control->queues_error, error, memory_order_relaxed);
}

uint32_t control_queues_error(const struct control *control)
{
    /* relaxed: likewise */
    return atomic_load_explicit(&control->queues_error, memory_order_relaxed);
}

/* relaxed, here and below: only the numbers are used, and the flush service looks every few seconds */
void control_set_clock_ahead(struct control *control, uint64_t ms)
{
    atomic_store_explicit(&control->clock_ahead_ms, ms, memory_order_relaxed);
}

uint64_t control_clock_ahead(const struct control *control)
{
    return atomic_load_explicit(&control->clock_ahead_ms, memory_order_relaxed);
}

void control_believe_clock(struct control *control, uint64_t now_ms)
{
    atomic_store_explicit(&control->clock_believed_ms, now_ms, memory_order_relaxed);
}

uint64_t control_clock_believed(const struct control *control)
{
    return atomic_load_explicit(&control->clock_believed_ms, memory_order_relaxed);
}

void control_raise_work(struct control *control, struct wake *wake)
{
    /* release: the plan's file before its version. Pairs with the acquire in control_work_version [J2]. */
    atomic_fetch_add_explicit(&control->work_version, 1, memory_order_release);
    bell_ring(&wake->dispatcher);
}

void control_ring_dispatcher(struct wake *wake) { bell_ring(&wake->dispatcher); }

uint32_t control_work_version(const struct control *control)
{
    /* acquire: pairs with the release in control_raise_work [J2] */
    return atomic_load_explicit(&control->work_version, memory_order_acquire);
}

uint64_t group_epoch(const struct control *control, uint32_t group)
{
    assert(group < GROUPS_MAX);
    /* acquire: what the coordinator did before it raised it [G1] */
    return atomic_load_explicit(&control->groups[group].epoch, memory_order_acquire);
}

uint64_t group_raise_epoch(struct control *control, uint32_t group)
{
    assert(group < GROUPS_MAX);
    const uint64_t epoch = atomic_fetch_add_explicit(&control->groups[group].epoch, 1, memory_order_seq_cst) + 1;
    /* seq_cst: our epoch before our reads of offset words; a member stores its word, fences, then reads the epoch. One of
     * us sees the other [G1]. */
    atomic_thread_fence(memory_order_seq_cst);
    return epoch;
}

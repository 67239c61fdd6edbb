/* The control block and the wake words: what the processes of a tree know about each other.
 *
 * Only the broker's processes write the control block; clients map it read-only. Clients may also write the wake segment: bells
 * and news bits, in which a false value causes a late or spurious wake-up of at most BELL_LIMIT_NS.
 */
#ifndef ORBITMQ_CONTROL_H
#define ORBITMQ_CONTROL_H

#include "shared/bell.h"
#include "shared/commit_table.h"
#include "shared/counters.h"
#include "shared/delay_record.h"
#include "shared/halves.h"
#include "shared/lane.h"
#include "shared/session.h"
#include "shared/work_note.h"

#define SESSIONS_MAX 1024u
#define SESSION_WORDS (SESSIONS_MAX / 64)
#define QUEUES_MAX 65536u
#define QUEUE_WORDS (QUEUES_MAX / 64)
#define GROUPS_MAX 1024u
#define ACTORS_MAX 32u
#define FLUSH_CROWD 4u
#define GATEWAYS_MAX 4u

/* A position that only grows, and the reason if it has stopped. */
struct position {
    _Alignas(SEGMENT_LINE) _Atomic uint64_t value;
    _Atomic uint32_t error;      /* errno that stopped it, 0 while it may grow */
};

/* The writer's commit record: two slots, flipped by one store to `version`, so that a successor sees either the whole of
 * a write group or nothing of it. Slot version & 1 is the valid one. */
struct commit_slot {
    uint64_t wrote;               /* end of the log */
    uint64_t store_ms;            /* newest store timestamp given out */
    uint64_t applied[LANES_MAX];  /* how far each lane is in the log */
};
struct commit_record {
    _Alignas(SEGMENT_LINE) _Atomic uint64_t version; /* [C1] release: slot before version */
    _Alignas(SEGMENT_LINE) struct commit_slot slot[2];
};

/* SESSION_LOST: the writer has given it up. The handler may be in the middle of it, and its slot is not freed before the
 * handler has let go. So the handler answers with SESSION_FAULTY, as it answers SESSION_CLOSING with SESSION_DRAINED. */
enum session_state {
    SESSION_FREE = 0,
    SESSION_READY = 1,
    SESSION_CLOSING = 2,
    SESSION_DRAINED = 3,
    SESSION_FAULTY = 4,
    SESSION_LOST = 5,
};

/* What the broker itself knows about a session; clients cannot write here. */
struct session_entry {
    /* the coordinator's; SESSION_DRAINED and SESSION_FAULTY are the handler's answers */
    _Alignas(SEGMENT_LINE) _Atomic uint32_t state; /* release after the rest of the line [E1] */
    int32_t descriptor;   /* number of the memfd in the supervisor: /proc/<supervisor>/fd/<descriptor> */
    uint64_t inode;       /* of the memfd, to tell it from a later one under the same number */
    struct session_shape shape;
    _Atomic uint64_t member_of[2]; /* commit_key of the group of which it is a member; zeros: of none */
    /* the handler's alone: its position in the submission ring, the sequence of the last message before it, and the session
     * that this is about. Two slots, flipped by `version`, because a note must be whole when a successor reads it. If the epoch
     * is another one, nothing is taken: so nobody needs to clear a note, and a late one does not count for the next session */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t taken_version;
    struct { uint64_t position, sequence, epoch; } taken[2];
    /* the writer's: verdicts delivered; the copy in the session is for the client */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t completed;
    /* the dispatcher's, of a worker: others wait for what this one acknowledges, so it is to ring for each answer [J5] */
    _Atomic uint32_t heeded;
};

struct group_entry {
    _Alignas(SEGMENT_LINE) _Atomic uint64_t epoch; /* raised at every new assignment; the low 16 bits stand in offset words */
};

enum tree_state { TREE_STARTING = 1, TREE_RUNNING = 2, TREE_STOPPING = 3, TREE_STOPPED = 4 };

/* Why a store was opened read-only: its broker was told to, or recovery found damage. */
enum { READ_ONLY_TOLD = 1, READ_ONLY_DAMAGED = 2 };

/* Set once by the supervisor, before any actor starts. Sizes in bytes, times in milliseconds. */
struct settings {
    uint64_t log_file_size;       /* of one CommitLog file */
    uint64_t lane_capacity;
    uint32_t queue_file_units;    /* units of one ConsumeQueue file */
    uint32_t index_slots;         /* of one IndexFile */
    uint32_t index_entries;       /* likewise, one more than it may hold */
    uint32_t lanes;               /* to the writer: those of the send handlers, then own_lanes */
    uint32_t message_max;         /* largest record */
    uint32_t flush_interval_ms;
    uint32_t flush_every_message; /* 1: every message waits for the disk, whatever its sender asked for */
    uint32_t go_on_unsynced;      /* 1: after a failed sync of the log, messages that do not wait for the disk are accepted */
    uint32_t read_only;           /* READ_ONLY_*; 0: it may be written */
    uint32_t untouched;           /* 1: queues and index stay as they are too; in a damaged store they are brought up to date */
    uint32_t own_lanes;           /* OWN_LANES; 0: a test has no such actors */
    uint32_t together;            /* 1: the writer is stepped by a process that sleeps behind the bell of handler 0 (stages.h) */
    uint32_t spin_us;             /* how long an idle stage spins before it sleeps; 0 if cores are short */
    struct record_host store_host; /* what records name as the broker */
    uint32_t supervisor_pid;
    uint32_t retention_hours;     /* of topics without a time of their own; 0: for ever */
    uint64_t retention_bytes;     /* of the CommitLog's files; 0: any number */
    uint32_t dedup_window_ms;     /* how long the writer remembers the id of a message */
    uint32_t dedup_ids;           /* how many it remembers at most */
    char store[3960];             /* absolute path of the store's root, NUL-terminated */
};

struct control {
    struct segment_header header;
    struct settings settings;
    uint64_t rising_from; /* set once, like the settings: from this physical offset on no record is followed by one of an earlier
                           * time (docs/time.md) */
    _Alignas(SEGMENT_LINE) _Atomic uint32_t tree_state;
    _Atomic uint32_t sessions_version; /* raised when a session entry changes state */
    _Alignas(SEGMENT_LINE) struct position wrote;     /* the writer's */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t wrote_ms; /* store timestamp of the newest record below wrote; stored after it */
    struct position flushed;   /* the flush service's: durable below here */
    _Alignas(SEGMENT_LINE) _Atomic uint32_t syncing; /* the flush service's: 1 from before a sync of the log until its success is published */
    struct position confirmed; /* the replica's */
    struct position reput;     /* reput's: readable below here */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t reput_ms; /* reput's: store timestamp of the newest record below reput */
    struct position allocated; /* the allocator's: end of the last CommitLog file that is ready; error: why no more */
    struct position warmed;    /* the allocator's: below here the log's pages are in memory */
    _Alignas(SEGMENT_LINE) _Atomic uint32_t queues_error; /* the flush service's: errno of a failed sync of queues or index, or 0 */
    _Atomic uint64_t clock_ahead_ms; /* likewise: how far the clock is ahead of the time that passed, so that nothing expires; else 0 */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t clock_believed_ms; /* the coordinator's: what the clock showed when an operator last said that it is right */
    struct position min_offset; /* the flush service's: start of the oldest CommitLog file */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t flush_wanted; /* the writer's: end of the newest record somebody waits for */
    _Atomic uint64_t flush_askers; /* the writer's: raised by one for each session that comes to wait for the disk, once between two syncs */
    _Alignas(SEGMENT_LINE) _Atomic uint32_t flush_crowd; /* the flush service's: sessions that waited when the last sync was over, those whom it served included */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t zeroing; /* the writer's: end of what it began to zero behind wrote, until that is on disk; else 0 */
    struct bell writer_bell;
    struct bell reput_bell;
    struct bell allocator_bell;
    struct bell gateway_bell[GATEWAYS_MAX]; /* who rings one writes to that gateway's event (attachment_ring_gateway) */
    struct commit_record commit;
    struct delay_record delay; /* the scheduler's */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t delay_wakes_ms; /* [K2] when the scheduler will look again, by the clock; 0: at once */
    /* [lane][word]: sessions with fresh verdicts whose clients sleep; the writer sets bits, the handler takes them */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t deliver[LANES_MAX][SESSION_WORDS];
    /* [word]: queues with arrivals for more than one session; reput sets bits, the notifier takes them */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t dirty[QUEUE_WORDS];
    /* [word]: queues from which the dispatcher hands out; reput rings it for their messages. The dispatcher's [J1] */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t worked[QUEUE_WORDS];
    /* the gateways that have bits in `held`; each of them its own bit, so that reput looks no further while nobody waits [Y1] */
    _Alignas(SEGMENT_LINE) _Atomic uint32_t holding;
    /* [gateway][word]: queues for whose messages it holds requests; reput rings it for them. That gateway's [Y1] */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t held[GATEWAYS_MAX][QUEUE_WORDS];
    /* the lead's, of the gateways: raised when a subscription has changed, before whoever changed it is answered */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t subscriptions;
    /* [word]: sessions by which the lead of the gateways takes messages that clients pop; the dispatcher rings it for them. The lead's [Y2] */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t popped[SESSION_WORDS];
    _Alignas(SEGMENT_LINE) _Atomic uint32_t work_version; /* the coordinator's: raised when the work plan was replaced [J2] */
    struct work_note work_note;
    struct halves halves; /* the writer's */
    struct commit_table commits; /* likewise */
    struct session_entry sessions[SESSIONS_MAX];
    struct group_entry groups[GROUPS_MAX];
    struct actor_page actors[ACTORS_MAX];
};

/* The page of each process. Handlers follow from ACTOR_HANDLER on. */
enum actor_index {
    ACTOR_SUPERVISOR = 0,
    ACTOR_REPUT = 1,
    ACTOR_WRITER = 2,
    ACTOR_FLUSH = 3,
    ACTOR_NOTIFIER = 4,
    ACTOR_COORDINATOR = 5,
    ACTOR_ALLOCATOR = 6,
    ACTOR_SCHEDULER = 7,
    ACTOR_DISPATCHER = 8,
    ACTOR_GATEWAY = 9, /* the lead; the fronts follow */
    ACTOR_HANDLER = ACTOR_GATEWAY + GATEWAYS_MAX,
};

struct wake {
    struct segment_header header;
    struct bell handler[LANES_MAX]; /* by lane, also of those that are no handler's */
    struct bell notifier;
    struct bell flush;    /* the flush service sleeps here */
    struct bell flushed;  /* everybody who waits for the flushed position sleeps here */
    struct bell reput;    /* likewise, for the reput position */
    struct bell dispatcher;
    /* [lane][word]: sessions whose submission ring has news */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t news[LANES_MAX][SESSION_WORDS];
    /* sessions whose list of interests has changed */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t interests[SESSION_WORDS];
};

static_assert(ACTOR_HANDLER + HANDLERS_MAX <= ACTORS_MAX, "each process has a page");

void control_init(struct control *control, const struct settings *settings, uint64_t generation);
void wake_init(struct wake *wake, uint64_t generation);

/* Sleeps once, at most limit_ns and at most BELL_LIMIT_NS, unless the reput position has reached `end`; true if it has. */
bool control_await_reput(const struct control *control, struct wake *wake, uint64_t end, uint64_t limit_ns);
/* The same for the flushed position. */
bool control_await_flushed(const struct control *control, struct wake *wake, uint64_t end, uint64_t limit_ns);

/* For Python, which can access atomics only through these. */
struct positions_seen {
    uint64_t wrote, flushed, confirmed, reput, allocated, min_offset, wrote_ms, reput_ms;
    uint32_t wrote_error, flushed_error, reput_error, allocated_error, queues_error;
};
void control_positions(const struct control *control, struct positions_seen *seen);
/* delay_record_outcome, of this tree: an enum cancel_outcome. */
int delay_cancel_outcome(const struct control *control, uint64_t offset);
/* Of the half message at this offset of RMQ_SYS_TRANS_HALF_TOPIC: an enum half_state. */
int control_half_state(const struct control *control, uint64_t offset);
uint64_t control_next_open_half(const struct control *control, uint64_t from, uint64_t end);
uint64_t control_count_open_halves(const struct control *control, uint64_t from, uint64_t end);
bool control_halves_ready(const struct control *control);
/* All operation messages are about half messages below it. */
uint64_t control_halves_known(const struct control *control);
/* All half messages below it are settled. */
uint64_t control_halves_floor(const struct control *control);
/* Where a group is whose offsets are committed with atomic batches; COMMIT_FROM_NOTHING: none was. */
uint64_t control_commit_of(const struct control *control, const uint8_t *group, uint32_t group_size, const uint8_t *topic, uint32_t topic_size,
                           uint32_t queue);
bool control_commits_ready(const struct control *control);
uint64_t control_commits_next(const struct control *control);
uint64_t control_commits_count(const struct control *control);
/* All of them, `room` at most, as three words each: the key, and the offset. Returns how many. */
uint32_t control_commits_copy(const struct control *control, uint64_t *entries, uint32_t room);
struct settings *control_settings(struct control *control);
struct actor_page *control_actor(struct control *control, uint32_t index);
uint32_t control_tree_state(const struct control *control);
void control_set_tree_state(struct control *control, uint32_t state);

/* The supervisor, before the first actor starts: where recovery ended, and where reput has to begin. */
void control_recovered(struct control *control, uint64_t log_min, uint64_t log_end, uint64_t reput, uint64_t flushed,
                       uint64_t allocated, uint64_t store_ms);

/* Likewise: what recovery knows of the order of times. */
void control_set_rising(struct control *control, uint64_t from);
uint64_t control_rising(const struct control *control);

/* The allocator's Python half: a CommitLog file is ready, or could not be made (error: errno). Wakes the writer. */
void control_set_allocated(struct control *control, uint64_t end, uint32_t error);

/* The flush service's Python half: the log begins here now. The queues' min offsets were raised before; the files below may be
 * removed. */
void control_raise_min_offset(struct control *control, uint64_t log_min);

/* The coordinator: session_claim_entry notes in a FREE entry that this epoch has been given to a session, which may never be in
 * the entry: the epoch is not given again. session_open_entry fills a FREE entry and makes it READY; session_set_state moves it
 * on. These two raise sessions_version. */
void session_claim_entry(struct control *control, uint32_t slot, uint32_t epoch);
void session_open_entry(struct control *control, int32_t descriptor, uint64_t inode, const struct session_shape *shape);
void session_set_state(struct control *control, uint32_t slot, uint32_t state);
/* Moves an entry on only from the state that the caller knows; false if somebody else was faster. If a handler's answer comes
 * after the coordinator has freed the slot, or the end of a session comes when a handler has just found it faulty, nothing
 * changes. */
bool session_move_state(struct control *control, uint32_t slot, uint32_t from, uint32_t to);
/* The coordinator: the session is a member of this group; group_size 0: of none. */
void session_join_group(struct control *control, uint32_t slot, const uint8_t *group, uint32_t group_size);
uint32_t session_get_state(const struct control *control, uint32_t slot);
/* Shape (and descriptor) of the entry as it stands; completed: verdicts delivered. */
void session_get_entry(const struct control *control, uint32_t slot, struct session_shape *shape, int32_t *descriptor,
                       uint64_t *completed);

/* Queues and index are synced no more in this life of the tree; the next start makes them anew. The flush service only. */
void control_set_queues_error(struct control *control, uint32_t error);
uint32_t control_queues_error(const struct control *control);

/* Nothing is removed by age while the clock is ahead of the time that passed. The flush service says how far; the coordinator
 * says that an operator has confirmed it, with what it showed then. */
void control_set_clock_ahead(struct control *control, uint64_t ms);
uint64_t control_clock_ahead(const struct control *control);
void control_believe_clock(struct control *control, uint64_t now_ms);
uint64_t control_clock_believed(const struct control *control);

/* The coordinator: the work plan says something new. */
void control_raise_work(struct control *control, struct wake *wake);
/* Wakes the dispatcher: a session that takes work has changed. */
void control_ring_dispatcher(struct wake *wake);
uint32_t control_work_version(const struct control *control);

uint64_t group_epoch(const struct control *control, uint32_t group);
/* Raises the epoch and fences, so that offset words read afterwards were stored before, or by a member that will see the
 * new epoch and report Fenced [G1]. */
uint64_t group_raise_epoch(struct control *control, uint32_t group);

/* So many sessions wait for the disk together that a process which stays awake would keep the processors from others. */
static inline bool control_crowded(const struct control *control)
{
    /* relaxed: a hint */
    return atomic_load_explicit(&control->flush_crowd, memory_order_relaxed) >= FLUSH_CROWD;
}

/* Lanes that have a send handler. */
static inline uint32_t handler_lanes(const struct settings *settings) { return settings->lanes - settings->own_lanes; }

/* The lane of an actor that puts records into the log itself. */
static inline uint32_t own_lane(const struct settings *settings, enum own_lane own) { return handler_lanes(settings) + (uint32_t)own; }

/* A session belongs to the handler slot % handler_lanes. */
static inline uint32_t session_lane(const struct settings *settings, uint32_t slot) { return slot % handler_lanes(settings); }

/* The commit record's valid slot, copied. */
struct commit_slot commit_read(const struct commit_record *record);
/* Fills the other slot and flips. The writer only. */
void commit_write(struct commit_record *record, const struct commit_slot *slot);

#endif

/* What the files of the writer share: its state, one write group, and the calls from one file to another.
 *
 *   writer.c           apply, commit, free
 *   writer_loop.c      when there is a next group
 *   writer_log.c       where the next record goes: files entered and left, pages made ready
 *   writer_deliver.c   verdicts into the sessions' slots
 *   writer_takeover.c  what a predecessor left
 *   writer_dedup.c     which messages with an id were stored before
 *   writer_commits.c   where groups are whose offsets are committed with atomic batches
 *   writer_settle.c    which half messages are settled, and how
 */
#ifndef ORBITMQ_WRITER_PARTS_H
#define ORBITMQ_WRITER_PARTS_H

#include "format/log_map.h"
#include "format/log_walk.h"
#include "base/pace.h"
#include "actors/writer/dedup_table.h"
#include "actors/writer/small_write.h"
#include "shared/verdict.h"
#include "actors/writer/writer.h"

/* The session that a record of a lane comes from. */
struct addressee {
    uint32_t slot, epoch;       /* SESSIONS_MAX: none yet */
    bool gone;                  /* the slot is another session's, or nobody's; or the record is an actor's own */
    uint64_t window;
    struct completion *slots;   /* NULL if it is gone, or we cannot map it */
};

#define WRITER_SETTLED_MAX 1024u /* half messages that one group settles */

/* The ids that are remembered. */
struct writer_dedup {
    struct dedup_table table;
    struct log_map log;     /* where records are compared; read-only */
    struct log_walk walk;   /* of the takeover, while it is loading */
    uint64_t seed[2];
    uint64_t hash, family;  /* of the message that was judged last */
    uint64_t shown;         /* how many the counters say there are */
    bool marked;            /* this writer has made sure that a successor looks for ids */
    bool loading, loaded;
    bool short_of_memory;
    struct completion places[SESSION_WINDOW_MAX]; /* of the messages of the atomic batch that was judged last, if it is a duplicate */
};

#define WRITER_COMMITS_MAX 16384u /* offsets that one group commits */

/* The offsets of groups. */
struct writer_commits {
    struct commit_table *now; /* with the write group that is being made */
    struct made_commit { struct commit_key key; uint64_t to, end; } *made; /* what that has committed; end: of its record */
    uint32_t count;
    uint64_t next;            /* queue offset behind its last record; 0: as before */
};

struct writer {
    struct attachment *attachment;
    struct log_map map;
    struct ring_consumer lanes[LANES_MAX];
    uint64_t file_size;
    uint8_t *file;          /* the mapped file that holds `wrote`, or NULL */
    uint64_t file_start;    /* its physical offset */
    uint64_t populated;     /* bytes of it whose pages are ready */
    uint64_t wrote;         /* end of the log, this write group included */
    uint64_t store_ms;      /* newest timestamp given out */
    uint32_t first_lane;    /* where the next group begins, so that no lane starves */
    struct small_write small;
    uint64_t failed_at;     /* where a small write of this group failed; UINT64_MAX: none did */
    struct pace pace;
    int short_of;           /* why the next file could not be mapped just now, a passing errno; 0: it could be */
    bool waits;             /* the last group ended because the next CommitLog file was missing */
    bool delivered_over;    /* takeover: verdicts are delivered and the tail is zeroed */
    uint64_t asked_at;      /* the flushed position that asked[] belongs to */
    uint64_t asked[SESSION_WORDS]; /* sessions that have come to wait for the disk since then */
    uint32_t half_slot;     /* of the queue of half messages, once one was settled */
    uint32_t settled_count; /* of the half messages that this group settles: */
    struct { uint64_t half; enum half_state how; } settled[WRITER_SETTLED_MAX];
    struct addressee to;    /* of the last verdict */
    uint64_t touched[LANES_MAX][SESSION_WORDS]; /* sessions whose answered[] counts */
    struct writer_dedup dedup;
    struct writer_commits commits;
    struct { uint64_t sequence; uint32_t epoch; } answered[SESSIONS_MAX]; /* the newest message that has its verdict */
};

/* The records that one flip of the commit record adds to the log. */
struct write_group {
    uint64_t bytes;
    uint32_t messages;
    uint32_t rejected;
    uint32_t refused[VERDICTS]; /* the same, by verdict */
    uint32_t duplicates;    /* messages that were stored before */
    uint32_t askers;        /* sessions that have begun to wait for the disk */
    bool flush;             /* somebody waits for the disk */
    bool waits;             /* for the next CommitLog file */
    bool small;             /* records that a sender waits for on disk go there as a small write */
    uint64_t wake[LANES_MAX]; /* lanes with fresh deliver bits: clients sleep for a verdict */
};

/* A message of the group is answered with an error. The verdict may come from a lane's record. */
static inline void write_group_refuse(struct write_group *group, uint32_t verdict)
{
    group->rejected++;
    group->refused[verdict < VERDICTS ? verdict : VERDICT_NONE]++;
}

/* ---- writer.c ---- */

void writer_free_lanes(struct writer *writer);

/* Whether so many bytes can be appended for a record now. WRITER_REFUSED: its sender is answered. WRITER_WAITS: the group must end here. */
enum writer_room { WRITER_ROOM, WRITER_REFUSED, WRITER_WAITS };
enum writer_room writer_admit(struct writer *writer, struct write_group *group, uint32_t lane, struct lane_record *record, uint32_t size,
                              uint32_t *detail);

/* Notes that a session waits for the disk; the flush service wants to know how many do. */
void writer_ask(struct writer *writer, struct write_group *group, uint32_t slot);

/* Wakes every process that this group concerns and that sleeps. */
void writer_wake_followers(struct writer *writer, const struct write_group *group);

/* ---- writer_log.c ---- */

/* If reput cannot read on in a log, nothing is appended to it, because nobody could read what is accepted. The error persists,
 * so a look between groups is soon enough. True if it has come. */
bool writer_heed_reput(struct writer *writer);

/* Between groups: lets go of files that are behind us, and asks for the next pages. If the allocator is late, we make them
 * ready ourselves, a step at a time: a fault for each page would cost more. */
void writer_look_ahead(struct writer *writer);

/* Writes records that wait for a small write. False: the disk did not take them, and the log takes nothing any more. */
bool writer_end_small(struct writer *writer);

/* Maps the file that begins at `start`, if it is ready. */
bool writer_enter_file(struct writer *writer, uint64_t start);

/* Makes sure that a record of this size fits at `wrote`; ends the file if it does not. */
bool writer_make_room(struct writer *writer, uint32_t size);

/* The file for which the last group ended, or a reason why there is none. */
bool writer_file_ready(const struct writer *writer);

/* ---- writer_dedup.c ---- */

bool writer_dedup_open(struct writer *writer);
void writer_dedup_close(struct writer *writer);

/* For a record with an id, whose predecessors are in the mapped log: VERDICT_NONE if it may be appended; else its verdict, with
 * the place of the first in *answer, or a detail. */
enum verdict writer_dedup_judge(struct writer *writer, const struct lane_record *record, struct completion *answer);

/* The same for an atomic batch, whose id is that of its first record. If it is a duplicate, dedup.places are those
 * of all its messages. VERDICT_BATCH_DIFFERS: what was stored under the id is something else. */
enum verdict writer_dedup_judge_batch(struct writer *writer, const struct lane_record *first, uint32_t count, struct completion *answer);

/* The record that was judged last has been appended. */
void writer_dedup_note(struct writer *writer, uint64_t at);

/* From time to time: forgets what is older than the window. */
void writer_dedup_tick(struct writer *writer);

/* For a successor: reads the ids of the last window out of the log. False: not done by end_ms, call again. */
bool writer_dedup_load(struct writer *writer, uint64_t end_ms);

/* ---- writer_deliver.c ---- */

/* Puts the verdict on a record into its session's slot. Nobody looks there before writer_deliver. */
void writer_answer(struct writer *writer, uint32_t lane, struct lane_record *record, const struct completion *verdict);

/* For a successor: finds the newest message of each session in a lane from its position up to `applied`. Their slots were filled
 * before `applied` was stored. */
void writer_answered(struct writer *writer, uint32_t lane, uint64_t applied);

/* Tells the sessions of this lane how far their verdicts go. Marks those whose clients sleep. */
void writer_deliver(struct writer *writer, struct write_group *group, uint32_t lane);

/* ---- writer_commits.c ---- */

bool writer_commits_open(struct writer *writer);
void writer_commits_close(struct writer *writer);

/* The write group has no room for the offsets of another record, and is to end. */
bool writer_commits_full(const struct writer *writer);

/* For a record with LANE_COMMITS: VERDICT_APPENDED if its atomic batch may be appended, else why not. */
enum verdict writer_commits_judge(struct writer *writer, const struct lane_record *record, uint32_t *detail);

/* Its atomic batch has been appended, up to `end` in the log. */
void writer_commits_note(struct writer *writer, const struct lane_record *record, uint64_t end);

/* The log ends at failed_at: so do the records. */
void writer_commits_take_back(struct writer *writer);

/* The group is committed: says where the groups are now. */
void writer_committed(struct writer *writer);

/* ---- writer_settle.c ---- */

/* As apply() for a record of type LANE_SETTLE. */
bool writer_settle(struct writer *writer, struct write_group *group, uint32_t lane, struct lane_record *record);

/* The group is committed: says which half messages it has settled. */
void writer_settled(struct writer *writer);

/* For a successor: the same for a record that its predecessor has committed. */
void writer_settled_over(struct writer *writer, struct lane_record *record);

#endif

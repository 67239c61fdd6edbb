/* How far the scheduler is: two slots in the control block, flipped by one store to `version`, as in the writer's commit record.
 *
 * A level's messages are put into the log again in the order of the schedule topic's queue, except that one which the log did not
 * take (a full disk) may be passed by those behind it. So there are a first offset that is not done, and marks for those after it,
 * never further than DELAY_WINDOW from it: scheduler.c relies on that when it reads the log after a death of the whole tree.
 */
#ifndef ORBITMQ_DELAY_RECORD_H
#define ORBITMQ_DELAY_RECORD_H

#include "format/delay.h"
#include "shared/segment.h"

#define DELAY_WINDOW 512u /* messages of one level that may be in the lane together; a multiple of 64 */

#define TIMER_PORTION 512u /* messages with a time that may be in the lane together */

/* Which messages with a time are done: timer.h. */
struct timer_progress {
    uint64_t known;          /* queue offset */
    uint64_t due_ms, offset; /* the cursor: a due time and a queue offset */
    uint64_t floor;          /* queue offset; all before are done */
    uint64_t extra_count;
    uint64_t extra[TIMER_PORTION]; /* queue offsets */
};

struct delay_slot {
    uint64_t lane; /* position in the scheduler's lane: what was put there before it is counted here */
    uint64_t end;  /* physical offset; every record in the log that is counted here, and was put there by this tree, is below */
    uint64_t next[DELAY_LEVELS]; /* by level - 1: the first queue offset that is not done */
    uint64_t done[DELAY_LEVELS][DELAY_WINDOW / 64]; /* of the offsets behind it, at offset % DELAY_WINDOW: those that are */
    struct timer_progress timer;
};

/* What became of a record that cancels a message with a time (timer.c), in the lowest two bits of a note; above them its own queue
 * offset, plus 1. */
enum cancel_outcome {
    CANCEL_OPEN = 0,      /* not decided yet; no note has this */
    CANCEL_NEVER = 1,     /* the message never comes */
    CANCEL_LATE = 2,      /* its time has come, or there is no such message */
    CANCEL_REFUSED = 3,   /* too many messages lie between the oldest that waits and this one (cancelled.h) */
    CANCEL_FORGOTTEN = 4, /* decided, but there is no note any more */
};
#define CANCEL_NOTES (1u << 15)

struct delay_record {
    _Atomic uint64_t cancels[CANCEL_NOTES]; /* at its queue offset % CANCEL_NOTES, the note of what cancels; relaxed: before `counted` [K3] */
    /* [K3] release: notes of all queue offsets below it stand, and the slot says of the messages what they say: no death takes them back */
    _Alignas(SEGMENT_LINE) _Atomic uint64_t counted;
    _Alignas(SEGMENT_LINE) _Atomic uint64_t version; /* [K1] release: slot before version. 0: no scheduler of this tree knows yet */
    _Alignas(SEGMENT_LINE) struct delay_slot slot[2];
};

/* The valid slot, copied; *version: 0 if there is none yet. */
void delay_read(const struct delay_record *record, struct delay_slot *slot, uint64_t *version);
/* Fills the other slot and flips. The scheduler only. */
void delay_write(struct delay_record *record, const struct delay_slot *slot);
/* The scheduler's, at its start: a predecessor may have died before it said so. */
void delay_count(struct delay_record *record, const struct delay_slot *slot);

/* What became of the record at this queue offset of rmq_sys_wheel_timer, which cancels another. Any process. */
enum cancel_outcome delay_record_outcome(const struct delay_record *record, uint64_t offset);
void delay_note_cancel(struct delay_record *record, uint64_t offset, enum cancel_outcome outcome);

static inline bool delay_is_done(const struct delay_slot *slot, uint32_t level, uint64_t offset)
{
    const uint64_t at = offset % DELAY_WINDOW;
    return offset < slot->next[level] || (slot->done[level][at / 64] >> (at % 64) & 1);
}

/* Every message before `next` is done, or gone. */
void delay_pass(struct delay_slot *slot, uint32_t level, uint64_t next);

/* A message is done; and so is every one more than DELAY_WINDOW before it. */
void delay_done(struct delay_slot *slot, uint32_t level, uint64_t offset);

/* True if a message is done that comes after one that is not. */
bool delay_has_gap(const struct delay_slot *slot);

#endif

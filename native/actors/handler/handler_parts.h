/* What the files of the send handler share: its state, and the calls from one file to another.
 *
 *   handler.c          its life and its loop: which sessions have news, whose turn it is, sleeping
 *   handler_intake.c   frames of one session, from its ring into the lane; what a successor must know of them
 *   handler_atomic.c   atomic batches, which go into the lane whole or not at all
 *   handler_judge.c    whether a message may be stored, and what its record has in common with the last one
 *   handler_delay.c    where a delayed message goes instead
 *   handler_half.c     where a half message goes instead
 *   handler_commits.c  offsets of a group that belong to an atomic batch
 *   handler_record.c   records of the log that a message is made of
 *   handler_place.c    whether they are records, or bytes of a body
 *   handler_settle.c   what settles a half message
 *   handler_back.c     what becomes of a message that a group gives back
 */
#ifndef ORBITMQ_HANDLER_PARTS_H
#define ORBITMQ_HANDLER_PARTS_H

#include "actors/handler/handler.h"
#include "base/pace.h"
#include "format/consume_queue.h"
#include "format/group_commit.h"
#include "format/log_map.h"
#include "format/record_template.h"
#include "shared/verdict.h"

/* How far one session is taken. frame_* describe a frame of which some messages are taken already: the lane was full. */
struct intake {
    struct ring_consumer in;
    uint64_t sequence; /* of the last message taken */
    uint64_t skip;     /* messages up to here were taken by a predecessor */
    uint32_t epoch;    /* 0: not attached */
    uint32_t frame_taken; /* messages of the frame at in.position that are taken */
    uint64_t frame_base;  /* sequence before that frame */
    uint64_t frame_at;    /* where in it the next message begins; untrusted and bounded, like any length from a client */
};

/* What the message judged last looked like. */
struct alike {
    const struct topic_entry *topic; /* the topic in the template; NULL: there is none yet */
    bool reserved;                   /* one of the properties in the template has a name that no sender may set */
    bool has_id;                     /* its properties begin with an id (dedup_id.h) */
    bool header;                     /* the template's header is set, for this flag, sys_flag, born_ms and its body_size: */
    uint32_t flag;
    uint32_t sys_flag; /* as the sender wrote it */
    uint64_t born_ms;
    struct record_host born; /* and for this one */
    struct record_template template;
};

/* The head of a frame, copied out, and what is decided for all of its messages: the verdict, or VERDICT_APPENDED so far. */
struct judged_frame {
    struct send_frame head;
    struct record_host born; /* where its messages come from, as who wrote it says */
    const struct topic_entry *topic;
    uint32_t queues; /* that the topic has */
    enum verdict verdict;
};

/* What a message becomes: a record, or a refusal. */
struct judged_message {
    enum verdict verdict;
    uint32_t detail;
    const struct record_template *template; /* of its record, if it is accepted; handler_judge may change it */
    const struct topic_entry *topic;        /* whose record it is */
    uint32_t queue;
    const uint8_t *body;                    /* in the client's memory */
};

struct handler {
    struct attachment *attachment;
    uint32_t index;
    struct lane *lane;
    struct ring_producer out;
    uint64_t published; /* position of the lane's tail that the writer knows */
    uint32_t sessions_version;
    struct pace pace;
    bool stalled;       /* the lane had no room for the next record */
    bool full;          /* this step ends here: stalled, or step_bytes are in the lane since step_from */
    uint64_t step_bytes, step_from;
    uint32_t turn;      /* the session to begin with, when all have their turns */
    uint64_t ending[SESSION_WORDS]; /* sessions whose last turn was nothing but ends of transactions */
    uint32_t ending_turn; /* the one of them to begin with */
    uint32_t ends_first;  /* steps that began with them, since one that did not */
    uint32_t ends;        /* of transactions, that were taken ever */
    uint64_t looked_ms; /* CLOCK_MONOTONIC of the last look at every session */
    uint32_t last_topic; /* the topic resolved last: the checked copy of its entry */
    uint32_t last_hash;
    const struct topic_entry *topic;
    struct alike like;
    uint64_t pending[SESSION_WORDS]; /* sessions that may have frames left */
    struct intake intake[SESSIONS_MAX];
    struct record_template marked;      /* of a message of an atomic batch */
    struct record_template delayed;     /* of a delayed message */
    uint8_t properties[PROPERTIES_MAX]; /* likewise */
    uint8_t given[PROPERTIES_MAX];      /* of a message that comes back with them */
    struct log_map log;                 /* read-only, for half messages and those that are given back */
    uint64_t walked;                    /* a boundary between two of its records */
    struct consume_queue_reader units;  /* of the queue in which one of them was looked for last: */
    uint32_t unit_slot;
    uint32_t unit_buried; /* how often files had been removed by then */
    uint8_t commits[COMMITS_BODY_MAX];  /* the body of a record of offsets */
};

/* What a half and the operation message may not take together of the largest record: so a lane always has room for both. */
#define SETTLE_ROOM 512u

/* What settles a half message. */
struct settling {
    struct lane_settle settle;
    struct record_parts message, op;
    uint32_t size; /* of the message's record; 0: there is none */
    uint32_t slot; /* of its queue */
    char op_body[24];
};

enum intake_result { INTAKE_EMPTY, INTAKE_MORE, INTAKE_STALLED, INTAKE_FAULTY };

/* ---- handler_intake.c ---- */

/* For a successor: notes the newest sequence of each session that is still in the lane. */
void handler_scan_lane(struct handler *handler);

/* Shows the writer what is committed to the lane. */
void handler_publish(struct handler *handler);

/* The session in this slot, attached when it is seen first: fresh, or where a predecessor left off. NULL: there is none with a ring. */
struct session_map *handler_attach(struct handler *handler, uint32_t slot);

/* Takes frames of one session into the lane until there are no more, or its turn is over. *taken counts messages. */
enum intake_result handler_take(struct handler *handler, uint32_t slot, struct session_map *map, uint32_t *taken);

/* Copies the head of the frame at *at out of what a client wrote, and moves *at to its first message. False: it is none. */
bool handler_read_frame(const uint8_t *payload, uint64_t size, uint64_t *at, struct judged_frame *frame);

/* Copies the message at *at out of a frame and moves *at behind it; *content is where its properties begin. False: it is none. */
bool handler_next_message(const uint8_t *payload, uint64_t size, uint64_t *at, struct send_message *message, const uint8_t **content);

/* Judges a message, and finds the topic and queue in which it is stored. */
struct judged_message handler_judge_message(struct handler *handler, const struct judged_frame *frame, struct send_message *message,
                                            const uint8_t *content);

/* Puts it into the lane as the message of this sequence, unpublished. False: the lane has no room now. */
bool handler_put(struct handler *handler, uint32_t slot, uint64_t sequence, uint32_t flags, const struct judged_message *judged);

/* Notes how far the session is taken, once the lane is published; then frees the room in its ring. */
void handler_settle(struct handler *handler, uint32_t slot, struct session_map *map);

/* ---- handler_atomic.c ---- */

/* Takes an atomic batch: INTAKE_MORE if it is in the lane whole, or refused whole; otherwise nothing of it is. */
enum intake_result handler_take_atomic(struct handler *handler, uint32_t slot, const struct session_map *map, const uint8_t *payload,
                                       uint64_t size, uint32_t *taken);

/* ---- handler_judge.c ---- */

/* Sets everything but what handler_read_frame has. */
void handler_judge_frame(struct handler *handler, struct judged_frame *frame);

/* What is wrong with a message of the frame, or VERDICT_APPENDED: then handler->like.template is that of its record. */
enum verdict handler_judge(struct handler *handler, const struct judged_frame *frame, const struct send_message *message,
                           const uint8_t *properties, uint32_t *detail);

/* What the message's record has beside its body, of which only the size is told. */
struct record_parts handler_parts(const struct handler *handler, const struct judged_frame *frame, const struct send_message *message,
                                  const uint8_t *properties);

/* ---- handler_delay.c ---- */

/* For a message that handler_judge has accepted, with a delay level or, if that is SEND_AT or SEND_CANCEL, with a value: *topic and *queue are those in
 * which it waits, and handler->delayed is the template of its record. Anything but VERDICT_APPENDED: why that is not possible; nothing is changed. */
enum verdict handler_divert(struct handler *handler, const struct judged_frame *frame, const struct send_message *message,
                            uint64_t value, const struct topic_entry **topic, uint32_t *queue, uint32_t *detail);

/* ---- handler_half.c ---- */

/* The same for a half message. group: the name of the producer group, our own copy. */
enum verdict handler_divert_half(struct handler *handler, const struct judged_frame *frame, const struct send_message *message,
                                 struct slice group, const struct topic_entry **topic, uint32_t *queue, uint32_t *detail);

/* ---- handler_commits.c ---- */

/* Judges a message of SEND_OFFSETS. sender: the slot of its session. content: a send_commits, then the body. */
struct judged_message handler_judge_commits(struct handler *handler, uint32_t sender, const struct judged_frame *frame,
                                            const struct send_message *message, const uint8_t *content);

/* ---- handler_record.c ---- */

/* The record at this place of the log, mapped and checked, or why not: VERDICT_UNKNOWN_MESSAGE, there is none; VERDICT_STORE_FULL, it cannot
 * be mapped now, which says nothing of it. After a power cut that took one back, a later one may have its place. It may be part of a body. */
enum verdict handler_record(struct handler *handler, uint64_t physical_offset, struct record_view *view, uint32_t *detail);

/* ---- handler_place.c ---- */

/* For what handler_record has found, if its topic has a queue of its number: VERDICT_APPENDED, it is no part of a body; VERDICT_UNKNOWN_MESSAGE,
 * it is; VERDICT_STORE_FULL as above; VERDICT_BEHIND, the queues are too far behind the log to tell, and asking again goes on from there. */
enum verdict handler_place(struct handler *handler, const struct topic_entry *topic, const struct record_view *view, uint32_t *detail);

/* ---- handler_back.c ---- */

/* Judges a message that is given back to the frame's topic. */
struct judged_message handler_judge_back(struct handler *handler, const struct judged_frame *frame, const struct send_back *back);
/* The same for one that comes with what it was. content: a send_again, its properties, its body. */
struct judged_message handler_judge_again(struct handler *handler, const struct judged_frame *frame, const struct send_message *message,
                                          const uint8_t *content);

/* ---- handler_settle.c ---- */

/* What is wrong with the end of a transaction, or VERDICT_APPENDED: then *settling is filled, and good until the next message. */
enum verdict handler_judge_settle(struct handler *handler, const struct judged_frame *frame, const struct send_settle *settle,
                                  struct settling *settling, uint32_t *detail);

/* Bytes that it takes behind a lane record; fills those. */
uint32_t handler_settle_size(const struct settling *settling);
void handler_put_settle(struct handler *handler, struct settling *settling, struct lane_record *record);

#endif

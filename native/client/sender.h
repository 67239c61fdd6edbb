/* The client's half of a send: frames into the session's submission ring, verdicts out of its completion slots.
 *
 * A sender is private to its process. Threads share it under the session's lock, which the caller takes (lock_acquire on
 * session->lock) around open..close of a frame. Nothing here allocates or knows Python.
 */
#ifndef ORBITMQ_SENDER_H
#define ORBITMQ_SENDER_H

#include "shared/control.h"
#include "shared/topics.h"
#include "shared/verdict.h"

struct sender {
    struct session *session;       /* mapped read-write */
    const struct control *control; /* mapped read-only, as is topics */
    const struct topics *topics;
    struct wake *wake;             /* mapped read-write */
    struct session_shape shape;
    struct session_parts parts;
    struct ring_producer sq;
    uint64_t ready;     /* bytes of the submission ring whose pages are there; all of it after the first lap */
    uint64_t submitted; /* messages given a sequence: the last one's */
    uint64_t settled;   /* verdicts up to here were taken out of their slots; submitted - settled <= window */
    uint64_t flush_through; /* the newest message that waits for the disk */
    bool keeps;             /* the ring's room is used again only when the verdicts are settled: see sender_again.c */
    struct ring_consumer kept; /* at the oldest frame that is not settled; of ours alone */
    uint64_t kept_after;    /* sequence of the last message before it */
    int supervisor;     /* pidfd of the tree's supervisor, -1: not watched */
    struct send_frame *frame; /* the open one, in the ring */
    struct send_atomic *atomic; /* the open atomic batch, which the frame belongs to; or NULL */
    uint32_t atomic_room;
    uint64_t before;    /* `submitted` when the ring's open record was begun */
    uint32_t frame_used;
    uint32_t frame_room;
};

enum sender_result {
    SENDER_OK = 0,
    SENDER_RING_FULL = 1,   /* no room in the submission ring now */
    SENDER_WINDOW_FULL = 2, /* window messages without a settled verdict */
    SENDER_TOO_LARGE = 3,   /* a message that can never fit this session */
    SENDER_TIMEOUT = 4,
    SENDER_SIGNAL = 5,
    SENDER_GONE = 6,        /* the tree is dead or stopped */
    SENDER_STOPPED = 7,     /* flushed will not get there: the log's error state; see position.error */
};

#define SENDER_FRAME_BYTES 16384u /* a frame of many messages is closed and published about here */
#define SENDER_NO_HEAD UINT64_MAX
#define SENDER_FLUSH_SPIN_NS 200000u /* the same for the disk: an fdatasync of a few pages takes 100 us on a quick one */
#define SENDER_SPIN_NS 60000u     /* how long a wait for a verdict spins first, where there are two processors */

void sender_attach(struct sender *sender, struct session *session, const struct session_shape *shape,
                   const struct control *control, const struct topics *topics, struct wake *wake, int supervisor);

/* Opens a frame for messages to one topic, with room for `room` bytes of messages (strides). */
enum sender_result sender_open(struct sender *sender, uint32_t topic, uint32_t flags, uint64_t born_ms, uint32_t room);

/* Says where the messages of the open frame come from, before the first one; they come from this machine otherwise. `room` counts its
 * bytes, too. Not for a sender that keeps its frames. */
void sender_born(struct sender *sender, const struct record_host *host);

/* Adds a message to the open frame: copies the header and returns where properties, then body, go. NULL if the frame has no
 * room left for it (close it and open another). Gives the message its sequence: sender->submitted. */
uint8_t *sender_add(struct sender *sender, const struct send_message *message);

/* Ends the frame and publishes it; rings the handler if it sleeps. An empty frame is dropped. */
void sender_close(struct sender *sender);

/* Opens an atomic batch of so many messages, with room for `room` bytes of frames and messages (strides). Each frame of it begins with
 * sender_atomic_frame; sender_close publishes all of them. SENDER_TOO_LARGE: it passes half the ring, or the window. */
enum sender_result sender_open_atomic(struct sender *sender, uint32_t count, uint32_t room);
void sender_atomic_frame(struct sender *sender, uint32_t topic, uint32_t flags, uint64_t born_ms);

/* Drops the open frame or atomic batch, if there is one: none of it was published. For a caller that finds the lock stolen, or gives up
 * half-way. */
void sender_void(struct sender *sender);

/* The waits below do not touch any part of the sender that changes, so they may run beside another thread that holds the
 * lock. */

/* Sequence of the last message with a verdict. */
static inline uint64_t sender_completed(const struct sender *sender) { return session_completed(sender->session); }

/* False once nobody will answer this session any more: the tree has stopped or died, or the broker gave the session up. */
bool sender_alive(const struct sender *sender);

/* Spins until completed >= sequence, for at most limit_ns; false if it did not get there. Returns at once on one processor. */
bool sender_spin(const struct sender *sender, uint64_t sequence, uint64_t limit_ns);

/* Waits until completed >= sequence: spins, then sleeps. timeout_ns 0: only looks; UINT64_MAX: without limit. */
enum sender_result sender_wait(struct sender *sender, uint64_t sequence, uint64_t timeout_ns);

/* Waits until the flushed position reaches `end`. */
enum sender_result sender_wait_flushed(struct sender *sender, uint64_t end, uint64_t timeout_ns);

/* Waits until completed >= sequence or the handler has taken frames since the ring's head was at `head` (sq.head_seen when the
 * frame did not fit; SENDER_NO_HEAD: ignore the head). Call it after RING_FULL or WINDOW_FULL, then try again. */
enum sender_result sender_wait_room(struct sender *sender, uint64_t sequence, uint64_t head, uint64_t timeout_ns);

/* The verdict of a completed message that is not settled yet, copied out. */
struct completion sender_verdict(const struct sender *sender, uint64_t sequence);

/* Frees the slots up to sequence for reuse. */
void sender_settle(struct sender *sender, uint64_t sequence);

/* ---- sender_again.c: for a sender that keeps its frames ---- */

/* From now on, before the first message: frames stay in the ring as they are until all their verdicts are settled. */
void sender_keep(struct sender *sender);

/* True if a record of this payload fits beside the frames that are kept. */
bool sender_kept_room(const struct sender *sender, uint64_t payload);

/* Lets go of the frames up to what is settled. */
void sender_let_go(struct sender *sender);

/* Takes the oldest frame that `from`, whose tree is gone, still keeps, and sends what is not settled of it through `to`, a fresh session of
 * the same shape: the same messages under the same ids, and in the same frames. Returns how many messages that are; 0: nothing is left.
 * *sent is false if they cannot be sent again: they have no ids, it is too long ago for their ids, or their topic is not there. */
uint32_t sender_again(struct sender *to, struct sender *from, uint64_t now_ms, bool *sent);

#endif

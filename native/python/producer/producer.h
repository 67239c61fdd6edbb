/* The producer's C types and what their files share.
 *
 *   producer.c  the type ProducerBase, and sends of one message
 *   producer_session.c   its session, its view of the topic table, its waits
 *   argument.c  the arguments of calls, each checked
 *   refusal.c   the refusal of arguments that a send does not have
 *   outgoing.c  what one call wants sent, and its properties string
 *   parcel.c    what one batch call wants sent
 *   table.c     the same out of Arrow's buffers
 *   atomic.c    batches of which all messages are stored or none
 *   later.c     when messages are to be delivered
 *   link.c      one session, the runs of messages in flight on it, and their verdicts
 *   resend.c    the ids of a named producer, and what it sends again when the tree has died
 *   pending.c   the type Pending: one message's verdict to come
 *   pending_batch.c     the type PendingBatch: many messages of one call
 *   verdicts.c   verdicts as receipts and as exceptions
 *   receipt.c   the making of a receipt
 *
 * Everything here runs under the interpreter's lock, which is given up only around the waits in producer_session.c; no frame is
 * open then, and no Python code runs while one is. The session's own lock is taken around each frame all the same, since it
 * is what makes a session whole again after a thread's death.
 */
#ifndef ORBITMQ_PRODUCER_H
#define ORBITMQ_PRODUCER_H

#include "python/objects.h"
#include "python/producer/later.h"
#include "format/dedup_id.h"
#include "format/properties.h"
#include "format/record.h"
#include "client/sender.h"

#define FOREVER UINT64_MAX
#define PROPERTIES_ROOM RECORD_PROPERTIES_MAX /* most bytes that a message's own properties may take, last separator included */

/* In addition to enum verdict, in completions of our own: nobody will answer. */
enum { VERDICT_LOST = 0x10000, VERDICT_FORKED = 0x10001, VERDICT_NOT_ON_DISK = 0x10002 };

/* The flags of a frame whose messages wait for the disk, and have ids. */
static inline uint32_t frame_flags(bool durable, bool ids) { return (durable ? SEND_FLUSH : 0) | (ids ? SEND_DEDUP : 0); }

/* What a send or a producer asks for. */
enum durability {
    DURABILITY_UNSAID = 0, /* as the producer says; for a producer: as the topic says */
    DURABILITY_APPENDED = 1,
    DURABILITY_FLUSHED = 2,
};

typedef struct producer Producer;
typedef struct pending Pending;
typedef struct batch Batch;

/* ---- link.c ---- */

/* Messages with consecutive sequences whose verdicts go to one place. The run holds no reference to its owner: the owner
 * removes itself from its runs when it goes, and its messages are one-way from then on. So a producer and its pendings form no
 * cycle. */
struct run {
    enum run_kind { RUN_ONEWAY, RUN_PENDING, RUN_BATCH } kind;
    bool durable;   /* they wait for the disk */
    uint32_t count;
    uint32_t index; /* RUN_BATCH: of the first message in its batch */
    void *owner;    /* Pending or Batch */
};

struct link {
    struct sender sender;
    PyObject *handle;   /* the SessionHandle that keeps everything mapped */
    unsigned forks;     /* py_forks() when it was attached */
    uint32_t users;     /* the producer, and every thread that waits without the interpreter's lock */
    bool leaves;        /* it ends when its producer is finalized, which may wait for nothing */
    struct run *runs;   /* window of them: each stands for at least one message in flight */
    uint64_t run_head;  /* oldest run; run & (window - 1) */
    uint64_t run_tail;
    uint64_t failed;    /* one-way messages that were not appended */
    uint64_t disk_end;  /* of a named producer: verdicts have come that count only when the disk has this end of the log; or 0 */
};

struct link *link_open(PyObject *handle);
void link_release(struct link *link);

/* Notes that the `count` messages just published belong to owner; returns the run's number. */
uint64_t link_push(struct link *link, enum run_kind kind, void *owner, uint32_t index, uint32_t count);

/* Distributes the verdicts that have come. */
void link_harvest(struct link *link);

/* Gives every message in flight `code` instead of a verdict. */
void link_lose(struct link *link, uint32_t code);

void link_disown(struct link *link, void *owner);

/* Moves the oldest `count` messages of `from` to `link`, through which they were just sent again as the newest; sent false: they are lost
 * instead. life: the producer's. */
void link_move(struct link *link, struct link *from, uint32_t count, bool sent, uint64_t life);

/* ---- producer_session.c ---- */

#define TOPIC_CACHE 16u

struct topic_memo {
    PyObject *name; /* the very str object that was given, of no derived class; or NULL */
    uint32_t index;
};

#define NAME_ROOM 152u   /* of a name and what follows it in an id */
#define NUMBERED_ID_MAX (NAME_ROOM + 20u)

struct producer {
    PyObject_HEAD
    struct link *link;       /* NULL: no session now */
    struct link *stranded;   /* of a named producer, while it has no session: what it will send again; or NULL */
    uint64_t numbered;       /* ids given */
    uint32_t name_size;      /* 0: it has no name */
    char name[NAME_ROOM];    /* the beginning of its ids */
    uint64_t life;           /* raised with each session: which one a pending belongs to */
    uint64_t looked_ms;      /* when the tree's life was last looked at */
    uint64_t flushed_before; /* flushed position at the end of the previous life */
    uint64_t failed;         /* of former links */
    uint64_t timeout_ns;
    uint64_t regain_ns;      /* how long it took the last time to get the interpreter's lock back */
    PyObject *host;          /* bytes: the broker's address and port in message ids; NULL before the first session */
    uint32_t *next_queue;    /* by topic index: the queue whose turn it is */
    enum durability durability;
    bool wait_when_full;
    bool flush_every; /* the broker flushes every message: no receipt comes before the disk, whatever was asked for */
    bool rides;  /* it waits for another tree if one has ended, before it sends anything */
    bool closed;
    struct topic_memo topics[TOPIC_CACHE];
};

/* Makes sure of a session of this process whose tree is alive, as far as we looked lately: 0, or -1 with Closed, BrokerStopped
 * or what opening one raised. */
int producer_ready(Producer *self, uint64_t now_ms);

/* The same, without opening one. */
bool producer_usable(Producer *self, uint64_t now_ms);

/* True while the tree of the existing session is stopping in order: what is in flight may still be answered. */
bool producer_stopping(const Producer *self);

/* Takes the verdicts that have come; false if there is no session (any more). */
bool producer_look(Producer *self);

/* Where messages without a verdict are in flight. */
static inline struct link *producer_flight(const Producer *self) { return self->link ? self->link : self->stranded; }

/* Index of the topic in the current topic table, or TOPIC_NONE with an exception. */
uint32_t producer_topic(Producer *self, PyObject *name);

/* True if what is sent to the topic now waits for the disk: what the call says, or else the producer, or else the topic's
 * default. It is here because every message asks; the topic's entry is read for its queues anyway. */
static inline bool producer_durable(const Producer *self, uint32_t topic, enum durability said)
{
    if (self->flush_every || said == DURABILITY_FLUSHED)
        return true;
    return said == DURABILITY_UNSAID && topic_durable(self->link->sender.topics, topic);
}

/* Called before a delayed message is sent: makes sure that there is a topic in which it can wait. -1 with an exception. */
int producer_delays(Producer *self, const struct later *later);

/* _attach(handle): takes a session. */
PyObject *producer_attach(Producer *self, PyObject *handle);
void producer_forget_topics(Producer *self);

/* The session is over: its messages in flight get `code`. */
void producer_retire(Producer *self, uint32_t code);

/* The result of a wait. PRODUCER_AGAIN: look again, whatever the reason. */
enum producer_wait { PRODUCER_ERROR = -1, PRODUCER_AGAIN = 0, PRODUCER_TIMEOUT = 1, PRODUCER_STOPPED = 2 };
enum wait_for { WAIT_VERDICT, WAIT_FLUSHED, WAIT_ROOM };
enum producer_wait producer_wait_unlocked(Producer *self, enum wait_for what, uint64_t target, uint64_t head,
                                          uint64_t deadline_ns);

/* For a sender that waits for one receipt: spins a little before it releases the interpreter's lock. */
enum producer_wait producer_wait_verdict(Producer *self, uint64_t sequence, uint64_t deadline_ns);

/* Called after a frame did not fit: 0 if it is worth another try, -1 with Full, TimedOut or a signal's exception. least: messages
 * that need room at once. */
int producer_make_room(Producer *self, enum sender_result why, PyObject *topic, uint32_t wanted, uint32_t least, bool wait,
                       uint64_t timeout_ns, uint64_t *deadline_ns);

uint64_t producer_flushed(const Producer *self);
uint32_t producer_flush_error(const Producer *self);
uint64_t deadline_after(uint64_t timeout_ns);
uint64_t born_now(void);

/* The session's lock, around a frame. A thief finds a frame half made by a dead thread and drops it. */
void producer_lock(struct link *link);
void producer_unlock(struct link *link);

/* ---- resend.c ---- */

/* The next id of a named producer, put to `at`; returns its size. */
uint32_t producer_number(Producer *self, char *at);

/* Sends what is stranded through the new session. */
void producer_resend(Producer *self);

/* Gives what is stranded `code` instead of a verdict. */
void producer_give_up(Producer *self, uint32_t code);

/* For a wait without a session: opens one, as long as the producer's patience and the wait allow, so that what is stranded is sent again. */
enum producer_wait producer_resume(Producer *self, uint64_t deadline_ns);

PyObject *producer_identify(Producer *self, PyObject *name);
PyObject *producer_lose(Producer *self, PyObject *nothing);

/* ---- argument.c ---- */

int arguments_init(void); /* once, at import */

/* Each 0, or -1 with an exception. */
int parse_tags(PyObject *value, const char **tags, uint32_t *size);
int parse_keys(PyObject *value, const char **keys, uint32_t *size, PyObject **joined);
PyObject *parse_properties(PyObject *mapping, bool own); /* bytes, encoded; NULL with an exception */
/* An id: str, or bytes, of which the hexadecimal digits are used; *owner holds what was made of them. */
int parse_id(PyObject *value, const char **id, uint32_t *size, PyObject **owner);
int parse_durability(PyObject *value, enum durability *durability);
int parse_timeout(PyObject *value, uint64_t *timeout_ns);
int parse_queue(PyObject *value, int64_t *queue);
int parse_flag(PyObject *value, uint32_t *flag);

/* -1, after a failed conversion. Python's TypeError for a value that is no number does not say which argument it was. */
int refuse_type(PyObject *value, const char *what, const char *wanted);

/* The two arguments that may also be given by name: 0, or -1 with TypeError. */
int parse_positional(PyObject *const *args, Py_ssize_t count, PyObject *names, const char *second, PyObject **topic,
                     PyObject **rest);

/* Which keyword this is, of the first `most` of enum argument; ARG_POSITIONAL for those two, unless both are among the
 * positional arguments; -1 for none of them. */
enum argument {
    ARG_TAGS, ARG_KEYS, ARG_QUEUE, ARG_QUEUE_KEY, ARG_DURABILITY, ARG_DELAY_LEVEL, ARG_DELAY, ARG_DELIVER_AT,
    ARG_PROPERTIES, ARG_DEDUP, ARG_TIMEOUT, /* all before for batches too */
    ARG_FLAG, ARG_CANCELS, ARG_OWN, ARG_HALF, ARG_SETTLES, ARG_COMMITS, ARGUMENTS, ARG_POSITIONAL,
};
int parse_name(PyObject *name, int most, Py_ssize_t positional);

extern const char *const argument_names[ARGUMENTS];

/* ---- outgoing.c ---- */

/* A message that a call sends. */
struct outgoing {
    PyObject *topic;      /* borrowed */
    const uint8_t *body;
    const char *tags;     /* NULL: none */
    const char *keys;     /* NULL: none */
    const char *id;       /* NULL: none */
    PyObject *id_text;    /* owns it, if it was given as bytes */
    PyObject *joined;     /* owns keys when there are several */
    PyObject *extra;      /* bytes: the other properties, encoded; or NULL */
    PyObject *queue_key;  /* borrowed, or NULL */
    Py_buffer view;       /* of a body that is neither bytes nor str */
    uint32_t body_size;
    uint32_t tags_size;
    uint32_t keys_size;
    uint32_t id_size;
    uint32_t flag;
    struct later later;
    int64_t queue;        /* -1: not given */
    bool viewed;
    enum durability durability;
    bool durable;         /* the result of the last attempt to post the message */
    uint64_t timeout_ns;
    char numbered[NUMBERED_ID_MAX]; /* an id of the producer's own; the last one, since nothing makes it zero */
};

/* Arguments of send, send_async and send_oneway. Call outgoing_clear after success only. */
int outgoing_parse(Producer *self, struct outgoing *outgoing, PyObject *const *args, Py_ssize_t count, PyObject *names);
void outgoing_clear(struct outgoing *outgoing);

uint32_t outgoing_properties_size(const struct outgoing *outgoing);
uint8_t *outgoing_properties(const struct outgoing *outgoing, uint8_t *at);

/* TAGS and KEYS as they are in the properties string. */
static inline uint32_t properties_size(uint32_t tags_size, bool tags, uint32_t keys_size, bool keys)
{
    return (tags ? 6 + tags_size : 0) + (keys ? 6 + keys_size : 0); /* four letters of name, two separators */
}
/* The same for an id, which comes before all of them; text NULL: none. */
static inline uint32_t id_property_size(const char *text, uint32_t size) { return text ? (uint32_t)DEDUP_PROPERTY_SIZE + size + 1 : 0; }
uint8_t *id_property_put(uint8_t *at, const char *text, uint32_t size);
uint8_t *properties_put(uint8_t *at, const char *name, const char *value, uint32_t size);

/* Most bytes that body and properties of a message to this topic may take together. */
uint64_t outgoing_room(const Producer *self, uint32_t topic);

/* Checks that a message fits; -1 with MessageTooLarge or PropertiesTooLarge. body_size is checked before it is narrowed. */
int outgoing_fits(const Producer *self, uint32_t topic, PyObject *name, uint64_t body_size, uint64_t properties_size);

/* The setting that would allow a record of this size, given the limits of session and broker, bytes. */
const char *outgoing_limit_hint(uint64_t size, uint32_t session, uint32_t broker);

/* The queue that a queue number or a key asks for: 0 and *queue, or -1 with an exception. */
int outgoing_queue(const Producer *self, uint32_t topic, PyObject *name, int64_t wanted, PyObject *key, uint32_t *queue);

/* ---- refusal.c ---- */

/* -1 with UnknownOption, for a keyword that is none of them. */
int refuse_name(PyObject *name, PyObject *value, int most);

/* -1: one of the two that may also be given by name is missing, or there twice. Perhaps its name is misspelt. */
int refuse_positional(PyObject *const *args, Py_ssize_t count, PyObject *names, const char *second);

/* ---- pending.c ---- */

/* The argument of result(timeout=None). */
int parse_result_timeout(PyObject *const *args, Py_ssize_t count, PyObject *names, uint64_t *timeout_ns);

struct pending {
    PyObject_HEAD
    Producer *producer;
    PyObject *topic;
    uint64_t sequence;
    uint64_t run;
    uint64_t life;
    struct completion verdict; /* code VERDICT_NONE: still in flight */
    bool posted;
    bool durable;
    bool on_disk; /* the verdict was taken when the disk had it */
};

/* The way of an appended record to the disk, for a sender that wants it there. */
struct on_disk {
    Producer *producer;
    PyObject *topic;
    uint64_t life; /* of the session that it was sent through */
    uint64_t end;  /* in the log */
};

/* The flushed position as far as a message of that life may rely on it. */
uint64_t disk_flushed(const struct on_disk *wish);

/* True while waiting for the disk makes sense. */
bool disk_open(const struct on_disk *wish);

/* Waits: 0, with `verdict` changed if it will never be there, or -1 with an exception. */
int disk_wait(const struct on_disk *wish, uint64_t timeout_ns, uint64_t deadline_ns, struct completion *verdict);

int pending_init(PyObject *module);
Pending *pending_new(Producer *producer, PyObject *topic);
PyObject *pending_wait(Pending *self, uint64_t timeout_ns);
/* True if there is something left to wait for, as far as is known. */
bool pending_open(const Pending *self);

/* ---- verdicts.c ---- */
/* A receipt of the producer's making, or NULL with the exception that the code stands for. */
PyObject *verdict_result(Producer *producer, PyObject *topic, const struct completion *verdict, uint64_t flushed);
PyObject *verdict_unknown_topic(Producer *producer, PyObject *topic);
PyObject *verdict_timeout(PyObject *topic, uint64_t timeout_ns, const char *what);
/* Sets `pending`, what can still be waited for, as an attribute of the current exception. */
void verdict_pending(PyObject *pending);

/* ---- receipt.c ---- */

/* The receipt of an appended message; NULL with an exception. */
PyObject *receipt_new(const Producer *producer, PyObject *topic, const struct completion *verdict, bool on_disk);

#endif

/* What the gateway's files share. */
#ifndef ORBITMQ_GATEWAY_PARTS_H
#define ORBITMQ_GATEWAY_PARTS_H

#include "client/reader.h"
#include "client/sender.h"
#include "remoting/connection.h"
#include "remoting/gateway/gateway.h"
#include "remoting/gateway/gateway_filter.h"

enum gateway_code {
    GATEWAY_SUCCESS = 0,
    GATEWAY_SYSTEM_ERROR = 1,
    GATEWAY_BUSY = 2,
    GATEWAY_NOT_SUPPORTED = 3,
    GATEWAY_FLUSH_FAILED = 10,  /* RocketMQ's FLUSH_DISK_TIMEOUT: clients have a receipt, which says so */
    GATEWAY_ILLEGAL = 13,
    GATEWAY_NOT_AVAILABLE = 14,
    GATEWAY_NO_PERMISSION = 16,
    GATEWAY_NO_TOPIC = 17,
    GATEWAY_PULL_NOT_FOUND = 19,
    GATEWAY_PULL_RETRY = 20,
    GATEWAY_PULL_MOVED = 21,
    GATEWAY_BAD_FILTER = 23,
    GATEWAY_NO_SUBSCRIPTION = 24,
    GATEWAY_OLD_SUBSCRIPTION = 25,
    GATEWAY_NO_GROUP = 26,
    GATEWAY_INVALID_PARAMETER = 29,
    GATEWAY_SILENT = 207,
    GATEWAY_NO_MESSAGE = 208,
    GATEWAY_POLLING_FULL = 209,
    GATEWAY_POLLING_TIMEOUT = 210,
};
enum gateway_ask { GATEWAY_SEND = 10, GATEWAY_PULL = 11, GATEWAY_MAX_OFFSET = 30, GATEWAY_MIN_OFFSET = 31, GATEWAY_BACK = 36, GATEWAY_END = 37,
                   GATEWAY_SEND_V2 = 310, GATEWAY_SEND_BATCH = 320, GATEWAY_REPLY = 324, GATEWAY_REPLY_V2 = 325, GATEWAY_LITE_PULL = 361,
                   GATEWAY_POP = 200050, GATEWAY_POP_ACK = 200051, GATEWAY_POP_CHANGE = 200053 };

#define GATEWAY_VERSION 407  /* RocketMQ 4.9.7's, whose answers these are */
#define GATEWAY_FIVE 413     /* RocketMQ 5.0.0's; those of its clients are not below */
#define GATEWAY_HOLDS 65536u
#define POP_LINKS 256u
#define CONNECTION_LISTENER UINT32_MAX
#define CONNECTION_EVENT (UINT32_MAX - 1)
#define CONNECTION_LINE (UINT32_MAX - 2)
#define CONNECTION_RELAY (UINT32_C(1) << 30) /* added to the index of the client's connection */
#define GATEWAY_ID_MAX 64u   /* of a UNIQ_KEY that is told again in the answer */
#define GATEWAY_ID_ROOM 57u  /* for the id of a message in an answer, and what follows it */

/* Who is to be answered. */
struct gateway_asker {
    uint32_t connection, epoch;
    int32_t opaque;
    uint8_t type;
    bool one_way;
    bool five; /* it is a client of RocketMQ 5 */
};

/* A send without an answer yet; in the order of the submission ring. */
struct gateway_sent {
    struct gateway_asker asker;
    uint64_t sequence; /* of its last message */
    uint32_t count;    /* of its messages */
    uint32_t queue_id;
    bool durable;
    uint8_t ends;      /* 0: messages; else how a transaction ends by it (SETTLE_) */
    bool back;         /* a message that is given back */
    uint8_t id_size;
    uint8_t id[GATEWAY_ID_MAX];
};

/* A pull: what is asked, whether it is held or not. */
struct gateway_pull {
    struct gateway_asker asker;
    uint32_t slot;      /* of the queue */
    uint64_t group;     /* the hash of its name */
    uint64_t offset;
    uint32_t most;
    uint64_t until_ms;  /* held until then, CLOCK_MONOTONIC; 0: not to be held */
    struct gateway_filter *filter; /* NULL: all */
};

/* Offsets that were committed with pulls: by group and queue. */
#define GATEWAY_COMMITS 1024u
#define GATEWAY_COMMIT_PLACES 2048u
struct gateway_commits {
    uint32_t place[GATEWAY_COMMIT_PLACES]; /* by hash: the number of an entry from 1; 0: none */
    struct gateway_commit entry[GATEWAY_COMMITS];
    uint32_t count, given;
};

/* A request that was passed on to another client, whose answer is awaited. */
#define GATEWAY_FORWARDS 256u
struct gateway_forward {
    struct gateway_asker asker, to;
    int32_t opaque;    /* towards that client */
    uint64_t until_ms; /* CLOCK_MONOTONIC */
};

/* Replies that clients may wait for. */
#define GATEWAY_REPLY_QUEUES 8u
#define GATEWAY_REPLY_TAG 255u
struct gateway_replies {
    uint64_t until_ms;                   /* somebody may wait until then, CLOCK_MONOTONIC; 0: nobody waits */
    uint64_t reput_seen;
    uint32_t first_slot, listened;       /* queues whose news end our sleeps */
    uint64_t next[GATEWAY_REPLY_QUEUES]; /* by queue of the topic of replies: the first that was not looked at */
    uint8_t text[PROPERTIES_MAX + 1 + GATEWAY_REPLY_TAG + 64]; /* room for the properties of one */
};

/* A front's side of what leads from a client's connection to the lead. */
struct relay {
    struct connection *pipe;
    uint64_t passed;   /* bytes of the client's that were passed on */
    uint64_t sent;     /* likewise, up to the end of the last send */
    uint64_t served;   /* how many of them the lead has served */
    bool shut;         /* nothing more is passed on */
};

struct gateway {
    uint32_t number;               /* 0: the lead; else a front, gateway_line.h */
    int lines[GATEWAYS_MAX];       /* by front; -1: none. A front has its own */
    bool begun;                    /* a front's: the lead was told */
    bool line_full;                /* a front's: it accepts nobody, because of that */
    bool table_due[GATEWAYS_MAX];  /* the lead's: that front does not know the subscriptions */
    uint64_t table_ms;             /* the lead's: when they were told last */
    uint64_t table_version;        /* a front's: of those that it knows */
    uint8_t *raw;                  /* a front's: the header of the request that is served, as it came */
    uint32_t raw_size, raw_room;
    struct attachment *attachment;
    int listeners[GATEWAY_LISTENERS], poll;
    uint32_t listener_count;
    bool listening;      /* the listeners are in the poll */
    bool attached;       /* there is a session */
    bool stopping;
    uint64_t stopping_ms; /* since then, CLOCK_MONOTONIC */
    enum gateway_tls tls;
    struct gateway_hello hellos[GATEWAY_CONNECTIONS];
    uint32_t hello_count;
    struct acl *acl;     /* NULL: everybody may do everything */
    struct sender sender;
    struct reader *reader;
    uint32_t *cursors;   /* by queue slot: the reader's cursor + 1 */
    uint32_t epochs;
    uint32_t count, used; /* of connections; indexes ever used */
    struct gateway_limits limits;
    uint32_t turned_away;
    enum gateway_crowd turned_away_why; /* the last one */
    char last_turned_away[56];
    struct connection *connections[GATEWAY_CONNECTIONS];
    struct connection *asked[GATEWAY_CONNECTIONS], *stalled[GATEWAY_CONNECTIONS], *dirty[GATEWAY_CONNECTIONS];
    uint32_t asked_count, stalled_count, dirty_count;
    struct gateway_client gone[GATEWAY_CONNECTIONS]; /* those that Python knows and that have ended */
    uint32_t gone_count;
    uint32_t told;             /* requests to clients */
    struct gateway_commits commits;
    struct gateway_forward forwards[GATEWAY_FORWARDS];
    uint32_t forward_count;
    struct gateway_sent *sent; /* a ring of `window` */
    uint64_t sent_from, sent_to;
    char *ids;                 /* room for those of one answer */
    struct gateway_filters filters;
    struct gateway_replies replies;
    uint8_t batch_text[RECORD_PROPERTIES_MAX]; /* the properties that all messages of a batch get */
    struct gateway_pull *holds;
    uint32_t hold_count, hold_room;
    uint64_t reput_seen;
    uint64_t holds_until_ms;   /* the first of them to end */
    uint64_t *paused;          /* groups, by the hashes of their names, in order */
    uint32_t paused_count;
    uint32_t *held;            /* by queue slot: how many listen to it */
    uint32_t held_queues;      /* to which somebody listens */
    struct pop_link *pops[POP_LINKS]; /* gateway_pop.h */
    uint32_t pop_count;
    int64_t pop_ms;            /* the moment of the last pop, CLOCK_REALTIME */
    uint64_t idle_ms;          /* when idle connections were last looked for */
    uint64_t freed;            /* bytes of their buffers, since memory was last given back to the system */
    struct remoting_header header; /* of the request that is served */
    struct remoting_header answer; /* of the one that is written */
};

/* A request that was served; one that is tried again in the next round; one that Python is asked about, or the lead; and one that waits for the lead. */
enum gateway_served { GATEWAY_SERVED, GATEWAY_STALLED, GATEWAY_ASKED, GATEWAY_WAITS };

/* gateway_requests.c: serves the whole frames that have come, and reads more if there may be some. Returns how much was done. */
uint32_t gateway_serve(struct gateway *gateway, struct connection *connection, bool readable);
void gateway_forget_parsed(struct connection *connection);
void gateway_stall(struct gateway *gateway, struct connection *connection);
/* Those whose request found no room in the submission ring, say. */
uint32_t gateway_serve_stalled(struct gateway *gateway);
void gateway_remove(struct connection **list, uint32_t *count, const struct connection *connection);

/* gateway_python.c: a request that was left to Python is done; what came behind it is served. */
void gateway_pass_asked(struct gateway *gateway, const struct gateway_request *request);

/* gateway_owed.c: the client sends no more; its connection lasts until it has been told all that it is owed. */
void gateway_finished(struct gateway *gateway, struct connection *connection);
bool gateway_owes(const struct gateway *gateway, const struct connection *connection);
bool gateway_is_its_own(const struct gateway_asker *asker, const struct connection *connection);

/* gateway_commit.c: what a pull commits. */
void gateway_gather(struct gateway *gateway, struct slice group, const struct topic_entry *topic, uint32_t queue_id, uint64_t offset);
/* The lead: what a pull at a front commits. */
void gateway_gather_told(struct gateway *gateway, const struct gateway_commit *commit);
/* A front: tells the lead what it could not be told before. */
void gateway_tell_commits(struct gateway *gateway);

/* gateway_line.c: a front's begin, if it could not be told before. */
void gateway_begin_line(struct gateway *gateway);
/* When a round ends: clients are accepted again, if the lead reads. */
void gateway_look_at_line(struct gateway *gateway);

/* gateway_table.c: the lead: subscriptions have changed. */
void gateway_subscriptions_changed(struct gateway *gateway);
/* False: only the lead knows them now. */
bool gateway_knows_subscriptions(struct gateway *gateway);

/* gateway_relay.c, of a front: opens the way to the lead, if there is none yet. False: it cannot be had. */
bool gateway_relay_open(struct gateway *gateway, struct connection *connection);
void gateway_relay_close(struct connection *connection);
/* The lead has not served yet what was passed on; or only the sends of that. */
bool gateway_relay_behind(const struct connection *connection, bool sends);
/* Before a header is read, which changes it; and afterwards, so that it can be passed on. False: no memory. */
bool gateway_keep_raw(struct gateway *gateway, const uint8_t *data, const struct remoting_frame *frame);
void gateway_restore_raw(const struct gateway *gateway, uint8_t *data);
/* Passes the frame on that has come first. GATEWAY_WAITS: not now. */
enum gateway_served gateway_pass_on(struct gateway *gateway, struct connection *connection, const struct remoting_frame *frame, bool sends);
/* What epoll says of the relay. Returns how much was done. */
uint32_t gateway_relay_event(struct gateway *gateway, struct connection *connection, uint32_t events);
/* When a round ends. */
void gateway_relay_round(struct gateway *gateway, struct connection *connection);
/* Of the lead: how much of what a front passes on was served. */
void gateway_tell_served(struct connection *connection);

/* gateway_forward.c: a client's answer to what was passed on to it; and those that answer no more. */
void gateway_forwarded(struct gateway *gateway, const struct connection *connection, const struct remoting_header *header,
                       struct slice body);
uint32_t gateway_look_at_forwards(struct gateway *gateway);

/* gateway_answer.c */
struct gateway_asker gateway_asker(const struct connection *connection, const struct remoting_header *header, uint8_t type);
struct connection *gateway_connection(const struct gateway *gateway, const struct gateway_asker *asker);
/* Likewise, if its client may answer, too; else NULL. */
struct connection *gateway_listener(const struct gateway *gateway, const struct gateway_asker *asker);
struct remoting_header *gateway_begin(struct gateway *gateway, int32_t code, const char *remark);
/* Writes the answer that was begun, with a body in pieces; pieces[0] is the answer's own. */
void gateway_finish(struct gateway *gateway, const struct gateway_asker *asker, struct iovec *pieces, uint32_t count);
/* Writes gateway->answer as it stands, with a body in pieces. */
void gateway_write(struct gateway *gateway, struct connection *connection, uint8_t type, struct iovec *pieces, uint32_t count);
/* The connection is looked at when this round ends. */
void gateway_mark(struct gateway *gateway, struct connection *connection);
void gateway_refuse(struct gateway *gateway, const struct gateway_asker *asker, int32_t code, const char *remark);
/* A send: with the fields that RocketMQ's answers to sends have in any case. */
void gateway_refuse_send(struct gateway *gateway, const struct gateway_asker *asker, int32_t code, const char *remark);
void gateway_add_region(struct remoting_header *answer);
/* A number as a field's value; the text is the caller's. */
struct gateway_number { char text[24]; };
void gateway_add_number(struct remoting_header *answer, const char *name, int64_t value, struct gateway_number *number);
void gateway_add_text(struct remoting_header *answer, const char *name, const char *text);

/* gateway_send.c */
enum gateway_served gateway_send(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header,
                                 const uint8_t *data, uint32_t size);

/* gateway_connections.c: a connection for a socket, which it takes over; NULL: there is no room, and it was closed. hello: if it comes back from Python; or NULL. */
struct connection *gateway_connect(struct gateway *gateway, int fd, const struct gateway_hello *hello);
void gateway_drop(struct gateway *gateway, struct connection *connection);
void gateway_listen_now(struct gateway *gateway, bool on);
void gateway_accept(struct gateway *gateway);
/* Sends what was answered in this round, and lets go of connections that have ended. */
void gateway_finish_round(struct gateway *gateway);
void gateway_end_idle(struct gateway *gateway);

/* gateway_room.c: whether one more of this address may be served. */
bool gateway_has_room(struct gateway *gateway, const char *peer);
/* Whether the request that comes may grow. False: it was noted that its connection is turned away. */
bool gateway_has_memory(struct gateway *gateway, const struct connection *connection);
void gateway_turn_away(struct gateway *gateway, enum gateway_crowd why, const char *peer);

/* gateway_tls.c: whether the connection is one that the loop serves. False: not yet, or it goes elsewhere. */
bool gateway_greets(struct gateway *gateway, struct connection *connection);
void gateway_forget_hellos(struct gateway *gateway);

/* gateway_guard.c: false: the request was refused, and answered. */
bool gateway_admits(struct gateway *gateway, const struct gateway_asker *asker, const char *peer, const struct remoting_header *header,
                    struct slice body);

/* gateway_transaction.c: a request that ends a transaction, and its answer. */
enum gateway_served gateway_end(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header);
void gateway_tell_end(struct gateway *gateway, const struct gateway_sent *sent, const struct completion *verdict);

/* gateway_back.c: a message that a group gives back, and its answer once it is stored. */
enum gateway_served gateway_back(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header);
void gateway_tell_back(struct gateway *gateway, const struct gateway_sent *sent);

/* gateway_receipt.c: returns how many were answered. */
uint32_t gateway_answer_sent(struct gateway *gateway);

/* gateway_record.c: the pieces of a record that is sent, and room for those that are not in the log. region: with what clients of RocketMQ 5
 * expect. Returns how many they are. */
#define GATEWAY_RECORD_PIECES 5u
struct gateway_sizes { uint8_t record[4], properties[2]; };
uint32_t gateway_record(const struct message_ref *ref, bool region, struct gateway_sizes *sizes, struct iovec *pieces);

/* gateway_reply.c: sends what was stored for clients that wait for a reply. Returns how much was done. */
uint32_t gateway_push_replies(struct gateway *gateway);

/* gateway_pull.c: the reader's cursor of a queue; -1: no memory. */
int64_t gateway_cursor(struct gateway *gateway, uint32_t slot);
enum gateway_served gateway_pull(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header);
void gateway_bounds(struct gateway *gateway, const struct gateway_asker *asker, const struct remoting_header *header);
/* Answers the pull; false: it finds nothing for its client, and may be held. */
bool gateway_serve_pull(struct gateway *gateway, struct gateway_pull *pull, bool hold);

/* gateway_pause.c */
uint64_t gateway_group_hash(struct slice name);
bool gateway_is_paused(const struct gateway *gateway, uint64_t group);

/* gateway_hold.c. False: there is no room for another one. */
bool gateway_hold(struct gateway *gateway, const struct gateway_pull *pull);
bool gateway_holds_open(struct gateway *gateway);
/* Answers those that are due. Returns how many. */
uint32_t gateway_look_at_holds(struct gateway *gateway);
/* Reput is to end our sleeps for messages of this queue: as long as it is `on` more often than off. */
void gateway_listen(struct gateway *gateway, uint32_t slot, bool on);
/* It is to do so for some queue: then a sleep begins with gateway_announce and a look, and ends with gateway_awake. */
bool gateway_listens(const struct gateway *gateway);
uint32_t gateway_announce(struct gateway *gateway);
void gateway_awake(struct gateway *gateway, uint32_t ticket);
/* Epoll said that the event was written. */
void gateway_take_event(struct gateway *gateway);
int gateway_longest_sleep(const struct gateway *gateway, int limit_ms);

/* gateway.c: the topic of a request; NULL: there is none, or it was deleted. */
const struct topic_entry *gateway_topic(const struct gateway *gateway, struct slice name, uint32_t *index);

#endif

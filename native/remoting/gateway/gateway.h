/* The gateway: answers RocketMQ's own clients on TCP. One event loop over the connections. It answers what is frequent itself: a send goes from the
 * socket's buffer into the submission ring of the gateway's own session, like any client's, and is answered when its verdict has come; a
 * pull is answered out of the mapped log. What is rare it leaves to Python, between two rounds (gateway_asked).
 *
 * The gateway owns nothing that must survive it. When it is killed, clients see closed connections, and what was on its way is stored or
 * not, as when a client dies. When its session is lost, it fails, and its successor opens another one.
 *
 * A client's requests are served in the order in which they came; sends and held pulls are answered when they are ready.
 */
#ifndef ORBITMQ_GATEWAY_H
#define ORBITMQ_GATEWAY_H

#include "actors/run.h"
#include "remoting/acl/acl.h"
#include "remoting/frame/remoting_header.h"
#include "shared/attachment.h"

#define GATEWAY_CONNECTIONS 4096u
#define GATEWAY_IDLE_MS 120000u /* RocketMQ's */
#define GATEWAY_PARTS_BYTES (UINT64_C(1) << 30)
#define GATEWAY_LISTENERS 16u

struct gateway;

/* listener: a socket that listens and is not blocking; it stays the caller's. number: 0 for the lead of several, and for one that is alone;
 * others are fronts (gateway_line.h). NULL with errno. */
struct gateway *gateway_open(struct attachment *attachment, int listener, uint32_t number);
void gateway_close(struct gateway *gateway);

/* Has it accept connections at this socket too, which is like the first one. False: it has GATEWAY_LISTENERS already. */
bool gateway_accept_at(struct gateway *gateway, int listener);

/* Gives the gateway its session: `memory` is the session of this shape, mapped read-write as long as the gateway lives. */
void gateway_attach(struct gateway *gateway, void *memory, const struct session_shape *shape);

/* A socket whose other side this front has, or the lead if the gateway is that front; it stays the caller's. Before the first run. False with errno. */
bool gateway_give_line(struct gateway *gateway, uint32_t front, int line);

/* Works and sleeps for at most limit_ms. RUN_NEED: gateway_asked, gateway_gone or gateway_hello has something. RUN_FAILED: its session is lost. */
enum run_result gateway_run(struct gateway *gateway, uint32_t limit_ms);

/* One round without a sleep. Returns how much was done, and in any case 1 while a send waits for its verdict. At a stop: no connection is
 * accepted and no request taken any more. */
uint32_t gateway_step(struct gateway *gateway);

/* A connection, and which use of its number. */
struct gateway_client {
    uint32_t connection, epoch;
};

/* A request that the loop leaves to Python. The pointers hold until the answer. */
struct gateway_request {
    struct gateway_client client;
    const struct remoting_header *header;
    const uint8_t *body;
    uint32_t body_size;
    const char *local; /* address and port that the client reached */
    const char *peer;  /* its own */
};
bool gateway_asked(struct gateway *gateway, struct gateway_request *request);

/* Answers it. `answer`: code, remark and fields are the caller's, the rest is filled in. One-way requests get none. */
void gateway_answer(struct gateway *gateway, const struct gateway_request *request, struct remoting_header *answer, const uint8_t *body,
                    uint32_t body_size);

/* Instead of an answer: the loop serves the request, now that what it lacked has been made, or cannot be. */
void gateway_again(struct gateway *gateway, const struct gateway_request *request);

/* Instead of an answer, for now: what the request lacks cannot be made yet. The loop serves it anew soon, and asks again if it lacks that still. */
void gateway_later(struct gateway *gateway, const struct gateway_request *request);

/* A client of which Python has had a request, and whose connection has ended; each once. False: no more. */
bool gateway_gone(struct gateway *gateway, struct gateway_client *client);

/* Sends the client a request that it does not answer; code, remark and fields of the header are the caller's. False: it is gone, or does not
 * read what is sent to it. */
bool gateway_tell(struct gateway *gateway, struct gateway_client client, struct remoting_header *header, const uint8_t *body,
                  uint32_t body_size);

/* What a client calls itself. Replies that name it are sent to it. */
void gateway_name(struct gateway *gateway, struct gateway_client client, struct slice id);

/* Instead of an answer: asks that client, whose answer is passed on; or an error, if it has not answered after limit_ms or its connection has
 * ended. Code and fields of the header are the caller's. False: it is gone or does not read, or too many were asked; nothing was done. */
bool gateway_forward(struct gateway *gateway, const struct gateway_request *request, struct gateway_client client,
                     struct remoting_header *header, const uint8_t *body, uint32_t body_size, uint32_t limit_ms);

/* An offset that clients of a group have committed with a pull since the last look: the newest for each queue. False: no more; then
 * gathering begins anew. */
struct gateway_commit {
    uint8_t group[SEND_GROUP_MAX], topic[TOPIC_NAME_MAX];
    uint32_t group_size, topic_size;
    uint32_t slot, queue_id;
    uint64_t offset;
};
bool gateway_gathered(struct gateway *gateway, struct gateway_commit *commit);

/* Has the transaction of this half message given up (SETTLE_GIVE_UP): the offset in its queue, and in the log. False: not now. */
bool gateway_give_up(struct gateway *gateway, uint64_t offset, uint64_t physical_offset);

/* What a client's heartbeat says of a group and a topic: which messages it wants, by SQL92 or by tags, and its version of that (gateway_filter.h).
 * False: no memory, or too many. */
bool gateway_subscribe(struct gateway *gateway, struct slice group, struct slice topic, bool sql, struct slice text, int64_t version);
/* Nobody belongs to the group any more. */
void gateway_unsubscribe(struct gateway *gateway, struct slice group);

/* Groups that get nothing by pulls, in place of those that were named before. False: no memory, and those still are. */
bool gateway_pause(struct gateway *gateway, const struct slice *groups, uint32_t count);

/* Connections that are more than these are closed at once, one on which nothing was sent in either direction for idle_ms, and one whose large
 * request would need more memory than is left. At first, one address may have all, and the others are GATEWAY_IDLE_MS and GATEWAY_PARTS_BYTES. */
struct gateway_limits {
    uint32_t of_one_address; /* 0: as many as in all */
    uint32_t in_all;         /* GATEWAY_CONNECTIONS at most */
    uint32_t idle_ms;
    uint64_t parts_bytes;    /* of requests that have come in part, together */
};
void gateway_limit(struct gateway *gateway, const struct gateway_limits *limits);

/* How many found no room, or no memory, since this was asked last; of the last one: why, and its address and port, if they are known. */
enum gateway_crowd { GATEWAY_ADDRESS_FULL, GATEWAY_ALL_FULL, GATEWAY_NO_DESCRIPTORS, GATEWAY_NO_MEMORY };
uint32_t gateway_turned_away(struct gateway *gateway, enum gateway_crowd *why, const char **last);

/* Which connections are served: gateway_tls.c. At first, all are taken for plain ones. */
enum gateway_tls { GATEWAY_PLAIN, GATEWAY_PLAIN_OR_TLS, GATEWAY_TLS };
void gateway_speak_tls(struct gateway *gateway, enum gateway_tls tls);

/* A socket on which a client has begun with TLS, of which no byte was read; it is the caller's. False: no more. */
struct gateway_hello {
    int fd;
    char local[56], peer[56]; /* as in struct connection */
};
bool gateway_hello(struct gateway *gateway, struct gateway_hello *hello);

/* Serves hello->fd, which brings what such a client says in clear, as if it were the client; it takes the socket over. False: there is no room, and it was closed. */
bool gateway_adopt(struct gateway *gateway, const struct gateway_hello *hello);

/* Serves from now on only what these rules allow; NULL: everything. It takes them over. */
void gateway_guard(struct gateway *gateway, struct acl *acl);

/* Whether who has sent this request may read for this group, or from this topic; for names that stand in the body. */
bool gateway_permits(const struct gateway *gateway, const struct gateway_request *request, bool group, struct slice name);

/* What is popped by somebody: the group, the topic, and which of its messages; no text: all. ordered: each batch of a queue once the one before
 * it is done, or its time is over. any: whatever filter is in use; filter and sql are those to begin with if there is none. */
struct gateway_popped {
    struct slice group, topic, filter;
    bool sql, ordered, any;
};
/* A session that is a worker of the group, by which the gateway hands out: `memory` is the session of this shape, mapped read-write until
 * gateway_pop_over names it. False: no memory, or too many. */
bool gateway_pop_known(const struct gateway *gateway, const struct gateway_popped *what); /* there is one */
bool gateway_pop_open(struct gateway *gateway, const struct gateway_popped *what, void *memory, const struct session_shape *shape);

/* Whether the client that has asked this may have another such session opened. */
bool gateway_pop_may(const struct gateway *gateway, const struct gateway_request *request);
/* Instead of an answer: it is told when there is a message to pop, or after poll_ms that there is none. False: nothing was opened for this. */
bool gateway_pop_notice(struct gateway *gateway, const struct gateway_request *request, const struct gateway_popped *what, uint32_t poll_ms);
/* Pops of the group and topic that wait, and have named this queue; -1: none. */
uint32_t gateway_pops_waiting(const struct gateway *gateway, struct slice group, struct slice topic, int64_t queue);

/* A session of which the gateway has no more use, to be closed and unmapped. False: no more. */
struct gateway_pop_end {
    void *memory;
    uint32_t slot, epoch;
};
bool gateway_pop_over(struct gateway *gateway, struct gateway_pop_end *end);

/* Instead of an answer: these messages, by their receipts, are done; it is answered once all is noted. retry: they were popped from the
 * group's retries. False: no memory; nothing was done. */
struct gateway_pop_ack {
    struct slice group, topic;
    bool retry;
    uint32_t queue_id;
    uint64_t offset;
    int64_t pop_ms, tries;
};
bool gateway_acknowledge(struct gateway *gateway, const struct gateway_request *request, const struct gateway_pop_ack *acks, uint32_t count);

/* Connections that are open now. */
uint32_t gateway_connections(const struct gateway *gateway);

#endif

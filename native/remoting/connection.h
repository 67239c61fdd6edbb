/* One TCP connection of a client: what has come and is not served yet, and what is to be sent. Memory grows with the bytes that have come,
 * never with what a client announces.
 */
#ifndef ORBITMQ_CONNECTION_H
#define ORBITMQ_CONNECTION_H

#include "format/record_host.h"
#include "remoting/frame/remoting_header.h"

#include <sys/uio.h>

#define CONNECTION_ID_MAX 127u
#define CONNECTION_OUT_MAX (256u << 10) /* while more than this waits to be sent, nothing further is answered */

struct connection {
    int fd;                /* -1: there is none */
    uint32_t index;        /* in the gateway's table */
    uint32_t epoch;        /* which use of that index */
    uint32_t interest;     /* EPOLLIN and EPOLLOUT, as epoll knows them */
    bool ended;            /* nothing is read from it or sent to it any more */
    bool finished;         /* the client sends no more; what it is owed is still sent */
    bool deaf;             /* it cannot be sent anything any more; what it has sent before is still read and served */
    bool greeted;          /* it is known to be plain */
    bool stalled;          /* its request waits, for room in the submission ring for example */
    bool full;             /* requests wait until less is unsent */
    bool holds_full;       /* held pulls wait likewise */
    bool asked;            /* its request waits for Python */
    bool prepared;         /* Python has made what its request lacked */
    bool admitted;         /* the access rules allow its request */
    bool waits;            /* its request waits for the lead, or for room on the relay */
    bool of_front;         /* it is the lead's side of a relay */
    bool named;            /* its client has said its id in a heartbeat */
    bool known;            /* Python has had a request of it */
    bool queued;           /* it is in a list of the gateway's */
    struct relay *relay;   /* a front's: to the lead; NULL: there is none, or none any more */
    uint32_t sends;        /* of it, which wait for their verdicts */
    uint64_t passed;       /* bytes of its requests that were served, or passed on */
    uint64_t told;         /* how many the front knows to be served */
    struct remoting_header *parsed; /* of the frame at in_from, if that had to wait; its slices point into `in` */
    uint8_t *in;           /* [in_from, in_to) of in_room bytes */
    uint32_t in_from, in_to, in_room;
    uint8_t *out;          /* likewise */
    uint64_t out_from, out_to, out_room;
    uint64_t heard_ms;     /* CLOCK_MONOTONIC of the last byte, in either direction */
    uint8_t id_size;       /* 0: unknown, or longer than CONNECTION_ID_MAX */
    uint8_t id[CONNECTION_ID_MAX]; /* of the client; replies are addressed to it */
    char peer[56];         /* the client's, */
    struct record_host born; /* and as records name it */
    char local[56];        /* the address and port that the client reached, for routes */
};

/* A connection for a socket that is not blocking. NULL: no memory; the socket is still the caller's. */
struct connection *connection_open(int fd, uint32_t index, uint32_t epoch);
void connection_free(struct connection *connection);

/* Its client is the one at this address: it stands at the other end of whoever passes its bytes on. */
void connection_set_peer(struct connection *connection, const char *peer);

enum connection_read { CONNECTION_SOME, CONNECTION_NONE, CONNECTION_END, CONNECTION_LOST };

/* Reads what has come, at most some 64 KiB, for a frame of which `wanted` bytes in all are known to be needed. */
enum connection_read connection_read(struct connection *connection, uint32_t wanted);

/* Passes over the frame at the begin of what has come. */
void connection_pass(struct connection *connection, uint32_t size);

/* Frees the memory for what comes, if nothing has. Returns its size. */
uint32_t connection_rest(struct connection *connection);

/* Room for `size` more bytes to send, to be filled by the caller at once; NULL: no memory, and the connection has ended. */
uint8_t *connection_room(struct connection *connection, uint64_t size);

/* Sends what waits. False: the connection has ended. To one that is deaf nothing is sent, and nothing waits. */
bool connection_flush(struct connection *connection);

/* Sends what waits, then these pieces, without a copy of what the socket takes at once. They may be changed. */
bool connection_write(struct connection *connection, struct iovec *pieces, uint32_t count);

static inline uint64_t connection_unsent(const struct connection *connection) { return connection->out_to - connection->out_from; }

#endif

/* A process's private handle on the whole tree: where it has attached each segment, and the sessions it has mapped. */
#ifndef ORBITMQ_ATTACHMENT_H
#define ORBITMQ_ATTACHMENT_H

#include "base/clock.h"
#include "shared/control.h"
#include "shared/topics.h"

/* A mapped session. epoch 0: not mapped. */
struct session_map {
    struct session *session;
    uint64_t size;
    uint32_t epoch;
    struct session_shape shape; /* a trusted copy from the session table */
    struct session_parts parts;
};

struct attachment {
    struct control *control;
    struct topics *topics;
    struct wake *wake;
    struct lane *lanes[LANES_MAX];
    struct actor_page *page;      /* of this process */
    int gateway_event[GATEWAYS_MAX]; /* an eventfd that ends the gateway's sleep; -1: there is no such gateway */
    uint32_t sessions_version;    /* of the session table when last looked at */
    struct session_map sessions[SESSIONS_MAX];
};

/* Attaches to segments that are already mapped into this process; lanes may hold NULL if the process needs none. Aborts on a
 * segment of another layout: the supervisor has checked them. */
struct attachment *attachment_open(void *control, void *topics, void *wake, void **lanes, uint32_t lane_count, uint32_t actor);
void attachment_close(struct attachment *attachment);

/* The session in a slot, mapped read-write, if the table holds it READY or CLOSING under this epoch; NULL otherwise. Maps it through
 * the supervisor's descriptor on first use and refuses one that is not sealed against resizing or has another size. */
struct session_map *attachment_session(struct attachment *attachment, uint32_t slot, uint32_t epoch);

/* Unmaps sessions that are gone; cheap when sessions_version has not moved. */
void attachment_sweep(struct attachment *attachment);

/* The eventfd that this gateway has in its epoll; the tree's, so that it outlives each of them. */
void attachment_give_event(struct attachment *attachment, uint32_t gateway, int event);

/* Ends the gateway's sleep, if it has announced one. Returns whether a system call was made. A ringer that dies before the call leaves
 * the gateway asleep until its next look, a tenth of a second at most. */
bool attachment_ring_gateway(struct attachment *attachment, uint32_t gateway);

/* Reports that this actor is alive: its heartbeat, and on the first call its pid. */
void attachment_beat(struct attachment *attachment);
void attachment_state(struct attachment *attachment, enum actor_state state, uint32_t error);

#endif

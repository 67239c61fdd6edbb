/* Several gateways on one port. The first one is the lead: it alone has Python's side, which knows who is a member of what. The others are
 * fronts: each serves by itself what it can answer with certainty, and passes everything else on to the lead. This needs
 *
 *   for each client of a front   a relay: a pair of sockets, over which frames go to the lead and back, as they are (gateway_relay.c);
 *                                the lead serves its side of the pair as the connection of that client
 *   for each front               a line to the lead: a pair of sockets for short messages between the two, of which the supervisor
 *                                keeps both, so that what the one has said waits for the other one's successor
 *
 *   front -> lead   hello    a client has connected; with the lead's side of its relay
 *                   commit   an offset that a client has committed with a pull
 *                   begin    the front has begun, and knows of no subscription
 *   lead -> front   table    all subscriptions, in a file without a name (gateway_table.c)
 *
 * A message is one packet, of the sender's version of these structs; both processes were forked by the same supervisor.
 */
#ifndef ORBITMQ_GATEWAY_LINE_H
#define ORBITMQ_GATEWAY_LINE_H

#include "remoting/gateway/gateway_parts.h"

enum line_kind { LINE_HELLO = 1, LINE_COMMIT = 2, LINE_BEGIN = 3, LINE_TABLE = 4 };

struct line_message {
    uint32_t kind; /* enum line_kind */
    union {
        struct { char local[56], peer[56]; } hello;
        struct gateway_commit commit;
        uint64_t version; /* of a table */
    };
};

/* False: the other side does not read now, or no descriptors are left. fd: goes along, and stays the caller's; -1: none. */
bool gateway_line_put(int line, const struct line_message *message, int fd);

/* True if a short message finds room. */
bool gateway_line_open(int line);

/* Takes what has come on all lines. */
void gateway_take_lines(struct gateway *gateway);

/* gateway_table.c: tells fronts of the subscriptions, if they have changed. */
void gateway_tell_table(struct gateway *gateway);
/* A front: takes what the lead has told; the file stays the caller's. */
void gateway_take_table(struct gateway *gateway, uint64_t version, int file);

#endif

/* The coordinator's access to sessions that it has made: wakes their sleepers, and sends the handler to look at one. */
#ifndef ORBITMQ_SESSION_CALL_H
#define ORBITMQ_SESSION_CALL_H

#include "shared/control.h"

/* CLOCK_MONOTONIC of the client's last call, as the client says; 0: it has made none. */
uint64_t session_called_ns(const struct session *session);

/* How many messages a worker says that it wants to have in hand. */
uint32_t session_wanted(const struct session *session);

/* Wakes the client's threads that sleep on the session's bell. */
void session_ring(struct session *session);

/* Marks a session as having news for its handler, and rings it: after a change of the session's state. */
void session_call_handler(struct control *control, struct wake *wake, uint32_t slot);

/* Makes the notifier read every session's interests again, after sessions came or went. */
void session_call_notifier(struct wake *wake, uint32_t slot);

/* How far a lane is published and how far freed. Once `freed` has passed the value that `published` had, everything that the
 * session put into its lane before its end has been answered, and no process will touch the session's entry again for it. */
uint64_t lane_published(const struct lane *lane);
uint64_t lane_freed(const struct lane *lane);

#endif

/* What the files of sends share: a request that was read and found acceptable so far, and how its messages become part of the ring. */
#ifndef ORBITMQ_GATEWAY_SEND_H
#define ORBITMQ_GATEWAY_SEND_H

#include "remoting/gateway/gateway_parts.h"
#include "remoting/gateway/gateway_wish.h"
#include "remoting/frame/remoting_batch.h"

#define GATEWAY_MOST_TRIES 16 /* reconsume times of a message, unless the client says how many */

/* gateway_reply.c: gives a reply the form in which it is stored. Why it is none; NULL: it is one. */
const char *gateway_form_reply(struct gateway *gateway, struct gateway_wanted *wanted);
/* The client waits for a reply to the request that it sends. */
void gateway_note_request(struct gateway *gateway, const struct gateway_asker *asker, const struct gateway_wishes *wishes);

/* True if the topic of this name, NULL: of none, is missing, and Python was not asked for it yet. */
bool gateway_lacks(const struct gateway *gateway, const struct gateway_asker *asker, const char *topic);

/* Why nothing of the request can be taken, with the code for it; NULL: it can. Whether its topic may be written is not looked at. */
const char *gateway_refusal(const struct gateway_wanted *wanted, int32_t *code);

/* Opens a frame of the sender with this message, from the address of the client that sends it. Returns where its properties and its body
 * belong; NULL: nothing is open, and *served says what became of the request. has_id: it has an id of its own. */
uint8_t *gateway_open_frame(struct gateway *gateway, const struct gateway_asker *asker, const struct gateway_wanted *wanted, bool has_id,
                            const struct send_message *message, enum gateway_served *served);

/* Notes that the last `count` messages of the sender are to be answered together. id: of the message; or empty. */
void gateway_note_sent(struct gateway *gateway, const struct gateway_asker *asker, const struct gateway_wanted *wanted, uint32_t count,
                       struct slice id);

/* Puts the property of the request's id where the properties of a message begin, or only counts it if `to` is NULL. Returns its size: 0 without an id. */
uint32_t gateway_put_id(struct slice id, uint8_t *to);

/* gateway_back.c: a message that a group gives back by a send to its topic of retries, with what it was. */
enum gateway_served gateway_send_again(struct gateway *gateway, const struct gateway_asker *asker, struct gateway_wanted *wanted,
                                       struct slice body);

/* gateway_batch.c: a body of several messages. */
enum gateway_served gateway_send_batch(struct gateway *gateway, const struct gateway_asker *asker, const struct gateway_wanted *wanted,
                                       struct slice body);

#endif

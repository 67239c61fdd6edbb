/* What help() and inspect.signature() show about a producer's calls. Each text begins with the signature as CPython's
 * __text_signature__ wants it: "name($self, ...)", then a line "--". Text that several calls share is here once.
 */
#ifndef ORBITMQ_PRODUCER_DOCS_H
#define ORBITMQ_PRODUCER_DOCS_H

#define DOC_SIGNATURE(name, arguments) name "(" arguments ")\n--\n\n"

#define DOC_MESSAGE                                                                                                            \
    "$self, topic, body, *, tags=None, keys=(), queue=None, queue_key=None, properties=None, flag=0, durability=None, "            \
    "delay_level=None, delay=None, deliver_at=None, dedup=None, timeout=None"
#define DOC_BATCH                                                                                                              \
    "$self, topic, bodies, *, tags=None, keys=None, queue=None, queue_key=None, durability=None, delay_level=None, "               \
    "delay=None, deliver_at=None, properties=None, dedup=None, timeout=None"

#define DOC_QUEUES                                                                                                             \
    "    queue: number of the topic's queue, from 0; None: the queues take turns.\n"                                           \
    "    queue_key: str or bytes, instead of queue: messages with equal keys go to the same queue, in order.\n"

#define DOC_WAITS                                                                                                              \
    "    durability: \"appended\": survives the death of any process; \"flushed\": is on disk; None: the producer's "          \
    "level,\n        else the topic's.\n"                                                                                      \
    "    delay_level: from 1 (a second) to 18 (two hours), see docs/delay.md: consumers get it so much later. The receipt is "  \
    "of\n        its place among waiting messages. None or 0: at once.\n"                                                     \
    "    delay: seconds, or a timedelta, up to 366 days: the same, to the millisecond.\n"                                      \
    "    deliver_at: a datetime, or seconds since 1970: the same, at that time; at once if it is over.\n"                      \
    "    timeout: seconds to wait, for room and then for receipts; None: the producer's.\n"

#define DOC_MESSAGE_ARGUMENTS                                                                                                  \
    "Args:\n"                                                                                                                  \
    "    topic: an existing topic.\n"                                                                                          \
    "    body: bytes, another buffer, or str, which is sent as UTF-8. Copied before the call returns. Body and properties "    \
    "take\n        message_max bytes of the producer and of the broker at most.\n"                                             \
    "    tags: one tag, for consumers that filter by it.\n"                                                                    \
    "    keys: a key or several, to find the message by (Client.find); without blanks.\n" DOC_QUEUES                           \
    "    properties: other names and values, str; together with tags and keys at most 32,767 bytes.\n"                                  \
    "    flag: a number of the sender's own, signed 32 bits.\n"                                                                   \
    "    dedup: an id, str or bytes of 1 to 255 bytes: if a message was stored under it within the last dedup_window_s, in this\n" \
    "        topic, this one is not stored again, and the receipt is that of the first, with duplicate=True.\n" DOC_WAITS "\n"

#define DOC_REFUSED                                                                                                            \
    "    UnknownTopic, UnknownQueue, NoPermission, TopicNameError, MessageTooLarge, PropertiesTooLarge, PropertyError, "       \
    "SettingError:\n        the message cannot be sent in this form, and is not stored.\n"                                     \
    "    Full: there is no room now, and the producer was made with on_full=\"error\". NoMeans: the process lacks a "          \
    "resource.\n"                                                                                                              \
    "    BrokerNotRunning: nothing was sent. Closed: the producer was closed.\n"

#define DOC_LOST                                                                                                               \
    "    PerhapsStored: the broker died with it in flight. Look for it by its key before you send it again.\n"                 \
    "    StoreFull, StoreFailed: a failure of the disk. docs/errors.md says what is stored then.\n"

#define DOC_SEND                                                                                                               \
    DOC_SIGNATURE("send", DOC_MESSAGE)                                                                                         \
    "Sends a message and waits for its receipt.\n\n" DOC_MESSAGE_ARGUMENTS                                                     \
    "Returns: the Receipt: where the message is, and how safe it is there.\n\n"                                                \
    "Raises:\n" DOC_REFUSED                                                                                                    \
    "    TimedOut: with the attribute `pending`, the message is on its way, and pending.result() waits for it: sending it "    \
    "again\n        may store it twice. Without it, the message was not sent.\n" DOC_LOST

#define DOC_SEND_ASYNC                                                                                                         \
    DOC_SIGNATURE("send_async", DOC_MESSAGE)                                                                                   \
    "Sends a message without waiting for its receipt.\n\n" DOC_MESSAGE_ARGUMENTS                                               \
    "Returns: a Pending, once the message is on its way. Waits only for room.\n\n"                                             \
    "Raises:\n" DOC_REFUSED "    TimedOut: there was no room in time; the message was not sent.\n\n"                           \
    "Later failures (PerhapsStored, StoreFull, StoreFailed) are raised by the Pending's result().\n"

#define DOC_SEND_ONEWAY                                                                                                        \
    DOC_SIGNATURE("send_oneway", DOC_MESSAGE)                                                                                  \
    "Sends a message without asking for a receipt. `failed` counts messages that were not stored.\n\n" DOC_MESSAGE_ARGUMENTS   \
    "Raises:\n" DOC_REFUSED "    TimedOut: there was no room in time; the message was not sent.\n\n"                           \
    "Later failures (PerhapsStored, StoreFull, StoreFailed) are only counted in `failed`; flush() waits for all verdicts.\n"

#define DOC_BATCH_ARGUMENTS                                                                                                    \
    "Args:\n"                                                                                                                  \
    "    topic: an existing topic.\n"                                                                                          \
    "    bodies: bytes, other buffers or str, one a message; each within the limits of send().\n"                              \
    "    tags: one tag for all messages, or a sequence of a tag or None for each.\n"                                           \
    "    keys: a sequence with the key or keys of each message, or None for it.\n"                                             \
    "    properties: one mapping from str to str for all messages, or a sequence of a mapping or None for each.\n"             \
    "    queue: number of the topic's queue, from 0; None: each queue gets a run of consecutive messages.\n"                   \
    "    queue_key: str or bytes instead of queue, for all messages.\n"                                                         \
    "    dedup: a sequence with the id of each message; see send().\n" DOC_WAITS "\n"

#define DOC_BATCH_ERROR                                                                                                        \
    "A batch is not all or nothing: the error is that of the first message which was not stored. Its attributes describe "     \
    "the others.\nIf all messages were sent:\n"                                                                                \
    "    receipts: Receipts of all of them; receipts[i] raises why message i has none.\n"                                      \
    "    index: the first that was refused, from 0.\n"                                                                         \
    "    failed: how many were refused.\n"                                                                                     \
    "If the call ended before that:\n"                                                                                         \
    "    sent: the first `sent` bodies are on their way or stored; the others were not sent.\n"                                \
    "    pending: the PendingBatch of those; also if the time was over before all receipts had come.\n"

#define DOC_SEND_BATCH                                                                                                         \
    DOC_SIGNATURE("send_batch", DOC_BATCH)                                                                                     \
    "Sends many messages of one topic and waits for their receipts. Much cheaper than as many calls of send().\n\n"            \
    DOC_BATCH_ARGUMENTS "Returns: Receipts, in the order of the bodies.\n\nRaises:\n" DOC_REFUSED                              \
    "    TimedOut: the rest had no room, or receipts are missing; see below.\n" DOC_LOST "\n" DOC_BATCH_ERROR

#define DOC_SEND_BATCH_ASYNC                                                                                                   \
    DOC_SIGNATURE("send_batch_async", DOC_BATCH)                                                                               \
    "Sends many messages of one topic without waiting for their receipts.\n\n" DOC_BATCH_ARGUMENTS                             \
    "Returns: a PendingBatch, once all of them are on their way. Waits only for room.\n\nRaises:\n" DOC_REFUSED                \
    "    TimedOut: the rest had no room; see below.\n"                                                                         \
    "    PerhapsStored: the broker died before all of them were sent.\n\n" DOC_BATCH_ERROR                                     \
    "\nreceipts, index and failed come with the error that the PendingBatch's result() raises.\n"

#define DOC_DONE DOC_SIGNATURE("done", "$self") "True if result() would return at once. Never waits.\n"

#define DOC_RESULT                                                                                                             \
    DOC_SIGNATURE("result", "$self, timeout=None")                                                                             \
    "Waits for the receipt.\n\n"                                                                                               \
    "Args:\n"                                                                                                                  \
    "    timeout: seconds; None: for ever. The wait also ends when the broker ends.\n\n"                                       \
    "Returns: the Receipt. It can be asked for again.\n\n"                                                                     \
    "Raises:\n"                                                                                                                \
    "    TimedOut: the message is still on its way; call again.\n" DOC_LOST                                                    \
    "    UnknownTopic, UnknownQueue, NoPermission, MessageTooLarge, PropertiesTooLarge, PropertyError: the broker refused "    \
    "it.\n    Closed: it was sent by the process that this one was forked from.\n"

#define DOC_BATCH_RESULT                                                                                                       \
    DOC_SIGNATURE("result", "$self, timeout=None")                                                                             \
    "Waits for the receipts of all messages.\n\n"                                                                              \
    "Args:\n"                                                                                                                  \
    "    timeout: seconds; None: for ever. The wait also ends when the broker ends.\n\n"                                       \
    "Returns: Receipts, in the order of the bodies.\n\n"                                                                       \
    "Raises: TimedOut: some are still on their way; call again. Otherwise the error of the first message that was not "        \
    "stored,\nas from Pending.result, with these attributes:\n"                                                                \
    "    receipts: Receipts of all of them; receipts[i] raises why message i has none.\n"                                      \
    "    index: the first that was refused, from 0.\n"                                                                         \
    "    failed: how many were refused.\n"

/* What the library's other parts, and programs with an event loop of their own, use. */
#define DOC_FLUSH_END                                                                                                          \
    "int: the log must be on disk up to this byte before done() is True; 0: it need not, or the verdict has not come yet"

#define DOC_ANSWERED "bool: whether the verdict has come (of a batch, all of them), whatever the disk does"

#define DOC_RECEIPT                                                                                                            \
    DOC_SIGNATURE("receipt", "$self, index, /")                                                                                \
    "The receipt of one message whose verdict has come, by its place in the batch from 0; raises why it has none.\n"

#define DOC_CUT                                                                                                                \
    DOC_SIGNATURE("cut", "$self, /")                                                                                           \
    "Ends a batch that `push` has sent in part: from now on it is the batch of those messages. Returns how many they are.\n"

#define DOC_MAKE_BATCH                                                                                                         \
    DOC_SIGNATURE("make_batch", DOC_BATCH)                                                                                     \
    "A batch of which nothing is sent yet; `push` sends it. Arguments are those of send_batch_async.\n"

#define DOC_PUSH                                                                                                               \
    DOC_SIGNATURE("push", "$self, batch, /")                                                                                   \
    "Sends as much of a batch as there is room for now, and never waits. Returns whether all of it was sent.\n"

#define DOC_WAIT_SETTLED                                                                                                       \
    DOC_SIGNATURE("wait_settled", "$self, settled, end, timeout, /")                                                           \
    "Waits until the message after `settled` has its verdict; or, unless `end` is 0, until the disk has reached that byte of " \
    "the\nlog. Ends earlier with the broker, or after `timeout` seconds. False: there is no session to wait on.\n"

#define DOC_PREPARE                                                                                                            \
    DOC_SIGNATURE("prepare", "$self, /") "Opens a session if there is none, as a send does.\n"

#define DOC_RETIRE                                                                                                             \
    DOC_SIGNATURE("retire", "$self, /")                                                                                        \
    "Closes the producer at once: messages that are in flight end in PerhapsStored.\n"

#define DOC_POST_ATOMIC                                                                                                        \
    DOC_SIGNATURE("post_atomic", "$self, messages, durability, timeout, dedup=None, /")                                        \
    "Sends the messages of an atomic batch, and returns their PendingBatch. messages: for each, the arguments of send() and "  \
    "the\nnames of the last of them, as two tuples. dedup: the id of the batch. Producer.batch calls it."

#define DOC_SEND_COLUMNS                                                                                                       \
    DOC_SIGNATURE("send_columns",                                                                                              \
                  "$self, topic, rows, body_offsets, bodies, property_offsets, properties, queues, flags, key_offsets, keys, " \
                  "durable, /")                                                                                                \
    "Sends a batch out of Arrow's buffers, as the Spark sink does, without waiting for receipts. Offsets are of 64 bits, one\n" \
    "more than rows. properties: in their stored form. queues, flags: of 32 bits; key_offsets and keys: texts by which\n"      \
    "messages find their queues; each of them may be None. durable: receipts wait for the disk. Returns: a PendingBatch.\n"

#endif

/* Transactions as RocketMQ keeps them: a half message waits in queue 0 of RMQ_SYS_TRANS_HALF_TOPIC and names, in the properties REAL_TOPIC and
 * REAL_QID, where its message is to be. It is settled by an operation message in queue 0 of RMQ_SYS_TRANS_OP_HALF_TOPIC, with the tag "d" and
 * the half's queue offset as its body; RocketMQ 5 puts several offsets, each followed by a comma, into one.
 * Source: RocketMQ 4.9 TransactionalMessageBridge, EndTransactionProcessor; docs/transactions.md.
 */
#ifndef ORBITMQ_TRANSACTION_H
#define ORBITMQ_TRANSACTION_H

#include "format/properties.h"

#define HALF_TOPIC "RMQ_SYS_TRANS_HALF_TOPIC"
#define OP_TOPIC "RMQ_SYS_TRANS_OP_HALF_TOPIC"
#define GIVEN_UP_TOPIC "TRANS_CHECK_MAX_TIME_TOPIC" /* halves that nobody settled */
#define OP_PROPERTIES "TAGS\1d\2WAIT\1true"

/* The next offset in the body of an operation message; *body is what follows it. False at the end, or at what is no number. */
static inline bool op_next_offset(struct slice *body, uint64_t *offset)
{
    while (body->size && *body->data == ',') {
        body->data++;
        body->size--;
    }
    const struct slice from = *body;
    *offset = 0;
    while (body->size && *body->data >= '0' && *body->data <= '9' && *offset < UINT64_MAX / 16) {
        *offset = *offset * 10 + (uint64_t)(*body->data - '0');
        body->data++;
        body->size--;
    }
    return body->size != from.size;
}

#endif

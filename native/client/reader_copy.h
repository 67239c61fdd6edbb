/* Bodies that are checked while they are copied. */
#ifndef ORBITMQ_READER_COPY_H
#define ORBITMQ_READER_COPY_H

#include "client/reader.h"

/* Copies a body that was not checked, and checks the copy. False: it is damaged, and the fault is set. What was fetched from this
 * message on must be put back then, and reader_pass be called. */
bool reader_copy_body(struct reader *reader, const struct message_ref *ref, uint8_t *to);

#endif

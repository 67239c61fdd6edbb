/* A header in RocketMQ's binary form. */
#ifndef ORBITMQ_REMOTING_BINARY_H
#define ORBITMQ_REMOTING_BINARY_H

#include "remoting/frame/remoting_header.h"
#include "remoting/frame/remoting_text.h"

/* False: these bytes are no header. */
bool remoting_binary_read(const uint8_t *data, uint32_t size, struct remoting_header *header);
void remoting_binary_write(struct remoting_text *text, const struct remoting_header *header);

#endif

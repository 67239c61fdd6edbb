/* A header in JSON: one object of a few numbers and texts, and of the object extFields with text values. */
#ifndef ORBITMQ_REMOTING_JSON_H
#define ORBITMQ_REMOTING_JSON_H

#include "remoting/frame/remoting_header.h"
#include "remoting/frame/remoting_text.h"

/* False: these bytes are no header. `data` is changed: escapes are replaced where they are. */
bool remoting_json_read(uint8_t *data, uint32_t size, struct remoting_header *header);
void remoting_json_write(struct remoting_text *text, const struct remoting_header *header);

#endif

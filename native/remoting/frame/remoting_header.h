/* The header of a remoting frame: what is asked or answered, and the fields with text values that belong to it. In JSON and in
 * RocketMQ's binary form. Nothing here allocates. Nothing in a frame is believed: whatever bytes come, a header is read within
 * its bounds or refused.
 *
 * Source: RocketMQ 4.9 RemotingCommand, RemotingSerializable, RocketMQSerializable.
 */
#ifndef ORBITMQ_REMOTING_HEADER_H
#define ORBITMQ_REMOTING_HEADER_H

#include "format/properties.h"
#include "remoting/frame/remoting_frame.h"

#define REMOTING_FIELDS_MAX 64u /* a request has at most some 20 */
#define REMOTING_DEPTH_MAX 16u  /* of values that nobody looks at */

enum { REMOTING_RESPONSE = 1, REMOTING_ONE_WAY = 2 }; /* flag */
enum { REMOTING_JAVA = 0, REMOTING_OTHER = 7, REMOTING_LANGUAGES = 14 };

struct remoting_field {
    struct slice name, value;
};

/* Slices point into the frame, or to what the writer of an answer owns. */
struct remoting_header {
    int32_t code;
    int32_t version;
    int32_t opaque;
    int32_t flag;
    uint8_t language;
    bool has_fields;    /* when written as JSON: extFields is there, even without a field */
    struct slice remark; /* data == NULL: none */
    uint32_t field_count;
    struct remoting_field fields[REMOTING_FIELDS_MAX];
};

/* Reads a header of either type. `data` is changed: JSON's escapes are replaced where they are. False: it is no header. */
bool remoting_header_read(uint8_t *data, uint32_t size, uint8_t type, struct remoting_header *header);

/* Writes a frame's length, type and header, for a body of body_size bytes that the caller writes behind it. Returns the bytes
 * written; 0 if `room` is too small or the frame would be too large. */
uint32_t remoting_header_write(uint8_t *to, uint32_t room, uint8_t type, const struct remoting_header *header, uint32_t body_size);

/* The most that remoting_header_write needs. */
uint64_t remoting_header_room(const struct remoting_header *header);

/* The value of a field, the last one if it occurs twice; data == NULL: there is none. */
struct slice remoting_field(const struct remoting_header *header, const char *name);
/* The same for each name of one small letter, by letter, in one pass. */
#define REMOTING_LETTERS 26u
void remoting_letters(const struct remoting_header *header, struct slice values[REMOTING_LETTERS]);
/* A field's value as a number. False: there is none, or it is no whole number of 64 bits. */
bool remoting_field_number(const struct remoting_header *header, const char *name, int64_t *number);
bool remoting_number(struct slice text, int64_t *number);

/* Adds a field to a header that is written; it has room for REMOTING_FIELDS_MAX. */
void remoting_field_add(struct remoting_header *header, const char *name, struct slice value);

#endif

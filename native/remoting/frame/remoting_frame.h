/* Frames of RocketMQ's remoting protocol on TCP:
 *
 *     | length of all that follows (4) | serialize type (1) | header length (3) | header | body |
 *
 * Only the border of a frame is found here; its header is read in remoting_header.h. Integers are big-endian. Source: RocketMQ 4.9
 * RemotingCommand, NettyDecoder.
 */
#ifndef ORBITMQ_REMOTING_FRAME_H
#define ORBITMQ_REMOTING_FRAME_H

#include <stdint.h>

#define REMOTING_FRAME_START 8u            /* length, serialize type, header length */
#define REMOTING_FRAME_MAX (16u << 20)     /* what follows the length; RocketMQ's limit */
#define REMOTING_HEADER_MAX (1u << 20)     /* a header with properties of 32,767 bytes, each written as \u0001, has 200 KB */

enum remoting_type { REMOTING_JSON = 0, REMOTING_BINARY = 1 };

enum remoting_border {
    REMOTING_WHOLE = 0,     /* the frame is whole */
    REMOTING_PART = 1,      /* more bytes are needed; `size` says how many in all, once it is known */
    REMOTING_BAD_FRAME = 2, /* no frame begins here: the connection is of no use any more */
};

struct remoting_frame {
    uint32_t size;        /* of the whole frame, its length field included; 0: not known yet */
    uint32_t header_size; /* the header begins REMOTING_FRAME_START bytes behind the frame's begin */
    uint32_t body_at;
    uint32_t body_size;
    uint8_t type;         /* enum remoting_type */
};

/* Looks for a frame at the begin of `size` bytes. */
enum remoting_border remoting_frame(const uint8_t *data, uint64_t size, struct remoting_frame *frame);

#endif

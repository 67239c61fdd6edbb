#include "remoting/frame/remoting_frame.h"

#include "base/bytes.h"

enum remoting_border remoting_frame(const uint8_t *data, uint64_t size, struct remoting_frame *frame)
{
    *frame = (struct remoting_frame){0};
    if (size < 4)
        return REMOTING_PART;
    const uint32_t length = load_be32(data);
    if (length < REMOTING_FRAME_START - 4 || length > REMOTING_FRAME_MAX)
        return REMOTING_BAD_FRAME;
    frame->size = length + 4;
    if (size < REMOTING_FRAME_START)
        return REMOTING_PART;
    const uint32_t second = load_be32(data + 4);
    frame->type = (uint8_t)(second >> 24);
    frame->header_size = second & 0xFFFFFF;
    if (frame->type > REMOTING_BINARY || frame->header_size > REMOTING_HEADER_MAX ||
        frame->header_size > frame->size - REMOTING_FRAME_START)
        return REMOTING_BAD_FRAME;
    frame->body_at = REMOTING_FRAME_START + frame->header_size;
    frame->body_size = frame->size - frame->body_at;
    return size < frame->size ? REMOTING_PART : REMOTING_WHOLE;
}

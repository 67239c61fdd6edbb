struct attachment;
struct attachment *attachment_open(void *control, void *topics, void *wake, void **lanes, uint32_t lane_count, uint32_t actor);
void attachment_close(struct attachment *attachment);
void attachment_give_event(struct attachment *attachment, uint32_t gateway, int event);
void attachment_beat(struct attachment *attachment);

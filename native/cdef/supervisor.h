uint32_t supervisor_born(struct control *control, uint32_t actor, const char *name);
void supervisor_state(struct control *control, uint32_t actor, uint32_t pid, uint32_t state, uint32_t error);
uint32_t supervisor_error(const struct control *control, uint32_t actor);
void supervisor_beat(struct control *control, uint32_t actor);

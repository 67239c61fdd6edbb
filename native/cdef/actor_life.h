uint32_t actor_born(struct control *control, uint32_t actor, const char *name);
void actor_set_state(struct control *control, uint32_t actor, uint32_t pid, uint32_t state, uint32_t error);
uint32_t actor_error(const struct control *control, uint32_t actor);
void actor_beat(struct control *control, uint32_t actor);

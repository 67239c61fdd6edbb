/* The words of an actor's page that belong to the supervisor: which life of the actor this is, and what happened to the last
 * one. */
#ifndef ORBITMQ_ACTOR_LIFE_H
#define ORBITMQ_ACTOR_LIFE_H

#include "shared/control.h"

/* Called before the fork of an actor: sets its name, ACTOR_STARTING, no pid yet, and the next epoch, which it returns. */
uint32_t actor_born(struct control *control, uint32_t actor, const char *name);

/* Called after the end of an actor, or of the supervisor itself. pid 0: none. */
void actor_set_state(struct control *control, uint32_t actor, uint32_t pid, uint32_t state, uint32_t error);

uint32_t actor_error(const struct control *control, uint32_t actor);
void actor_beat(struct control *control, uint32_t actor);

#endif

#include "shared/actor_life.h"
#include "base/clock.h"

#include <string.h>

/* Stores are relaxed throughout: an actor is forked after its page is written, which orders everything, and all other readers
 * of a page only want fresh numbers (counters.h). */

uint32_t actor_born(struct control *control, uint32_t actor, const char *name)
{
    assert(actor < ACTORS_MAX);
    struct actor_page *page = &control->actors[actor];
    const size_t size = strlen(name);
    assert(size < sizeof page->name);
    memcpy(page->name, name, size + 1);
    const uint32_t epoch = atomic_load_explicit(&page->epoch, memory_order_relaxed) + 1;
    atomic_store_explicit(&page->epoch, epoch, memory_order_relaxed);
    actor_beat(control, actor); /* one that hangs from the beginning has been silent since then */
    actor_set_state(control, actor, 0, ACTOR_STARTING, 0);
    return epoch;
}

void actor_set_state(struct control *control, uint32_t actor, uint32_t pid, uint32_t state, uint32_t error)
{
    assert(actor < ACTORS_MAX);
    struct actor_page *page = &control->actors[actor];
    atomic_store_explicit(&page->pid, pid, memory_order_relaxed);
    atomic_store_explicit(&page->error, error, memory_order_relaxed);
    atomic_store_explicit(&page->state, state, memory_order_relaxed);
}

uint32_t actor_error(const struct control *control, uint32_t actor)
{
    assert(actor < ACTORS_MAX);
    return atomic_load_explicit(&control->actors[actor].error, memory_order_relaxed);
}

void actor_beat(struct control *control, uint32_t actor)
{
    assert(actor < ACTORS_MAX);
    atomic_store_explicit(&control->actors[actor].heartbeat_ms, clock_ms(), memory_order_relaxed);
}

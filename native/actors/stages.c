/* The loop. Its stages ring each other as always, which costs a look and no system call, because nobody sleeps behind those
 * bells: the process sleeps behind the one bell that clients can ring, its handler's. Only while the writer waits for the next
 * CommitLog file, and could not serve a client anyway, it sleeps behind the writer's, which the allocator rings. */
#include "actors/stages.h"
#include "base/pace.h"
#include <stdlib.h>

/* The handler ends its step after this much, which the writer and reput take at once too, so that they find the records in the
 * processor's cache, whatever the number of sessions. */
#define TURN_BYTES WRITER_GROUP_BYTES

struct stages {
    struct handler *handler;
    struct writer *writer;
    struct reput *reput;
    struct attachment *attachment; /* the handler's */
    struct pace pace;
};

struct stages *stages_open(struct attachment *attachment, struct handler *handler, struct writer *writer, struct reput *reput)
{
    struct stages *stages = calloc(1, sizeof *stages);
    if (!stages)
        return NULL;
    *stages = (struct stages){handler, writer, reput, attachment, pace_start()};
    handler_limit_step(handler, TURN_BYTES);
    return stages;
}

void stages_close(struct stages *stages) { free(stages); }

/* What one pass over the stages did. */
struct pass {
    uint32_t taken, answered, read; /* messages */
    bool moved;                     /* reput */
    enum run_result result;         /* reput's */
};

static struct pass pass_over(struct stages *stages, uint32_t ready)
{
    struct pass pass = {.result = RUN_TIME};
    pass.taken = handler_step(stages->handler);
    if (ready & STAGES_WRITES)
        pass.answered = writer_step(stages->writer);
    if (ready & STAGES_READS)
        pass.result = reput_turn(stages->reput, &pass.moved, &pass.read);
    return pass;
}

uint32_t stages_step(struct stages *stages)
{
    const struct pass pass = pass_over(stages, STAGES_WRITES | STAGES_READS);
    return pass.taken + pass.answered + pass.read;
}

/* For a writer that takes over. */
static bool reput_caught_up(const struct stages *stages)
{
    const struct control *control = stages->attachment->control;
    /* relaxed, both: stored by this process; the writer looks again */
    return atomic_load_explicit(&control->reput.value, memory_order_relaxed) >=
           atomic_load_explicit(&control->wrote.value, memory_order_relaxed);
}

static bool has_news(const struct stages *stages, uint32_t ready)
{
    return handler_has_news(stages->handler) || ((ready & STAGES_WRITES) && writer_has_news(stages->writer)) ||
           ((ready & STAGES_READS) && reput_has_news(stages->reput));
}

static enum bell_wake sleep_for_news(struct stages *stages, uint32_t ready)
{
    struct bell *bell = writer_ask_for_file(stages->writer) ? &stages->attachment->control->writer_bell : handler_bell(stages->handler);
    const uint32_t ticket = bell_announce(bell);
    if (has_news(stages, ready)) {
        bell_cancel(bell, ticket);
        return BELL_RUNG;
    }
    count(stages->attachment->page, COUNT_SLEEPS, 1);
    return bell_sleep(bell, ticket, reput_patience_ns(stages->reput));
}

enum run_result stages_run(struct stages *stages, uint32_t ready, uint32_t limit_ms)
{
    const struct control *control = stages->attachment->control;
    const uint64_t end = clock_ms() + limit_ms;
    const uint64_t spin_ns = (uint64_t)control->settings.spin_us * 1000u;
    for (;;) {
        const struct pass pass = pass_over(stages, ready);
        enum pace_rest rest = PACE_LOOK;
        if (pass.taken || pass.answered || pass.moved)
            pace_work(&stages->pace, pass.answered);
        else if (pass.result == RUN_TIME)
            rest = pace_idle(&stages->pace, spin_ns, control_crowded(control));
        const bool signal = rest == PACE_SIGNAL || (rest == PACE_SLEEP && sleep_for_news(stages, ready) == BELL_SIGNAL);
        const uint64_t now_ms = clock_ms();
        handler_tick(stages->handler, now_ms);
        writer_tick(stages->writer, !pass.answered);
        reput_tick(stages->reput, !pass.moved);
        if (pass.result != RUN_TIME)
            return pass.result;
        if (signal)
            return RUN_SIGNAL;
        if (now_ms >= end || (!(ready & STAGES_WRITES) && reput_caught_up(stages)))
            return RUN_TIME;
    }
}

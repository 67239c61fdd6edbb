/* The writer's loop: groups as long as there are messages, then a short spin, then a sleep until a handler rings. */
#include "actors/writer/writer_parts.h"
#include "base/clock.h"

bool writer_has_news(const struct writer *writer)
{
    const struct attachment *attachment = writer->attachment;
    if (writer->waits)
        return writer_file_ready(writer);
    for (uint32_t i = 0; i < attachment->control->settings.lanes; i++)
        /* acquire, after the announcement's fence [B1] */
        if (atomic_load_explicit(&attachment->lanes[i]->ring.tail.position, memory_order_acquire) != writer->lanes[i].position)
            return true;
    return false;
}

bool writer_ask_for_file(struct writer *writer)
{
    if (writer->waits)
        bell_ring(&writer->attachment->control->allocator_bell);
    return writer->waits;
}

void writer_tick(struct writer *writer, bool idle)
{
    if (idle)
        attachment_sweep(writer->attachment); /* not only before a sleep: a writer that spins may never sleep */
    writer_dedup_tick(writer);
    attachment_beat(writer->attachment);
}

/* Sleeps until a handler rings, or the allocator if a file is missing. */
static enum bell_wake sleep_for_news(struct writer *writer)
{
    struct attachment *attachment = writer->attachment;
    struct bell *bell = &attachment->control->writer_bell;
    const uint32_t ticket = bell_announce(bell);
    if (writer_has_news(writer)) {
        bell_cancel(bell, ticket);
        return BELL_RUNG;
    }
    writer_ask_for_file(writer);
    count(attachment->page, COUNT_SLEEPS, 1);
    return bell_sleep(bell, ticket, BELL_LIMIT_NS);
}

enum run_result writer_run(struct writer *writer, uint32_t limit_ms)
{
    struct attachment *attachment = writer->attachment;
    const uint64_t end = clock_ms() + limit_ms;
    const uint64_t spin_ns = (uint64_t)attachment->control->settings.spin_us * 1000u;
    for (;;) {
        const uint32_t messages = writer_step(writer);
        const enum pace_rest rest = messages ? PACE_LOOK
                                             : pace_idle(&writer->pace, spin_ns, control_crowded(attachment->control));
        if (messages)
            pace_work(&writer->pace, messages);
        if (rest == PACE_SIGNAL || (rest == PACE_SLEEP && sleep_for_news(writer) == BELL_SIGNAL))
            return RUN_SIGNAL;
        writer_tick(writer, !messages);
        if (clock_ms() >= end)
            return RUN_TIME;
    }
}

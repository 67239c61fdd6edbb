/* Which messages a group's workers want of its topics. Only a message that was never handed out is judged, when its turn comes: one that
 * does not pass is done. What cannot be read passes, so that its worker says so. */
#include "actors/dispatcher/dispatcher_parts.h"
#include "format/sql.h"
#include "format/tag_filter.h"
#include <errno.h>
#include <stdlib.h>

#define LOOKS_A_TURN 4096u
#define SHORT_MS 100u /* between two looks while this process is short of something */

struct work_filter {
    uint64_t number;
    uint64_t topics; /* bits */
    bool named;
    struct tag_filter tags;
    struct sql_program *sql; /* NULL: every message passes */
};

static void free_filter(struct work_filter *filter)
{
    tag_filter_clear(&filter->tags);
    sql_free(filter->sql);
    free(filter);
}

static struct work_filter *known(const struct work_group *group, uint64_t number)
{
    for (uint32_t i = 0; i < group->filter_count; i++)
        if (group->filters[i]->number == number)
            return group->filters[i];
    return NULL;
}

/* Returns 0 or an errno. */
static int compile(struct work_filter *filter, const struct slice *tags, uint32_t count, struct slice sql)
{
    struct sql_fault fault;
    const int error = tag_filter_set(&filter->tags, tags, count);
    if (error || !sql.size)
        return error;
    filter->sql = sql_compile(sql.data, sql.size, &fault);
    return filter->sql ? 0 : fault.memory ? ENOMEM : EINVAL;
}

int dispatcher_filter(struct dispatcher *dispatcher, int32_t number, uint64_t name, uint64_t topics, const struct slice *tags, uint32_t count,
                      struct slice sql)
{
    assert(number >= 0 && (uint32_t)number < dispatcher->group_count);
    struct work_group *group = dispatcher->groups[number];
    struct work_filter *filter = known(group, name);
    if (!filter) {
        if (group->filter_count == WORK_TOPICS_MAX * 2) /* those of the plan before are still there */
            return EINVAL;
        filter = calloc(1, sizeof *filter);
        const int error = filter ? compile(filter, tags, count, sql) : ENOMEM;
        if (error) {
            if (filter)
                free_filter(filter);
            return error;
        }
        filter->number = name;
        group->filters[group->filter_count++] = filter;
    }
    filter->named = true;
    filter->topics = topics;
    return 0;
}

void dispatcher_filter_begin(struct work_group *group)
{
    for (uint32_t i = 0; i < group->filter_count; i++)
        group->filters[i]->named = false;
}

static struct work_filter *of_topic(const struct work_group *group, uint32_t topic)
{
    for (uint32_t i = 0; i < group->filter_count; i++)
        if (group->filters[i]->topics >> topic & 1)
            return group->filters[i];
    return NULL;
}

void dispatcher_filter_settle(struct work_group *group)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < group->filter_count; i++) {
        if (group->filters[i]->named)
            group->filters[kept++] = group->filters[i];
        else
            free_filter(group->filters[i]);
    }
    group->filter_count = kept;
    bool changed = false;
    for (uint32_t i = 0; i < group->queue_count; i++) {
        struct work_queue *queue = group->queues[i];
        queue->filter = queue->retry ? NULL : of_topic(group, queue->topic);
        const uint64_t judge = queue->filter ? queue->filter->number : 0;
        changed |= queue->judge != judge;
        queue->judge = judge;
    }
    /* All of them, so that the messages of a key are known in the order of the log again. */
    for (uint32_t i = 0; i < group->queue_count && changed && group->order; i++)
        order_look_again(group->queues[i]);
}

void dispatcher_filter_forget(struct work_group *group)
{
    dispatcher_filter_begin(group);
    dispatcher_filter_settle(group);
}

void dispatcher_filter_turn(struct work_group *group) { group->looks = LOOKS_A_TURN; }

bool dispatcher_wants(const struct work_queue *queue, int64_t code, const struct record_view *view)
{
    const struct work_filter *filter = queue->filter;
    if (!filter || view->prepared_offset == RECORD_STANDS_IN)
        return true;
    return tag_filter_passes(&filter->tags, code, view->properties) &&
           (!filter->sql || sql_evaluate(filter->sql, view->properties.data, view->properties.size) == SQL_TRUE);
}

enum filter_result dispatcher_judge(struct work_queue *queue, uint64_t offset)
{
    struct queue_unit unit;
    struct record_view view;
    if (!queue->group->looks)
        return FILTER_LATER;
    queue->group->looks--;
    const enum unit_result found = dispatcher_unit(queue, offset, &unit);
    if (found == UNIT_FOUND && !tag_filter_wants(&queue->filter->tags, unit.tags_code))
        return FILTER_REFUSES;
    const bool read = found == UNIT_FOUND && dispatcher_record_of(queue, &unit, &view);
    if (read && view.queue_offset == offset)
        return dispatcher_wants(queue, unit.tags_code, &view) ? FILTER_PASSES : FILTER_REFUSES;
    if (found == UNIT_LATER || (found == UNIT_FOUND && !read && log_map_passing(errno))) {
        queue->short_ms = clock_ms() + SHORT_MS;
        return FILTER_LATER;
    }
    return FILTER_PASSES;
}

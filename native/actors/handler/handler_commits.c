/* The offsets of a group that a member commits with an atomic batch: they are stored as its last record, in queue 0 of
 * rmq_sys_group_commits (format/group_commit.h). Whether the group is where the record says is for the writer to decide
 * (writer_commits.c). Here it is checked that the sender may say it: the process has a session that is a member of the group.
 */
#include "actors/handler/handler_parts.h"
#include "base/bytes.h"

#include <string.h>

/* The member's session: of the same process as the sender's, and marked by the coordinator. */
static bool is_member(const struct handler *handler, uint32_t sender, const struct send_commits *said, struct slice group)
{
    const struct control *control = handler->attachment->control;
    if (said->slot >= SESSIONS_MAX)
        return false;
    const struct session_entry *member = &control->sessions[said->slot];
    /* acquire: the entry before its state [E1] */
    if (atomic_load_explicit(&member->state, memory_order_acquire) != SESSION_READY || member->shape.epoch != said->epoch ||
        member->shape.pid != control->sessions[sender].shape.pid)
        return false;
    const struct commit_key key = commit_key(group, (struct slice){NULL, 0}, 0);
    /* relaxed, both: a session that leaves its group meanwhile may count as a member still; the offsets decide */
    return atomic_load_explicit(&member->member_of[0], memory_order_relaxed) == key.word[0] &&
           atomic_load_explicit(&member->member_of[1], memory_order_relaxed) == key.word[1];
}

/* The queue exists and has come to the offset, or is to be forgotten. */
static enum verdict check_queue(const struct topics *topics, const struct group_commit *commit, uint32_t *detail)
{
    if (commit->to == COMMIT_TO_NOTHING)
        return VERDICT_APPENDED; /* also of a queue whose topic is gone */
    const uint32_t index = commit->topic.size <= TOPIC_NAME_MAX ? topics_find(topics, commit->topic.data, commit->topic.size) : TOPIC_NONE;
    if (index == TOPIC_NONE || topic_deleted(&topics->topic[index]))
        return VERDICT_UNKNOWN_TOPIC;
    const struct topic_entry *topic = &topics->topic[index];
    *detail = atomic_load_explicit(&topic->queues, memory_order_relaxed); /* relaxed: it only grows */
    if (commit->queue >= *detail)
        return VERDICT_UNKNOWN_QUEUE;
    /* relaxed: it only grows, and the sender has seen it */
    const uint64_t end = atomic_load_explicit(&topics_queue(topics, topic->first_slot + commit->queue)->max_offset, memory_order_relaxed);
    return commit->to <= end ? VERDICT_APPENDED : VERDICT_FENCED;
}

static enum verdict judge(struct handler *handler, uint32_t sender, const struct send_commits *said, struct slice body, uint32_t *detail)
{
    struct group_commits commits;
    struct group_commit next;
    enum verdict verdict = VERDICT_APPENDED;
    if (!group_commits_whole(body) || !group_commits_begin(body, &commits))
        return VERDICT_RESERVED; /* the library writes none such */
    if (!is_member(handler, sender, said, commits.group)) {
        *detail = UINT32_MAX;
        return VERDICT_FENCED;
    }
    while (verdict == VERDICT_APPENDED && group_commits_next(&commits, &next))
        verdict = check_queue(handler->attachment->topics, &next, detail);
    return verdict;
}

struct judged_message handler_judge_commits(struct handler *handler, uint32_t sender, const struct judged_frame *frame,
                                            const struct send_message *message, const uint8_t *content)
{
    const struct topics *topics = handler->attachment->topics;
    struct judged_message judged = {.template = &handler->delayed, .topic = frame->topic, .body = handler->commits};
    struct send_message own = *message;
    struct send_commits said;
    const uint32_t index = topics_find(topics, (const uint8_t *)COMMITS_TOPIC, sizeof COMMITS_TOPIC - 1);
    judged.verdict = frame->verdict == VERDICT_NO_PERMISSION ? VERDICT_APPENDED : frame->verdict; /* no sender writes there otherwise */
    if (judged.verdict == VERDICT_APPENDED && (index == TOPIC_NONE || frame->topic != &topics->topic[index]))
        judged.verdict = VERDICT_UNKNOWN_TOPIC;
    if (judged.verdict != VERDICT_APPENDED)
        return judged;
    memcpy(&said, content, sizeof said);
    OWN_COPY(said);
    own.properties_size = 0;
    judged.detail = COMMITS_BODY_MAX;
    judged.verdict = VERDICT_BODY_TOO_LARGE;
    if (own.body_size > COMMITS_BODY_MAX)
        return judged;
    memcpy(handler->commits, content + sizeof said, own.body_size); /* our own copy is judged, and stored */
    judged.detail = 0;
    judged.verdict = judge(handler, sender, &said, (struct slice){handler->commits, own.body_size}, &judged.detail);
    if (judged.verdict != VERDICT_APPENDED)
        return judged;
    const struct record_parts parts = handler_parts(handler, frame, &own, handler->properties);
    const uint32_t limit = handler->attachment->control->settings.message_max;
    if (record_image_size(&parts) > limit) {
        judged.detail = limit;
        judged.verdict = VERDICT_BODY_TOO_LARGE;
        return judged;
    }
    record_template_tail(&handler->delayed, &parts);
    record_template_header(&handler->delayed, &parts);
    return judged;
}

#include "remoting/gateway/gateway_filter.h"
#include "base/bytes.h"
#include "base/hash.h"

#include <stdlib.h>

static bool same(struct slice one, struct slice other) { return one.size == other.size && (!one.size || memcmp(one.data, other.data, one.size) == 0); }

static bool copy(struct slice from, struct slice *to)
{
    uint8_t *const data = malloc(from.size + 1);
    if (!data)
        return false;
    if (from.size)
        memcpy(data, from.data, from.size);
    *to = (struct slice){data, from.size};
    return true;
}

static void drop(struct slice *text)
{
    free((void *)(uintptr_t)text->data);
    text->data = NULL;
}

/* ---- filters ---- */

static void free_filter(struct gateway_filter *filter)
{
    sql_free(filter->program);
    drop(&filter->text);
    free(filter);
}

/* The tags of "a || b"; false: more than there is room for. */
static bool read_tags(struct gateway_filter *filter, struct slice text)
{
    for (uint32_t at = 0; at < text.size;) {
        uint32_t end = at;
        while (end < text.size && !(text.data[end] == '|' && end + 1 < text.size && text.data[end + 1] == '|'))
            end++;
        uint32_t from = at, to = end;
        while (from < to && text.data[from] <= ' ')
            from++;
        while (to > from && text.data[to - 1] <= ' ')
            to--;
        if (to > from) {
            if (filter->tag_count == GATEWAY_TAGS_MAX)
                return false;
            filter->tags[filter->tag_count++] = java_hash(0, text.data + from, to - from);
        }
        at = end + 2;
    }
    return true;
}

/* NULL with *why. */
static struct gateway_filter *compile(bool sql, struct slice text, const char **why)
{
    struct gateway_filter *const filter = calloc(1, sizeof *filter);
    *why = "the gateway has no memory for another filter";
    if (!filter)
        return NULL;
    filter->sql = sql;
    bool good = copy(text, &filter->text);
    if (good && sql) {
        struct sql_fault fault;
        filter->program = sql_compile(text.data, text.size, &fault);
        good = filter->program;
        if (!good && !fault.memory)
            *why = "the consumer's subscription is no filter of SQL92";
    } else if (good && !read_tags(filter, text)) {
        good = false;
        *why = "the subscription names more than 64 tags";
    }
    if (good)
        return filter;
    free_filter(filter);
    return NULL;
}

/* The place for another filter, where the one is let go that nobody has asked for longest; NULL: all are used. */
static struct gateway_filter **free_place(struct gateway_filters *filters)
{
    struct gateway_filter **oldest = NULL;
    if (filters->count < GATEWAY_FILTERS)
        return &filters->filter[filters->count++];
    for (uint32_t i = 0; i < GATEWAY_FILTERS; i++)
        if (!filters->filter[i]->users && (!oldest || filters->filter[i]->asked < (*oldest)->asked))
            oldest = &filters->filter[i];
    if (oldest)
        free_filter(*oldest);
    return oldest;
}

bool gateway_filter_find(struct gateway_filters *filters, bool sql, struct slice text, struct gateway_filter **filter, const char **why)
{
    *filter = NULL;
    if (!sql && (!text.size || (text.size == 1 && *text.data == '*')))
        return true;
    filters->asked++;
    for (uint32_t i = 0; i < filters->count; i++)
        if (filters->filter[i]->sql == sql && same(filters->filter[i]->text, text)) {
            *filter = filters->filter[i];
            (*filter)->asked = filters->asked;
            return true;
        }
    struct gateway_filter *const made = compile(sql, text, why);
    struct gateway_filter **const place = made ? free_place(filters) : NULL;
    if (!place) {
        if (made) {
            free_filter(made);
            *why = "the broker serves no more than 256 filters of remote consumers at a time";
        }
        return false;
    }
    *place = *filter = made;
    made->asked = filters->asked;
    return true;
}

bool gateway_filter_passes(const struct gateway_filter *filter, const struct message_ref *ref)
{
    if (!filter)
        return true;
    if (filter->sql) {
        const uint32_t topic_at = ref->body_at + ref->body_size, at = topic_at + 1 + ref->record[topic_at];
        return sql_evaluate(filter->program, ref->record + at + 2, load_be16(ref->record + at)) == SQL_TRUE;
    }
    for (uint32_t i = 0; i < filter->tag_count; i++)
        if (filter->tags[i] == (int32_t)ref->tags_code)
            return true;
    return !filter->tag_count;
}

/* ---- subscriptions ---- */

static uint64_t hash_of(struct slice group, struct slice topic)
{
    const uint8_t between = 0;
    const uint64_t hash = hash_bytes_64(hash_bytes_64(HASH_BEGIN_64, group.data, group.size), &between, 1);
    return hash_bytes_64(hash, topic.data, topic.size);
}

const struct gateway_subscription *gateway_filter_of(const struct gateway_filters *filters, struct slice group, struct slice topic)
{
    const uint64_t hash = hash_of(group, topic);
    for (uint32_t i = 0; i < filters->subscription_count; i++) {
        const struct gateway_subscription *const each = &filters->subscriptions[i];
        if (each->hash == hash && same(each->group, group) && same(each->topic, topic))
            return each;
    }
    return NULL;
}

static void use(struct gateway_filters *filters, struct gateway_subscription *subscription, struct gateway_filter *filter, bool bad)
{
    if (filter == subscription->filter && bad == subscription->bad)
        return;
    filters->changes++;
    if (filter)
        filter->users++;
    if (subscription->filter)
        subscription->filter->users--;
    subscription->filter = filter;
    subscription->bad = bad;
}

/* Another one, without a filter; NULL: no memory, or too many. */
static struct gateway_subscription *add(struct gateway_filters *filters, struct slice group, struct slice topic)
{
    if (filters->subscription_count == filters->subscription_room) {
        const uint32_t room = filters->subscription_room ? 2 * filters->subscription_room : 64;
        struct gateway_subscription *const all =
            room > GATEWAY_SUBSCRIPTIONS ? NULL : realloc(filters->subscriptions, room * sizeof *all);
        if (!all)
            return NULL;
        filters->subscriptions = all;
        filters->subscription_room = room;
    }
    struct gateway_subscription made = {.hash = hash_of(group, topic)};
    if (!copy(group, &made.group))
        return NULL;
    if (!copy(topic, &made.topic)) {
        drop(&made.group);
        return NULL;
    }
    filters->changes++;
    filters->subscriptions[filters->subscription_count] = made;
    return &filters->subscriptions[filters->subscription_count++];
}

static struct gateway_subscription *find(struct gateway_filters *filters, struct slice group, struct slice topic)
{
    return (struct gateway_subscription *)(uintptr_t)gateway_filter_of(filters, group, topic);
}

static void note_version(struct gateway_filters *filters, struct gateway_subscription *subscription, int64_t version)
{
    filters->changes += subscription->version != version;
    subscription->version = version;
}

bool gateway_filter_subscribe(struct gateway_filters *filters, struct slice group, struct slice topic, bool sql, struct slice text, int64_t version)
{
    const char *why;
    struct gateway_filter *filter;
    struct gateway_subscription *subscription = find(filters, group, topic);
    if (subscription && version && version < subscription->version)
        return true; /* another member of the group has changed it since */
    const bool good = gateway_filter_find(filters, sql, text, &filter, &why);
    if (!subscription)
        subscription = add(filters, group, topic);
    if (!subscription)
        return false;
    use(filters, subscription, filter, !good);
    note_version(filters, subscription, version);
    return true;
}

void gateway_filters_begin(struct gateway_filters *filters) { filters->tables++; }

bool gateway_filter_learn(struct gateway_filters *filters, const struct gateway_subscription *told, bool sql, struct slice text)
{
    const char *why;
    struct gateway_filter *filter = NULL;
    const bool good = told->bad || gateway_filter_find(filters, sql, text, &filter, &why);
    struct gateway_subscription *subscription = find(filters, told->group, told->topic);
    if (!subscription)
        subscription = add(filters, told->group, told->topic);
    if (!subscription)
        return false;
    use(filters, subscription, filter, told->bad);
    note_version(filters, subscription, told->version);
    subscription->elsewhere = !good;
    subscription->learnt = filters->tables;
    return true;
}

static void forget(struct gateway_filters *filters, struct gateway_subscription *each)
{
    use(filters, each, NULL, false);
    filters->changes++;
    drop(&each->group);
    drop(&each->topic);
    *each = filters->subscriptions[--filters->subscription_count];
}

void gateway_filters_end(struct gateway_filters *filters)
{
    for (uint32_t i = 0; i < filters->subscription_count;) {
        if (filters->subscriptions[i].learnt == filters->tables)
            i++;
        else
            forget(filters, &filters->subscriptions[i]);
    }
}

void gateway_filter_unsubscribe(struct gateway_filters *filters, struct slice group)
{
    for (uint32_t i = 0; i < filters->subscription_count;) {
        if (same(filters->subscriptions[i].group, group))
            forget(filters, &filters->subscriptions[i]);
        else
            i++;
    }
}

void gateway_filters_free(struct gateway_filters *filters)
{
    for (uint32_t i = 0; i < filters->subscription_count; i++) {
        drop(&filters->subscriptions[i].group);
        drop(&filters->subscriptions[i].topic);
    }
    free(filters->subscriptions);
    for (uint32_t i = 0; i < filters->count; i++)
        free_filter(filters->filter[i]);
}

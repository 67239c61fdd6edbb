/* What the fronts know of subscriptions. Only the lead hears heartbeats. Whenever they change something, it raises the version in the control
 * block, before it answers whoever has changed it, and afterwards sends all subscriptions to each front, as one file. A pull that relies on
 * them is served by a front only if it knows this very version, and by the lead otherwise. So a front never uses an old one: who has
 * been told that its subscription is known sees the version raised.
 *
 * The file: for each subscription its flags (1), the sizes of group (2), topic (2) and text (4), its version (8), and the texts.
 */
#include "remoting/gateway/gateway_line.h"

#include "base/clock.h"
#include "base/crash_point.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define TABLE_MS 20u               /* between two tables: a change of many groups is told at once */
#define TABLE_MAX (64u << 20)
#define ENTRY 17u                  /* bytes of an entry before its texts */
enum { TABLE_SQL = 1, TABLE_BAD = 2 };

void gateway_subscriptions_changed(struct gateway *gateway)
{
    /* release: only so that no reader sees it later than what is told afterwards; the lead alone writes it */
    atomic_fetch_add_explicit(&gateway->attachment->control->subscriptions, 1, memory_order_release);
    CRASH_POINT("gateway_table_raised");
    for (uint32_t i = 1; i < GATEWAYS_MAX; i++)
        gateway->table_due[i] = true;
}

/* relaxed: a client that was told of a change has had its answer from the lead, and asks afterwards */
static uint64_t version(const struct gateway *gateway) { return atomic_load_explicit(&gateway->attachment->control->subscriptions, memory_order_relaxed); }

bool gateway_knows_subscriptions(struct gateway *gateway)
{
    if (!gateway->number || gateway->table_version == version(gateway))
        return true;
    gateway_take_lines(gateway);
    return gateway->table_version == version(gateway);
}

/* ---- the lead's side */

static uint8_t *put(uint8_t *to, struct slice text)
{
    if (text.size)
        memcpy(to, text.data, text.size);
    return to + text.size;
}

static struct slice text_of(const struct gateway_subscription *each) { return each->filter ? each->filter->text : (struct slice){NULL, 0}; }

static uint8_t *put_entry(uint8_t *to, const struct gateway_subscription *each)
{
    const struct slice text = text_of(each);
    const uint16_t sizes[2] = {(uint16_t)each->group.size, (uint16_t)each->topic.size};
    *to++ = (uint8_t)((each->filter && each->filter->sql ? TABLE_SQL : 0) | (each->bad ? TABLE_BAD : 0));
    memcpy(to, sizes, sizeof sizes);
    memcpy(to + sizeof sizes, &text.size, sizeof text.size);
    memcpy(to + sizeof sizes + sizeof text.size, &each->version, sizeof each->version);
    return put(put(put(to + ENTRY - 1, each->group), each->topic), text);
}

/* A file with all of them; -1: there is no room for it, or it would be too large. */
static int file_of(const struct gateway_filters *filters)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < filters->subscription_count; i++) {
        const struct gateway_subscription *const each = &filters->subscriptions[i];
        if (each->group.size > UINT16_MAX || each->topic.size > UINT16_MAX)
            return -1;
        size += ENTRY + each->group.size + each->topic.size + text_of(each).size;
    }
    uint8_t *const content = size <= TABLE_MAX ? malloc(size + 1) : NULL;
    if (!content)
        return -1;
    uint8_t *to = content;
    for (uint32_t i = 0; i < filters->subscription_count; i++)
        to = put_entry(to, &filters->subscriptions[i]);
    int file = memfd_create("omq-subscriptions", MFD_CLOEXEC);
    if (file >= 0 && pwrite(file, content, size, 0) != (ssize_t)size) {
        close(file);
        file = -1;
    }
    free(content);
    return file;
}

void gateway_tell_table(struct gateway *gateway)
{
    bool due = false;
    for (uint32_t i = 1; i < GATEWAYS_MAX; i++)
        due |= gateway->lines[i] >= 0 && gateway->table_due[i];
    if (!due || gateway->number || gateway->stopping || clock_ms() - gateway->table_ms < TABLE_MS)
        return;
    gateway->table_ms = clock_ms();
    const struct line_message message = {.kind = LINE_TABLE, .version = version(gateway)};
    const int file = file_of(&gateway->filters);
    for (uint32_t i = 1; i < GATEWAYS_MAX && file >= 0; i++)
        if (gateway->lines[i] >= 0 && gateway->table_due[i])
            gateway->table_due[i] = !gateway_line_put(gateway->lines[i], &message, file);
    if (file >= 0)
        close(file);
    CRASH_POINT("gateway_table_told");
}

/* ---- a front's side */

/* False: it is no table. */
static bool read_entries(struct gateway *gateway, const uint8_t *at, uint64_t left)
{
    while (left) {
        uint16_t sizes[2];
        uint32_t text;
        if (left < ENTRY)
            return false;
        const uint8_t flags = *at;
        struct gateway_subscription told = {.bad = flags & TABLE_BAD};
        memcpy(sizes, at + 1, sizeof sizes);
        memcpy(&text, at + 1 + sizeof sizes, sizeof text);
        memcpy(&told.version, at + 1 + sizeof sizes + sizeof text, sizeof told.version);
        const uint64_t size = ENTRY + (uint64_t)sizes[0] + sizes[1] + text;
        if (size > left)
            return false;
        told.group = (struct slice){at + ENTRY, sizes[0]};
        told.topic = (struct slice){told.group.data + sizes[0], sizes[1]};
        const struct slice filter = {told.topic.data + sizes[1], text};
        if (!gateway_filter_learn(&gateway->filters, &told, flags & TABLE_SQL, filter))
            return false;
        at += size;
        left -= size;
    }
    return true;
}

void gateway_take_table(struct gateway *gateway, uint64_t told, int file)
{
    struct stat status;
    if (fstat(file, &status) != 0 || status.st_size < 0 || status.st_size > (off_t)TABLE_MAX)
        return;
    const uint64_t size = (uint64_t)status.st_size;
    uint8_t *const content = malloc(size + 1);
    if (!content)
        return; /* the lead serves what this one cannot */
    gateway->table_version = 0;
    gateway_filters_begin(&gateway->filters);
    if (pread(file, content, size, 0) == (ssize_t)size && read_entries(gateway, content, size)) {
        gateway_filters_end(&gateway->filters);
        gateway->table_version = told;
    }
    free(content);
    CRASH_POINT("gateway_table_taken");
}

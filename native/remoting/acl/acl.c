#include "remoting/acl/acl_need.h"
#include "remoting/acl/acl_signature.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

struct acl_account {
    struct slice access_key;
    struct hmac_key key;
    bool admin;
    uint8_t topics, groups;                 /* what it may do with those that are not named */
    uint32_t resources_from, resources_to;  /* sorted */
    uint32_t ranges_from, ranges_to;
};

struct acl {
    struct acl_account *accounts;           /* sorted, once sealed */
    struct acl_resource *resources;
    struct acl_range *ranges;
    uint32_t account_count, resource_count, range_count, global_ranges;
    uint32_t account_room, resource_room, range_room;
};

/* ---- filling ---- */

struct acl *acl_open(void) { return calloc(1, sizeof(struct acl)); }

static void free_text(struct slice text) { free((void *)(uintptr_t)text.data); }

void acl_free(struct acl *acl)
{
    if (!acl)
        return;
    for (uint32_t i = 0; i < acl->account_count; i++)
        free_text(acl->accounts[i].access_key);
    for (uint32_t i = 0; i < acl->resource_count; i++)
        free_text(acl->resources[i].name);
    if (acl->accounts)
        explicit_bzero(acl->accounts, acl->account_room * sizeof *acl->accounts); /* keys */
    free(acl->accounts);
    free(acl->resources);
    free(acl->ranges);
    free(acl);
}

static bool keep_text(struct slice text, struct slice *kept)
{
    uint8_t *const copy = malloc(text.size + 1u);
    if (!copy)
        return false;
    if (text.size)
        memcpy(copy, text.data, text.size);
    *kept = (struct slice){copy, text.size};
    return true;
}

/* Room for one more. The items, which may have moved; NULL: no memory. */
static void *grow(void *items, uint32_t count, uint32_t *room, size_t size)
{
    if (count < *room)
        return items;
    void *const more = realloc(items, (2u * count + 16) * size);
    if (more)
        *room = 2 * count + 16;
    return more;
}

bool acl_add_account(struct acl *acl, struct slice access_key, struct slice secret_key, bool admin, uint8_t topics, uint8_t groups)
{
    struct acl_account *const accounts = grow(acl->accounts, acl->account_count, &acl->account_room, sizeof *accounts);
    struct acl_account account = {
        .admin = admin,
        .topics = topics,
        .groups = groups,
        .resources_from = acl->resource_count,
        .resources_to = acl->resource_count,
        .ranges_from = acl->range_count,
        .ranges_to = acl->range_count,
    };
    if (!accounts)
        return false;
    acl->accounts = accounts;
    if (!keep_text(access_key, &account.access_key))
        return false;
    hmac_key(&account.key, secret_key.data, secret_key.size);
    accounts[acl->account_count++] = account;
    return true;
}

bool acl_add_permission(struct acl *acl, bool group, struct slice name, uint8_t permission)
{
    struct acl_resource *const resources = grow(acl->resources, acl->resource_count, &acl->resource_room, sizeof *resources);
    struct acl_resource resource = {.group = group, .permission = permission};
    if (!resources)
        return false;
    acl->resources = resources;
    if (!keep_text(name, &resource.name))
        return false;
    resources[acl->resource_count++] = resource;
    acl->accounts[acl->account_count - 1].resources_to = acl->resource_count;
    return true;
}

bool acl_add_range(struct acl *acl, const struct acl_range *range)
{
    struct acl_range *const ranges = grow(acl->ranges, acl->range_count, &acl->range_room, sizeof *ranges);
    if (!ranges)
        return false;
    acl->ranges = ranges;
    ranges[acl->range_count++] = *range;
    if (acl->account_count)
        acl->accounts[acl->account_count - 1].ranges_to = acl->range_count;
    else
        acl->global_ranges = acl->range_count;
    return true;
}

static int order_accounts(const void *one, const void *other)
{
    const struct acl_account *const a = one, *const b = other;
    return acl_compare(a->access_key, b->access_key);
}

static int order_resources(const void *one, const void *other)
{
    const struct acl_resource *const a = one, *const b = other;
    return a->group != b->group ? a->group - b->group : acl_compare(a->name, b->name);
}

void acl_seal(struct acl *acl)
{
    for (uint32_t i = 0; i < acl->account_count; i++) {
        const struct acl_account *const account = &acl->accounts[i];
        if (account->resources_to > account->resources_from)
            qsort(acl->resources + account->resources_from, account->resources_to - account->resources_from, sizeof *acl->resources,
                  order_resources);
    }
    if (acl->account_count)
        qsort(acl->accounts, acl->account_count, sizeof *acl->accounts, order_accounts);
}

/* ---- looking ---- */

struct address {
    uint32_t parts; /* 0: it cannot be read */
    uint16_t part[8];
};

static struct address read_address(const char *peer)
{
    static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF}; /* an IPv4 address as IPv6 writes it */
    struct address address = {0};
    char text[64] = "";
    uint8_t bytes[16];
    const bool bracket = *peer == '[';
    const char *const end = bracket ? strchr(peer, ']') : strrchr(peer, ':');
    if (!end || (size_t)(end - peer) >= sizeof text)
        return address;
    memcpy(text, peer + bracket, (size_t)(end - peer - bracket));
    const bool wide = bracket && inet_pton(AF_INET6, text, bytes) == 1;
    if (wide && memcmp(bytes, mapped, sizeof mapped) == 0) {
        address.parts = 4;
        memmove(bytes, bytes + 12, 4);
    } else if (wide) {
        address.parts = 8;
    } else if (inet_pton(AF_INET, text, bytes) == 1) {
        address.parts = 4;
    }
    for (uint32_t i = 0; i < address.parts; i++)
        address.part[i] = address.parts == 4 ? bytes[i] : (uint16_t)(bytes[2 * i] << 8 | bytes[2 * i + 1]);
    return address;
}

static bool is_in(const struct address *address, const struct acl_range *range)
{
    if (address->parts != range->parts)
        return false;
    for (uint32_t i = 0; i < address->parts; i++)
        if (address->part[i] < range->least[i] || address->part[i] > range->most[i])
            return false;
    return true;
}

static bool comes_from(const struct acl *acl, const char *peer, uint32_t from, uint32_t to)
{
    if (from == to)
        return false;
    const struct address address = read_address(peer);
    while (from < to && !is_in(&address, &acl->ranges[from]))
        from++;
    return address.parts && from < to;
}

static const struct acl_account *find_account(const struct acl *acl, struct slice access_key)
{
    const struct acl_account wanted = {.access_key = access_key};
    return acl->account_count ? bsearch(&wanted, acl->accounts, acl->account_count, sizeof *acl->accounts, order_accounts) : NULL;
}

static bool may(const struct acl *acl, const struct acl_account *account, const struct acl_resource *wanted)
{
    const uint32_t count = account->resources_to - account->resources_from;
    if (account->admin && !count)
        return true;
    const struct acl_resource *const named =
        count ? bsearch(wanted, acl->resources + account->resources_from, count, sizeof *acl->resources, order_resources) : NULL;
    const uint8_t has = named ? named->permission : wanted->group ? account->groups : account->topics;
    return has & wanted->permission;
}

static enum acl_verdict may_all(const struct acl *acl, const struct acl_account *account, const struct acl_need *need, struct slice *what)
{
    for (uint32_t i = 0; i < need->count; i++)
        if (!may(acl, account, &need->resource[i])) {
            *what = need->resource[i].name;
            return need->resource[i].group ? ACL_NO_GROUP : ACL_NO_TOPIC;
        }
    return ACL_ALLOWED;
}

enum acl_verdict acl_check(const struct acl *acl, const char *peer, const struct remoting_header *header, struct slice body, struct slice *what)
{
    const struct acl_need need = acl_need(header);
    *what = (struct slice){0};
    if (need.open || comes_from(acl, peer, 0, acl->global_ranges))
        return ACL_ALLOWED;
    *what = remoting_field(header, "AccessKey");
    if (!what->data)
        return ACL_NO_KEY;
    const struct acl_account *const account = find_account(acl, *what);
    if (!account)
        return ACL_UNKNOWN_KEY;
    if (comes_from(acl, peer, account->ranges_from, account->ranges_to))
        return ACL_ALLOWED;
    if (!acl_signed(&account->key, header, body))
        return ACL_BAD_SIGNATURE;
    if (need.admin && !account->admin)
        return ACL_NOT_ADMIN;
    return may_all(acl, account, &need, what);
}

bool acl_permits(const struct acl *acl, const char *peer, const struct remoting_header *header, bool group, struct slice name, uint8_t wanted)
{
    struct acl_need need = {0};
    struct slice what;
    if (comes_from(acl, peer, 0, acl->global_ranges))
        return true;
    const struct acl_account *const account = find_account(acl, remoting_field(header, "AccessKey"));
    if (!account)
        return false;
    if (comes_from(acl, peer, account->ranges_from, account->ranges_to))
        return true;
    if (group)
        need.resource[need.count++] = (struct acl_resource){.group = true, .permission = wanted, .name = name};
    else
        acl_need_topic(&need, name, wanted);
    return may_all(acl, account, &need, &what) == ACL_ALLOWED;
}

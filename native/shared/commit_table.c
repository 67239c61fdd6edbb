#include "shared/commit_table.h"

static uint64_t see(const _Atomic uint64_t *word) { return atomic_load_explicit(word, memory_order_relaxed); /* relaxed: see the header */ }

static void put(_Atomic uint64_t *word, uint64_t value) { atomic_store_explicit(word, value, memory_order_relaxed); /* relaxed: likewise */ }

/* The place of a key, or the free one in which it would be. At least half of the places are free. */
static struct commit_place *find(const struct commit_table *table, const struct commit_key *key)
{
    for (uint64_t at = key->word[1];; at++) {
        const struct commit_place *place = &table->place[at % COMMIT_PLACES];
        const uint64_t first = see(&place->key[0]);
        if (first == 0 || (first == key->word[0] && see(&place->key[1]) == key->word[1]))
            return (struct commit_place *)(uintptr_t)place;
    }
}

uint64_t commit_table_get(const struct commit_table *table, const struct commit_key *key)
{
    const struct commit_place *place = find(table, key);
    const uint64_t value = see(&place->key[0]) ? see(&place->value) : 0;
    return value ? value - 1 : COMMIT_FROM_NOTHING;
}

bool commit_table_room(const struct commit_table *table, uint32_t keys) { return see(&table->count) + keys <= COMMIT_KEYS_MAX; }

bool commit_table_set(struct commit_table *table, const struct commit_key *key, uint64_t offset)
{
    struct commit_place *place = find(table, key);
    if (see(&place->key[0]) == 0) {
        if (!commit_table_room(table, 1))
            return false;
        put(&place->value, 0);
        put(&place->key[1], key->word[1]);
        put(&table->count, see(&table->count) + 1);
        put(&place->key[0], key->word[0]);
    }
    put(&place->value, offset + 1);
    return true;
}

void commit_table_copy(struct commit_table *to, const struct commit_table *from)
{
    const bool empty = see(&to->count) == 0 && see(&from->count) == 0;
    put(&to->next, see(&from->next));
    put(&to->count, see(&from->count));
    if (empty) /* to look at the places would give memory to each page of them */
        return;
    for (uint32_t i = 0; i < COMMIT_PLACES; i++) {
        put(&to->place[i].key[1], see(&from->place[i].key[1]));
        put(&to->place[i].value, see(&from->place[i].value));
        put(&to->place[i].key[0], see(&from->place[i].key[0]));
    }
}

struct dedup_entry {
    uint64_t hash, physical_offset, store_ms, family;
    uint32_t older, newer, before, after, number;
};
#define DEDUP_INDEXES ...
struct dedup_slots {
    uint32_t *slots;
    uint32_t count, moved;
};
struct dedup_table {
    struct dedup_entry *entries;
    struct dedup_slots now[...], former[...];
    uint32_t room, used, unused, oldest, newest, count;
};
struct dedup_probe {
    uint32_t step, former;
};
bool dedup_table_open(struct dedup_table *table, uint32_t room);
void dedup_table_close(struct dedup_table *table);
const struct dedup_entry *dedup_table_next(const struct dedup_table *table, uint64_t hash, struct dedup_probe *probe);
void dedup_table_put(struct dedup_table *table, const struct dedup_entry *entry);
bool dedup_table_room(struct dedup_table *table);
void dedup_table_trim(struct dedup_table *table, uint64_t family, uint32_t keep);
void dedup_table_expire(struct dedup_table *table, uint64_t through_ms);
void dedup_table_take_back(struct dedup_table *table, uint64_t from_offset);

enum bell_wake { BELL_RUNG, BELL_TIMEOUT, BELL_SIGNAL, ... };
#define BELL_LIMIT_NS ...
uint32_t bell_announce(struct bell *bell);
void bell_cancel(struct bell *bell, uint32_t ticket);
enum bell_wake bell_sleep(struct bell *bell, uint32_t ticket, uint64_t limit_ns);
bool bell_ring(struct bell *bell);
uint32_t bell_rung(const struct bell *bell);
uint32_t bell_asleep(const struct bell *bell);
uint32_t bell_answer(struct bell *bell);
bool bell_available(void);

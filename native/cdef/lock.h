enum lock_result { LOCK_TAKEN, LOCK_STOLEN, LOCK_TIMEOUT, LOCK_SIGNAL, ... };
uint64_t lock_self(void);
bool lock_holder_dead(uint64_t word);
enum lock_result lock_acquire(struct lock *lock, uint64_t limit_ns);
void lock_release(struct lock *lock);
uint64_t lock_word(const struct lock *lock);

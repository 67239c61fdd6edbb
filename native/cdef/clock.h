uint64_t clock_ms(void);

struct reput;
struct reput *reput_open(struct attachment *tree);
void reput_close(struct reput *reput);
uint64_t reput_position(const struct reput *reput);
uint32_t reput_missing(const struct reput *reput, uint8_t *name, uint32_t *queue);
void reput_pass(struct reput *reput);
void reput_stop(struct reput *reput, uint32_t error);
uint32_t reput_step(struct reput *reput, uint32_t limit_bytes);
int reput_run(struct reput *reput, uint32_t limit_ms);

struct stages;
struct stages *stages_open(struct attachment *attachment, struct handler *handler, struct writer *writer, struct reput *reput);
void stages_close(struct stages *stages);
enum stages_ready { STAGES_WRITES, STAGES_READS, ... };
int stages_run(struct stages *stages, uint32_t ready, uint32_t limit_ms);
uint32_t stages_step(struct stages *stages);

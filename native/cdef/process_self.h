void process_name(const char *brief, const char *name);
bool process_tie(int parent);
bool process_shorten_slice(void);
uint64_t process_slice_ns(int pid);

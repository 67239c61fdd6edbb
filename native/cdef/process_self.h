void process_name(const char *brief, const char *name);
bool process_tie(int parent);

void process_name(const char *name);
bool process_tie(int parent);

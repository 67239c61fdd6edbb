int log_rewrite(int descriptor, uint64_t begin, uint64_t end);
int log_rewrite_direct(int descriptor, int direct, uint64_t begin, uint64_t end);
bool file_extents_unwritten(int descriptor, uint64_t begin, uint64_t end);

void write_back(const char *path);

int watch_open(const char *folder);
void watch_drain(int descriptor);

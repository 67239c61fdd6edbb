bool crash_points_built(void);
void crash_point_pass(const char *name);

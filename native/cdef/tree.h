struct tree;
struct tree *tree_attach(void *control, void *topics, void *wake, void **lanes, uint32_t lane_count, uint32_t actor);
void tree_detach(struct tree *tree);
void tree_beat(struct tree *tree);

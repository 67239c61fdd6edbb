/* Begins to write a file's dirty pages, without waiting. Called before many files are synced one by one, so that the disk has
 * them all at once, and the first sync's journal commit serves the others. */
#ifndef ORBITMQ_WRITE_BACK_H
#define ORBITMQ_WRITE_BACK_H

/* A hint: what cannot be begun now is done, or fails, at the file's own sync. */
void write_back(const char *path);

#endif

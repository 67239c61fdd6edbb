/* Watches a folder for names that come and go: a descriptor to wait on (inotify). */
#ifndef ORBITMQ_WATCH_H
#define ORBITMQ_WATCH_H

/* A descriptor that becomes readable once something was made, written, renamed or removed in the folder. The caller closes it.
 * -errno: there is no such folder, or this user has no watch left. */
int watch_open(const char *folder);

/* Clears what has been noticed, so that the next wait is for what comes after. */
void watch_drain(int descriptor);

#endif

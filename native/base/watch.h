/* Watching a folder for names that come and go: a descriptor to wait on (inotify). */
#ifndef ORBITMQ_WATCH_H
#define ORBITMQ_WATCH_H

/* A descriptor that is readable once something was made, written, renamed or removed in the folder; the caller's to close.
 * -errno: there is no such folder, or no watch left for this user. */
int watch_open(const char *folder);

/* Takes what has been noticed, so that the next wait is for what comes after. */
void watch_drain(int descriptor);

#endif

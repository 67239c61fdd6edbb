/* What a process of the tree does to itself: its name in `ps`, and its tie to the supervisor's life. */
#ifndef ORBITMQ_PROCESS_H
#define ORBITMQ_PROCESS_H

#include <stdbool.h>

/* Shows name in `ps` in both of its columns: the thread's name (cut to 15 bytes), and the command line, by overwriting the
 * argument area that the kernel reads (cut to its length; the area is found through /proc/self/stat). */
void process_name(const char *name);

/* Arms the parent-death signal SIGKILL, then looks whether the parent still is `parent`: it may have died between the fork and
 * the arming, and then nobody would ever send it. False: the caller must exit. */
bool process_tie(int parent);

#endif

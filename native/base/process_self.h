/* What a process of the tree sets for itself: its name in `ps`, and its tie to the supervisor's life. */
#ifndef ORBITMQ_PROCESS_SELF_H
#define ORBITMQ_PROCESS_SELF_H

#include <stdbool.h>

/* Names this process in both columns of `ps`: the thread's name is `brief` (cut to 15 bytes), and the command line `name`, by
 * overwriting the argument area that the kernel reads (cut to its length; found through /proc/self/stat). */
void process_name(const char *brief, const char *name);

/* Arms the parent-death signal SIGKILL, then checks that the parent is still `parent`: it may have died between the fork and
 * the arming, and then the signal would never come. False: the caller must exit. */
bool process_tie(int parent);

#endif

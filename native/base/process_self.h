/* What a process of the tree sets for itself: its name in `ps`, and its tie to the supervisor's life. */
#ifndef ORBITMQ_PROCESS_SELF_H
#define ORBITMQ_PROCESS_SELF_H

#include <stdbool.h>
#include <stdint.h>

/* Names this process in both columns of `ps`: the thread's name is `brief` (cut to 15 bytes), and the command line `name`, by
 * overwriting the argument area that the kernel reads (cut to its length; found through /proc/self/stat). */
void process_name(const char *brief, const char *name);

/* Arms the parent-death signal SIGKILL, then checks that the parent is still `parent`: it may have died between the fork and
 * the arming, and then the signal would never come. False: the caller must exit. */
bool process_tie(int parent);

/* Asks the scheduler for short slices (Linux 6.12 and newer; others ignore it), the share of the processor staying the same. A process
 * that works for microseconds and then waits is so run sooner beside one that computes, and sched_yield, which gives a whole slice
 * away, costs it less. False: refused. */
#define PROCESS_SLICE_NS 400000u
bool process_shorten_slice(void);

/* The slice of a process; 0 where the kernel does not tell. */
uint64_t process_slice_ns(int pid);

#endif

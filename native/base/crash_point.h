/* Named places at which a test can have a process killed: between any two steps that change shared state.
 *
 * A usual build has none of them. With -DORBITMQ_CRASH_POINTS each is a look at the crash plan, a file that the environment
 * variable ORBITMQ_CRASH_PLAN names and every process of a test maps. The process that passes an armed point for the last of
 * the requested passages writes its number into the plan and raises SIGKILL on itself: no handler runs, nothing is flushed. If
 * the plan says so, it raises SIGSTOP instead; a test can then do what another process would do in between.
 *
 * Points are named for their file and the step that is done when they are passed: writer_committed. A name occurs once.
 */
#ifndef ORBITMQ_CRASH_POINT_H
#define ORBITMQ_CRASH_POINT_H

#include <stdbool.h>

#ifdef ORBITMQ_CRASH_POINTS
#define CRASH_POINT(name) crash_point_pass(name)
#else
#define CRASH_POINT(name) ((void)0)
#endif

/* For Python's points; false in a usual build, in which the other function does nothing. */
bool crash_points_built(void);
void crash_point_pass(const char *name);

#endif

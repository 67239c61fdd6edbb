/* Named places at which a test can have a process killed: between any two steps that change shared state.
 *
 * A usual build knows none of them. With -DORBITMQ_CRASH_POINTS each is a look at the crash plan, a file that the environment's
 * ORBITMQ_CRASH_PLAN names and every process of a test maps. The process that passes an armed point for the last of the
 * passages asked for leaves its number in the plan and raises SIGKILL on itself: no handler runs, nothing is flushed. Where the plan
 * wants that, it is SIGSTOP instead: a test can then do what somebody else would do in between.
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

/* For Python's points; false in a usual build, where the other does nothing. */
bool crash_points_built(void);
void crash_point_pass(const char *name);

#endif

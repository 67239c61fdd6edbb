/* The pull-hold notifier: knows which session waits for which queue, and wakes sessions when reput has marked queues dirty.
 *
 * Interests are sticky: a session names its queues once, and from then on its bell's `asleep` word says whether it waits. reput
 * itself rings the only session in a queue's audience; the notifier serves all others, many queues at a time.
 */
#ifndef ORBITMQ_NOTIFIER_H
#define ORBITMQ_NOTIFIER_H

#include "actors/run.h"
#include "shared/attachment.h"

struct notifier;

/* Starts with every session's interests unread and every queue dirty. */
struct notifier *notifier_open(struct attachment *attachment);
void notifier_close(struct notifier *notifier);
uint32_t notifier_step(struct notifier *notifier);
enum run_result notifier_run(struct notifier *notifier, uint32_t limit_ms);

#endif

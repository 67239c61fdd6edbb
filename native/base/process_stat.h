/* What the kernel reports about a thread in /proc/<id>/stat: fields by their numbers in proc(5), from 3 on. */
#ifndef ORBITMQ_PROCESS_STAT_H
#define ORBITMQ_PROCESS_STAT_H

#include <stdint.h>

#define PROCESS_STAT_ROOM 2048u
#define PROCESS_STAT_STATE 3u
#define PROCESS_STAT_START 22u     /* ticks since the machine's start */
#define PROCESS_STAT_ARGUMENTS 48u /* where the argument area begins; 49: where it ends */

/* Reads the line; text has room for PROCESS_STAT_ROOM bytes. thread 0: this process. Returns 0 or errno. */
int process_stat_read(uint32_t thread, char *text);

/* The text from a field on; NULL if the line ends before it. */
const char *process_stat_field(const char *text, uint32_t field);

#endif

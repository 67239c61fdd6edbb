/* From a filter's text to its program. */
#ifndef ORBITMQ_SQL_COMPILE_H
#define ORBITMQ_SQL_COMPILE_H

#include <stdbool.h>
#include <stdint.h>

#define SQL_TEXT_MAX 65536u /* bytes */
#define SQL_DEPTH_MAX 64u   /* of parentheses, NOT and signs, in each other */
#define SQL_STEPS_MAX 8192u /* of a program: about one for each name, literal and operator */
#define SQL_NAMES_MAX 64u   /* different properties */

/* Why a text is no filter. */
struct sql_fault {
    uint32_t at;          /* byte of the text */
    uint32_t size;        /* of what was found there; 0: the end of the text */
    const char *expected; /* what could stand there; NULL if `why` says all */
    const char *why;      /* what is wrong with what was found; NULL if something else was expected */
    const char *way;      /* what to write instead, or NULL */
    bool memory;          /* there was no memory; nothing is wrong with the text */
};

struct sql_program;

/* Returns NULL with *fault filled. The text is not kept. */
struct sql_program *sql_compile(const uint8_t *text, uint32_t size, struct sql_fault *fault);
void sql_free(struct sql_program *program);

#endif

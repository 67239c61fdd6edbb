/* What the files of the SQL92 filters share:
 *
 *   sql_token.c    the text's tokens
 *   sql_compile.c  the grammar, and the program
 *   sql.c          a run of the program
 *   sql_number.c   numbers as Java reads them
 *
 * A program is in postfix order and works on a stack of values. AND and OR jump over their right side where the left one decides,
 * as RocketMQ does; so an error of the right side, which would end the run, does not happen then.
 */
#ifndef ORBITMQ_SQL_PARTS_H
#define ORBITMQ_SQL_PARTS_H

#include "format/sql.h"
#include "format/sql_number.h"
#include "format/sql_token.h"
#include <assert.h>

/* At each depth, OR, AND, = and one of the comparisons may each hold a value; BETWEEN holds two more. */
#define SQL_STACK_MAX (4 * (SQL_DEPTH_MAX + 1) + 4)

enum sql_kind {
    SQL_KIND_NULL,
    SQL_KIND_BOOLEAN,
    SQL_KIND_INTEGER, /* Java's int: a property beside one is read as an int */
    SQL_KIND_LONG,
    SQL_KIND_DOUBLE,
    SQL_KIND_TEXT,
};

struct sql_value {
    enum sql_kind kind;
    union {
        bool truth;
        int64_t integer;
        double real;
        struct slice text;
    };
};

enum sql_op {
    SQL_PUSH,     /* `value` */
    SQL_PROPERTY, /* the one with number `index` */
    SQL_CAST,     /* a property where a truth value is wanted: FALSE, or NULL if it is absent */
    SQL_NOT,
    SQL_AND_JUMP, /* to `index` if the top is FALSE */
    SQL_AND,
    SQL_OR_JUMP,  /* to `index` if the top is TRUE */
    SQL_OR,
    SQL_EQUAL,
    SQL_LESS,
    SQL_LESS_EQUAL,
    SQL_GREATER,
    SQL_GREATER_EQUAL,
    SQL_BETWEEN,
    SQL_NOT_BETWEEN,
    SQL_IN,       /* program->lists[index, index + count), in order */
    SQL_NOT_IN,
    SQL_CONTAINS, /* value.text */
    SQL_NOT_CONTAINS,
    SQL_STARTS,
    SQL_NOT_STARTS,
    SQL_ENDS,
    SQL_NOT_ENDS,
};

struct sql_step {
    enum sql_op op;
    uint32_t index;
    uint32_t count;
    struct sql_value value;
};

/* One allocation: steps, lists and texts follow the struct. */
struct sql_program {
    uint32_t step_count, list_count, name_count;
    struct slice names[SQL_NAMES_MAX];
    struct sql_step *steps;
    struct slice *lists;
    uint8_t *texts; /* of names and literals */
};

#endif

/* RocketMQ's SQL92 filters: text is compiled once, to a program that is then run over the properties of a message where they lie.
 *
 * Both may come from anybody: the text is bounded in size, depth and number of terms, and a run allocates nothing, recurses
 * nowhere and takes time in proportion to program and properties. docs/filters.md has the grammar and what it means. Source of the
 * semantics: RocketMQ 4.9 and 5, filter/, SelectorParser.jj and the classes of its expressions.
 */
#ifndef ORBITMQ_SQL_H
#define ORBITMQ_SQL_H

#include "format/properties.h"
#include "format/sql_compile.h"

/* What a filter says of a message. Only SQL_TRUE lets it pass. */
enum sql_result {
    SQL_FALSE = 0,
    SQL_TRUE = 1,
    SQL_NULL = 2,  /* unknown: a property that decides it is absent */
    SQL_ERROR = 3, /* a property cannot be compared, for example because it is no number: RocketMQ's broker logs that */
};

enum sql_result sql_evaluate(const struct sql_program *program, const uint8_t *properties, uint32_t size);

#endif

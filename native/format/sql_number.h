/* Numbers in text, as Java reads and compares them. */
#ifndef ORBITMQ_SQL_NUMBER_H
#define ORBITMQ_SQL_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Long.parseLong within [least, most]: an optional sign and decimal digits, nothing else. */
bool sql_integer(const uint8_t *text, uint32_t size, int64_t least, int64_t most, int64_t *value);

/* Double.parseDouble: white space around it, a sign, decimal or hexadecimal digits, NaN and Infinity, a suffix f or d. */
bool sql_real(const uint8_t *text, uint32_t size, double *value);

/* Double.compare: -0.0 comes before 0.0, and NaN, which equals itself, after everything. */
int sql_compare_reals(double a, double b);

#endif

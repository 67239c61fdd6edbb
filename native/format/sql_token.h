/* The tokens of a filter's text. */
#ifndef ORBITMQ_SQL_TOKEN_H
#define ORBITMQ_SQL_TOKEN_H

#include <stdint.h>

enum sql_token_kind {
    SQL_TOKEN_END,
    SQL_TOKEN_BAD, /* no token; `why` says why */
    SQL_TOKEN_NAME,
    SQL_TOKEN_TEXT,    /* with its quotes */
    SQL_TOKEN_INTEGER, /* perhaps with an L */
    SQL_TOKEN_FLOAT,
    SQL_TOKEN_SIGN,    /* = < ( and so on: `sign` */
    SQL_TOKEN_NOT_EQUAL,
    SQL_TOKEN_LESS_EQUAL,
    SQL_TOKEN_GREATER_EQUAL,
    SQL_TOKEN_NOT,
    SQL_TOKEN_AND,
    SQL_TOKEN_OR,
    SQL_TOKEN_BETWEEN,
    SQL_TOKEN_IN,
    SQL_TOKEN_TRUE,
    SQL_TOKEN_FALSE,
    SQL_TOKEN_NULL,
    SQL_TOKEN_IS,
    SQL_TOKEN_CONTAINS,
    SQL_TOKEN_STARTSWITH,
    SQL_TOKEN_ENDSWITH,
};

struct sql_token {
    enum sql_token_kind kind;
    uint8_t sign;
    uint32_t at, size;
    const char *why;
};

/* The token at `at` or after it, behind white space and comments. */
struct sql_token sql_token(const uint8_t *text, uint32_t size, uint32_t at);

#endif

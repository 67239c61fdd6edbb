/* The tokens of a filter's text. A word is a keyword in any case of its letters, or else the name of a property. */
#include "format/sql_token.h"

#include <stdbool.h>

static const struct {
    const char *word; /* in capitals */
    enum sql_token_kind kind;
} keywords[] = {
    {"NOT", SQL_TOKEN_NOT},         {"AND", SQL_TOKEN_AND},           {"OR", SQL_TOKEN_OR},
    {"BETWEEN", SQL_TOKEN_BETWEEN}, {"IN", SQL_TOKEN_IN},             {"TRUE", SQL_TOKEN_TRUE},
    {"FALSE", SQL_TOKEN_FALSE},     {"NULL", SQL_TOKEN_NULL},         {"IS", SQL_TOKEN_IS},
    {"CONTAINS", SQL_TOKEN_CONTAINS}, {"STARTSWITH", SQL_TOKEN_STARTSWITH}, {"ENDSWITH", SQL_TOKEN_ENDSWITH},
};

static inline bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }
static inline uint8_t capital(uint8_t c) { return c >= 'a' && c <= 'z' ? (uint8_t)(c - 32) : c; }
static inline bool begins_name(uint8_t c) { return (capital(c) >= 'A' && capital(c) <= 'Z') || c == '_' || c == '$'; }

static uint32_t digits(const uint8_t *text, uint32_t size, uint32_t at)
{
    while (at < size && is_digit(text[at]))
        at++;
    return at;
}

/* The end of an exponent at `at`, or `at` if there is none. */
static uint32_t exponent(const uint8_t *text, uint32_t size, uint32_t at)
{
    if (at == size || capital(text[at]) != 'E')
        return at;
    const uint32_t begin = at + 1 + (at + 1 < size && (text[at + 1] == '+' || text[at + 1] == '-'));
    const uint32_t end = digits(text, size, begin);
    return end > begin ? end : at;
}

static struct sql_token number(const uint8_t *text, uint32_t size, uint32_t at)
{
    struct sql_token token = {.kind = SQL_TOKEN_INTEGER, .at = at};
    uint32_t end = digits(text, size, at);
    if (end < size && text[end] == '.') {
        token.kind = SQL_TOKEN_FLOAT;
        end = digits(text, size, end + 1);
    }
    const uint32_t behind = exponent(text, size, end);
    if (behind > end) {
        token.kind = SQL_TOKEN_FLOAT;
        end = behind;
    }
    if (token.kind == SQL_TOKEN_INTEGER) {
        if (text[at] == '0' && end > at + 1) {
            token.kind = SQL_TOKEN_BAD;
            token.why = "an integer does not begin with 0";
        }
        end += end < size && capital(text[end]) == 'L';
    }
    token.size = end - at;
    if (end < size && begins_name(text[end])) {
        while (end < size && (begins_name(text[end]) || is_digit(text[end])))
            end++;
        token = (struct sql_token){.kind = SQL_TOKEN_BAD, .at = at, .size = end - at, .why = "it is neither a number nor a name"};
    }
    return token;
}

static struct sql_token quoted(const uint8_t *text, uint32_t size, uint32_t at)
{
    for (uint32_t i = at + 1; i < size; i++) {
        if (text[i] != '\'')
            continue;
        if (i + 1 == size || text[i + 1] != '\'')
            return (struct sql_token){.kind = SQL_TOKEN_TEXT, .at = at, .size = i + 1 - at};
        i++;
    }
    return (struct sql_token){.kind = SQL_TOKEN_BAD, .at = at, .size = size - at, .why = "its closing quote is missing"};
}

static struct sql_token word(const uint8_t *text, uint32_t size, uint32_t at)
{
    uint32_t end = at;
    while (end < size && (begins_name(text[end]) || is_digit(text[end])))
        end++;
    struct sql_token token = {.kind = SQL_TOKEN_NAME, .at = at, .size = end - at};
    for (uint32_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        uint32_t same = 0;
        while (same < token.size && capital(text[at + same]) == (uint8_t)keywords[i].word[same])
            same++; /* stops at the keyword's end: its zero is no letter of a name */
        if (same == token.size && !keywords[i].word[same])
            token.kind = keywords[i].kind;
    }
    return token;
}

/* The end of white space and comments; *open is where a comment begins that does not end, or `size`. */
static uint32_t skip(const uint8_t *text, uint32_t size, uint32_t at, uint32_t *open)
{
    *open = size;
    while (at < size) {
        if (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r' || text[at] == '\f') {
            at++;
        } else if (at + 1 < size && text[at] == '-' && text[at + 1] == '-') {
            while (at < size && text[at] != '\n' && text[at] != '\r')
                at++;
        } else if (at + 1 < size && text[at] == '/' && text[at + 1] == '*') {
            uint32_t end = at + 2;
            while (end + 1 < size && (text[end] != '*' || text[end + 1] != '/'))
                end++;
            if (end + 1 >= size) {
                *open = at;
                return at;
            }
            at = end + 2;
        } else {
            return at;
        }
    }
    return at;
}

struct sql_token sql_token(const uint8_t *text, uint32_t size, uint32_t at)
{
    uint32_t open;
    at = skip(text, size, at, &open);
    if (open < size)
        return (struct sql_token){.kind = SQL_TOKEN_BAD, .at = open, .size = size - open, .why = "the comment does not end"};
    if (at == size)
        return (struct sql_token){.kind = SQL_TOKEN_END, .at = at};
    const uint8_t first = text[at], second = at + 1 < size ? text[at + 1] : 0;
    if (is_digit(first) || (first == '.' && is_digit(second)))
        return number(text, size, at);
    if (first == '\'')
        return quoted(text, size, at);
    if (begins_name(first))
        return word(text, size, at);
    if (first == '<' && second == '>')
        return (struct sql_token){.kind = SQL_TOKEN_NOT_EQUAL, .at = at, .size = 2};
    if (first == '<' && second == '=')
        return (struct sql_token){.kind = SQL_TOKEN_LESS_EQUAL, .at = at, .size = 2};
    if (first == '>' && second == '=')
        return (struct sql_token){.kind = SQL_TOKEN_GREATER_EQUAL, .at = at, .size = 2};
    struct sql_token token = {.kind = SQL_TOKEN_SIGN, .sign = first, .at = at, .size = 1};
    switch (first) {
    case '=':
    case '<':
    case '>':
    case '(':
    case ')':
    case ',':
    case '+':
    case '-': return token;
    default: break;
    }
    while (at + token.size < size && (text[at + token.size] & 0xC0) == 0x80)
        token.size++; /* the rest of a character */
    token.kind = SQL_TOKEN_BAD;
    token.why = first == '"' ? "a text stands in single quotes" : "a filter has no such character outside quotes";
    return token;
}

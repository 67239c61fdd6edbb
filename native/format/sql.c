/* A run of a filter over the properties of one message. What is compared with what, and how, is RocketMQ's
 * ComparisonExpression: a property is text until it meets a number or a truth value. */
#include "base/bytes.h"
#include "format/sql_parts.h"

#define DIFFER 2 /* beside -1, 0 and 1: not equal, and of no order */
#define FAILS 3  /* RocketMQ throws */

static inline bool is_text(const struct sql_value *value) { return value->kind == SQL_KIND_TEXT; }

static inline double real_of(const struct sql_value *value)
{
    return value->kind == SQL_KIND_DOUBLE ? value->real : (double)value->integer;
}

/* Boolean.valueOf: everything but "true" is false. */
static bool truth_of(struct slice text)
{
    return text.size == 4 && (text.data[0] | 0x20) == 't' && (text.data[1] | 0x20) == 'r' && (text.data[2] | 0x20) == 'u' &&
           (text.data[3] | 0x20) == 'e';
}

/* The text as a value of the kind of `like`, a number. */
static bool number_like(struct slice text, const struct sql_value *like, struct sql_value *found)
{
    found->kind = like->kind;
    switch (like->kind) {
    case SQL_KIND_INTEGER: return sql_integer(text.data, text.size, INT32_MIN, INT32_MAX, &found->integer);
    case SQL_KIND_LONG: return sql_integer(text.data, text.size, INT64_MIN, INT64_MAX, &found->integer);
    default: return sql_real(text.data, text.size, &found->real);
    }
}

static inline bool is_number(const struct sql_value *value)
{
    return value->kind >= SQL_KIND_INTEGER && value->kind <= SQL_KIND_DOUBLE;
}

static int compare_numbers(const struct sql_value *a, const struct sql_value *b)
{
    if (a->kind == SQL_KIND_DOUBLE || b->kind == SQL_KIND_DOUBLE)
        return sql_compare_reals(real_of(a), real_of(b));
    return (a->integer > b->integer) - (a->integer < b->integer);
}

/* Neither is NULL. Texts are compared only for equality. */
static int compare(const struct sql_value *a, const struct sql_value *b)
{
    struct sql_value read;
    if (is_number(a) && is_number(b))
        return compare_numbers(a, b);
    if (is_text(a) && is_number(b))
        return number_like(a->text, b, &read) ? compare_numbers(&read, b) : FAILS;
    if (is_number(a) && is_text(b))
        return number_like(b->text, a, &read) ? compare_numbers(a, &read) : FAILS;
    if (is_text(a) && is_text(b))
        return a->text.size == b->text.size && bytes_equal(a->text.data, b->text.data, a->text.size) ? 0 : DIFFER;
    if (a->kind == SQL_KIND_BOOLEAN && b->kind == SQL_KIND_BOOLEAN)
        return a->truth == b->truth ? 0 : DIFFER;
    assert(is_text(a) && b->kind == SQL_KIND_BOOLEAN); /* the compiler refuses every other pair */
    return truth_of(a->text) == b->truth ? 0 : DIFFER;
}

static enum sql_result equal(const struct sql_value *a, const struct sql_value *b)
{
    if (a->kind == SQL_KIND_NULL)
        return b->kind == SQL_KIND_NULL ? SQL_TRUE : SQL_NULL;
    if (b->kind == SQL_KIND_NULL)
        return SQL_FALSE;
    const int compared = compare(a, b);
    return compared == FAILS ? SQL_ERROR : (enum sql_result)(compared == 0);
}

static enum sql_result order(enum sql_op op, const struct sql_value *a, const struct sql_value *b)
{
    if (a->kind == SQL_KIND_NULL || b->kind == SQL_KIND_NULL)
        return SQL_NULL;
    int compared;
    if (is_text(a) && is_text(b)) { /* two properties */
        double x, y;
        if (!sql_real(a->text.data, a->text.size, &x) || !sql_real(b->text.data, b->text.size, &y))
            return SQL_ERROR;
        compared = sql_compare_reals(x, y);
    } else {
        compared = compare(a, b);
    }
    if (compared == FAILS)
        return SQL_ERROR;
    switch (op) {
    case SQL_LESS: return compared < 0 ? SQL_TRUE : SQL_FALSE;
    case SQL_LESS_EQUAL: return compared <= 0 ? SQL_TRUE : SQL_FALSE;
    case SQL_GREATER: return compared > 0 ? SQL_TRUE : SQL_FALSE;
    default: return compared >= 0 ? SQL_TRUE : SQL_FALSE;
    }
}

static enum sql_result all(enum sql_result a, enum sql_result b)
{
    if (a == SQL_FALSE || b == SQL_FALSE)
        return SQL_FALSE;
    return a == SQL_NULL || b == SQL_NULL ? SQL_NULL : SQL_TRUE;
}

static enum sql_result any(enum sql_result a, enum sql_result b)
{
    if (a == SQL_TRUE || b == SQL_TRUE)
        return SQL_TRUE;
    return a == SQL_NULL || b == SQL_NULL ? SQL_NULL : SQL_FALSE;
}

/* of[0] between of[1] and of[2]. The second comparison, which may fail, is made only if the first decides nothing. */
static enum sql_result between(const struct sql_value *of, bool not)
{
    const enum sql_result first = order(not ? SQL_LESS : SQL_GREATER_EQUAL, &of[0], &of[1]);
    if (first == SQL_ERROR || first == (not ? SQL_TRUE : SQL_FALSE))
        return first;
    const enum sql_result second = order(not ? SQL_GREATER : SQL_LESS_EQUAL, &of[0], &of[2]);
    if (second == SQL_ERROR)
        return SQL_ERROR;
    return not ? any(first, second) : all(first, second);
}

/* Binary search in a list that is ordered by size and then bytes. */
static bool listed(const struct slice *list, uint32_t count, struct slice text)
{
    while (count) {
        const struct slice *middle = list + count / 2;
        int order = middle->size < text.size ? -1 : middle->size > text.size;
        if (order == 0)
            order = memcmp(middle->data, text.data, text.size);
        if (order == 0)
            return true;
        if (order < 0) {
            list = middle + 1;
            count -= count / 2 + 1;
        } else {
            count /= 2;
        }
    }
    return false;
}

static bool contains(struct slice text, struct slice part)
{
    return part.size <= text.size && memmem(text.data, text.size, part.data, part.size) != NULL;
}

static bool starts(struct slice text, struct slice part)
{
    return part.size <= text.size && memcmp(text.data, part.data, part.size) == 0;
}

static bool ends(struct slice text, struct slice part)
{
    return part.size <= text.size && memcmp(text.data + (text.size - part.size), part.data, part.size) == 0;
}

/* What is no text, or absent, neither contains nor lacks anything; and nothing contains or lacks an empty text. */
static enum sql_result test(enum sql_op op, const struct sql_value *value, struct slice part)
{
    if (!is_text(value) || part.size == 0)
        return SQL_FALSE;
    switch (op) {
    case SQL_CONTAINS: return contains(value->text, part) ? SQL_TRUE : SQL_FALSE;
    case SQL_NOT_CONTAINS: return contains(value->text, part) ? SQL_FALSE : SQL_TRUE;
    case SQL_STARTS: return starts(value->text, part) ? SQL_TRUE : SQL_FALSE;
    case SQL_NOT_STARTS: return starts(value->text, part) ? SQL_FALSE : SQL_TRUE;
    case SQL_ENDS: return ends(value->text, part) ? SQL_TRUE : SQL_FALSE;
    default: return ends(value->text, part) ? SQL_FALSE : SQL_TRUE;
    }
}

static inline enum sql_result result_of(const struct sql_value *value)
{
    assert(value->kind == SQL_KIND_NULL || value->kind == SQL_KIND_BOOLEAN);
    return value->kind == SQL_KIND_NULL ? SQL_NULL : (enum sql_result)value->truth;
}

static inline void put(struct sql_value *value, enum sql_result result)
{
    value->kind = result == SQL_NULL ? SQL_KIND_NULL : SQL_KIND_BOOLEAN;
    value->truth = result == SQL_TRUE;
}

enum sql_result sql_evaluate(const struct sql_program *program, const uint8_t *properties, uint32_t size)
{
    struct slice found[SQL_NAMES_MAX];
    struct sql_value stack[1 + SQL_STACK_MAX]; /* the first one is not used */
    struct sql_value *top = stack;
    properties_find(properties, size, program->names, program->name_count, found);
    for (uint32_t at = 0; at < program->step_count; at++) {
        const struct sql_step *step = &program->steps[at];
        enum sql_result result;
        switch (step->op) {
        case SQL_PUSH: *++top = step->value; continue;
        case SQL_PROPERTY:
            (++top)->kind = found[step->index].data ? SQL_KIND_TEXT : SQL_KIND_NULL;
            top->text = found[step->index];
            continue;
        case SQL_CAST: result = top->kind == SQL_KIND_NULL ? SQL_NULL : SQL_FALSE; break;
        case SQL_NOT:
            result = result_of(top);
            result = result == SQL_NULL ? SQL_NULL : (enum sql_result)(result == SQL_FALSE);
            break;
        case SQL_AND_JUMP:
            if (result_of(top) == SQL_FALSE)
                at = step->index - 1;
            continue;
        case SQL_OR_JUMP:
            if (result_of(top) == SQL_TRUE)
                at = step->index - 1;
            continue;
        case SQL_AND: top--; result = all(result_of(top), result_of(top + 1)); break;
        case SQL_OR: top--; result = any(result_of(top), result_of(top + 1)); break;
        case SQL_EQUAL: top--; result = equal(top, top + 1); break;
        case SQL_LESS:
        case SQL_LESS_EQUAL:
        case SQL_GREATER:
        case SQL_GREATER_EQUAL: top--; result = order(step->op, top, top + 1); break;
        case SQL_BETWEEN:
        case SQL_NOT_BETWEEN: top -= 2; result = between(top, step->op == SQL_NOT_BETWEEN); break;
        case SQL_IN:
        case SQL_NOT_IN:
            result = SQL_NULL;
            if (is_text(top))
                result = listed(program->lists + step->index, step->count, top->text) == (step->op == SQL_IN) ? SQL_TRUE
                                                                                                              : SQL_FALSE;
            break;
        default: result = test(step->op, top, step->value.text); break;
        }
        if (result == SQL_ERROR)
            return SQL_ERROR;
        put(top, result);
    }
    return result_of(top);
}

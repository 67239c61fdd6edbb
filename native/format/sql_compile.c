/* The grammar of RocketMQ's SelectorParser, by recursive descent, and the program that comes of it.
 *
 *   or         = and { OR and }
 *   and        = equality { AND equality }
 *   equality   = comparison { "=" comparison | "<>" comparison | IS [NOT] NULL }
 *   comparison = unary { ( ">" | ">=" | "<" | "<=" ) unary | [NOT] BETWEEN unary AND unary
 *                      | [NOT] IN "(" text { "," text } ")" | [NOT] ( CONTAINS | STARTSWITH | ENDSWITH ) text }
 *   unary      = { "+" | "-" | NOT } primary
 *   primary    = text | number | TRUE | FALSE | NULL | name | "(" or ")"
 *
 * What RocketMQ takes although it can never do what it says is refused here: see docs/filters.md.
 */
#include "format/sql_parts.h"

#include <math.h>
#include <stdlib.h>

/* What an expression is, as far as it decides where it may stand. */
enum shape { SHAPE_PROPERTY, SHAPE_NUMBER, SHAPE_TEXT, SHAPE_NULL, SHAPE_CONSTANT_TRUTH, SHAPE_TRUTH };

struct operand {
    enum shape shape;
    bool bare_not;   /* begins with NOT, outside parentheses */
    uint32_t at, end; /* in the text */
    uint32_t step;   /* of a property or literal */
};

struct parser {
    const uint8_t *text;
    uint32_t size;
    struct sql_token token; /* the next one */
    uint32_t end;           /* of the last one taken */
    uint32_t depth, stack, stack_most;
    uint32_t step_room, texts_used;
    struct sql_program *program;
    struct sql_fault *fault;
};

static bool or_expression(struct parser *parser, struct operand *found);

/* ---- faults; each returns false ---- */

static bool refuse(struct parser *parser, uint32_t at, uint32_t end, const char *why, const char *way)
{
    *parser->fault = (struct sql_fault){.at = at, .size = end - at, .why = why, .way = way};
    return false;
}

static bool refuse_operand(struct parser *parser, const struct operand *operand, const char *why, const char *way)
{
    return refuse(parser, operand->at, operand->end, why, way);
}

static bool expect(struct parser *parser, const char *expected, const char *way)
{
    const struct sql_token *token = &parser->token;
    if (token->kind == SQL_TOKEN_BAD)
        return refuse(parser, token->at, token->at + token->size, token->why, way);
    *parser->fault = (struct sql_fault){.at = token->at, .size = token->size, .expected = expected, .way = way};
    return false;
}

/* ---- tokens ---- */

static void take(struct parser *parser)
{
    parser->end = parser->token.at + parser->token.size;
    parser->token = sql_token(parser->text, parser->size, parser->end);
}

static bool take_if(struct parser *parser, enum sql_token_kind kind)
{
    if (parser->token.kind != kind)
        return false;
    take(parser);
    return true;
}

static bool at_sign(const struct parser *parser, char sign)
{
    return parser->token.kind == SQL_TOKEN_SIGN && parser->token.sign == (uint8_t)sign;
}

static bool take_sign(struct parser *parser, char sign)
{
    const bool there = at_sign(parser, sign);
    if (there)
        take(parser);
    return there;
}

/* ---- the program ---- */

/* The step's number in *index. `stack`: how many values it leaves more than it takes. */
static bool emit(struct parser *parser, struct sql_step step, int stack, uint32_t *index)
{
    struct sql_program *program = parser->program;
    if (program->step_count == parser->step_room)
        return refuse(parser, parser->end, parser->end, "the filter has too many terms", "split it, or filter in the program");
    parser->stack = (uint32_t)((int)parser->stack + stack);
    if (parser->stack > parser->stack_most)
        parser->stack_most = parser->stack;
    if (index)
        *index = program->step_count;
    program->steps[program->step_count++] = step;
    return true;
}

static bool emit_op(struct parser *parser, enum sql_op op, int stack)
{
    return emit(parser, (struct sql_step){.op = op}, stack, NULL);
}

static struct slice keep(struct parser *parser, const uint8_t *text, uint32_t size)
{
    uint8_t *to = parser->program->texts + parser->texts_used;
    memcpy(to, text, size);
    parser->texts_used += size;
    return (struct slice){to, size};
}

/* A quoted text's value: without its quotes, of two quotes within it one. It takes the token. */
static bool take_text(struct parser *parser, struct slice *value)
{
    if (parser->token.kind != SQL_TOKEN_TEXT)
        return expect(parser, "a text in single quotes", NULL);
    const uint8_t *from = parser->text + parser->token.at + 1;
    uint8_t *to = parser->program->texts + parser->texts_used;
    *value = (struct slice){to, 0};
    for (uint32_t i = 0; i + 2 < parser->token.size; i++) {
        to[value->size++] = from[i];
        i += from[i] == '\'';
    }
    parser->texts_used += value->size;
    take(parser);
    return true;
}

/* ---- expressions, from the innermost ---- */

static bool name(struct parser *parser, struct operand *found)
{
    struct sql_program *program = parser->program;
    const uint8_t *text = parser->text + parser->token.at;
    const uint32_t size = parser->token.size;
    uint32_t i = 0;
    while (i < program->name_count && !(program->names[i].size == size && memcmp(program->names[i].data, text, size) == 0))
        i++;
    if (i == SQL_NAMES_MAX)
        return refuse(parser, parser->token.at, parser->token.at + size, "the filter names too many properties",
                      "name at most 64 different ones");
    if (i == program->name_count)
        program->names[program->name_count++] = keep(parser, text, size);
    take(parser);
    found->shape = SHAPE_PROPERTY;
    return emit(parser, (struct sql_step){.op = SQL_PROPERTY, .index = i}, 1, &found->step);
}

static bool number(struct parser *parser, struct operand *found)
{
    const struct sql_token *token = &parser->token;
    const uint8_t *text = parser->text + token->at;
    struct sql_value value = {.kind = SQL_KIND_DOUBLE};
    if (token->kind == SQL_TOKEN_INTEGER) {
        const uint32_t digits = token->size - ((text[token->size - 1] | 0x20) == 'l');
        if (!sql_integer(text, digits, 0, INT64_MAX, &value.integer))
            return refuse(parser, token->at, token->at + token->size, "the integer is greater than 9223372036854775807",
                          "write a point behind it, for a double");
        value.kind = value.integer <= INT32_MAX ? SQL_KIND_INTEGER : SQL_KIND_LONG;
    } else if (!sql_real(text, token->size, &value.real) || isinf(value.real)) {
        return refuse(parser, token->at, token->at + token->size, "the number is too large for a double", NULL);
    }
    take(parser);
    found->shape = SHAPE_NUMBER;
    return emit(parser, (struct sql_step){.op = SQL_PUSH, .value = value}, 1, &found->step);
}

static bool constant(struct parser *parser, struct operand *found, enum shape shape, struct sql_value value)
{
    take(parser);
    found->shape = shape;
    return emit(parser, (struct sql_step){.op = SQL_PUSH, .value = value}, 1, &found->step);
}

static bool primary(struct parser *parser, struct operand *found)
{
    const enum sql_token_kind kind = parser->token.kind;
    struct sql_value value = {.kind = SQL_KIND_TEXT};
    switch (kind) {
    case SQL_TOKEN_NAME: return name(parser, found);
    case SQL_TOKEN_INTEGER:
    case SQL_TOKEN_FLOAT: return number(parser, found);
    case SQL_TOKEN_TRUE:
    case SQL_TOKEN_FALSE:
        return constant(parser, found, SHAPE_CONSTANT_TRUTH,
                        (struct sql_value){.kind = SQL_KIND_BOOLEAN, .truth = kind == SQL_TOKEN_TRUE});
    case SQL_TOKEN_NULL: return constant(parser, found, SHAPE_NULL, (struct sql_value){.kind = SQL_KIND_NULL});
    case SQL_TOKEN_TEXT:
        found->shape = SHAPE_TEXT;
        return take_text(parser, &value.text) &&
               emit(parser, (struct sql_step){.op = SQL_PUSH, .value = value}, 1, &found->step);
    default: break;
    }
    if (!at_sign(parser, '('))
        return expect(parser, "a property, a number, a text in single quotes, TRUE, FALSE, NULL, NOT or (", NULL);
    take(parser);
    if (!or_expression(parser, found))
        return false;
    if (!take_sign(parser, ')'))
        return expect(parser, "an operator, AND, OR or )", NULL);
    found->bare_not = false;
    return true;
}

static bool as_truth(struct parser *parser, struct operand *operand)
{
    if (operand->shape == SHAPE_NUMBER || operand->shape == SHAPE_TEXT)
        return refuse_operand(parser, operand, "it is neither true nor false", "compare it with something");
    if (operand->shape != SHAPE_PROPERTY)
        return true;
    operand->shape = SHAPE_TRUTH;
    return emit_op(parser, SQL_CAST, 0);
}

static bool negate(struct parser *parser, const struct operand *operand)
{
    if (operand->shape != SHAPE_NUMBER)
        return refuse_operand(parser, operand, "only a number can be negative", NULL);
    struct sql_value *value = &parser->program->steps[operand->step].value;
    if (value->kind == SQL_KIND_DOUBLE)
        value->real = -value->real;
    else
        value->integer = -value->integer;
    return true;
}

static bool unary_inner(struct parser *parser, struct operand *found);

static bool unary(struct parser *parser, struct operand *found)
{
    *found = (struct operand){.at = parser->token.at};
    if (++parser->depth > SQL_DEPTH_MAX)
        return refuse(parser, parser->token.at, parser->token.at + parser->token.size, "the filter is nested too deeply",
                      "nest at most 64 levels");
    const uint32_t at = found->at;
    if (!unary_inner(parser, found))
        return false;
    parser->depth--;
    found->at = at;
    found->end = parser->end;
    return true;
}

static bool unary_inner(struct parser *parser, struct operand *found)
{
    if (take_sign(parser, '+'))
        return unary(parser, found);
    if (take_sign(parser, '-'))
        return unary(parser, found) && negate(parser, found);
    if (!take_if(parser, SQL_TOKEN_NOT))
        return primary(parser, found);
    if (!unary(parser, found) || !as_truth(parser, found) || !emit_op(parser, SQL_NOT, 0))
        return false;
    found->shape = SHAPE_TRUTH;
    found->bare_not = true;
    return true;
}

#define NOT_FIRST "NOT belongs to what stands directly behind it"
#define NOT_WAY "put the comparison behind NOT in parentheses"

static bool ordered(struct parser *parser, const struct operand *operand)
{
    if (operand->bare_not)
        return refuse_operand(parser, operand, NOT_FIRST, NOT_WAY);
    if (operand->shape == SHAPE_PROPERTY || operand->shape == SHAPE_NUMBER)
        return true;
    return refuse_operand(parser, operand, "only properties and numbers have an order", "compare it with = or <>");
}

static bool order(struct parser *parser, struct operand *left, enum sql_op op)
{
    struct operand right;
    take(parser);
    return ordered(parser, left) && unary(parser, &right) && ordered(parser, &right) && emit_op(parser, op, -1);
}

static double real_of(const struct sql_value *value)
{
    return value->kind == SQL_KIND_DOUBLE ? value->real : (double)value->integer;
}

static bool between(struct parser *parser, struct operand *left, bool not)
{
    struct operand low, high;
    take(parser);
    if (!ordered(parser, left) || !unary(parser, &low) || !ordered(parser, &low))
        return false;
    if (!take_if(parser, SQL_TOKEN_AND))
        return expect(parser, "AND and the upper bound of BETWEEN", NULL);
    if (!unary(parser, &high) || !ordered(parser, &high))
        return false;
    if (!not && low.shape == SHAPE_NUMBER && high.shape == SHAPE_NUMBER) {
        const struct sql_value *a = &parser->program->steps[low.step].value, *b = &parser->program->steps[high.step].value;
        const bool whole = a->kind != SQL_KIND_DOUBLE && b->kind != SQL_KIND_DOUBLE;
        if (whole ? a->integer > b->integer : real_of(a) > real_of(b))
            return refuse(parser, low.at, high.end, "the lower bound is greater than the upper one", "write the lower one first");
    }
    return emit_op(parser, not ? SQL_NOT_BETWEEN : SQL_BETWEEN, -2);
}

static int by_size_and_bytes(const void *left, const void *right)
{
    const struct slice *a = left, *b = right;
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    return memcmp(a->data, b->data, a->size);
}

static bool in(struct parser *parser, struct operand *left, bool not)
{
    struct sql_program *program = parser->program;
    struct sql_step step = {.op = not ? SQL_NOT_IN : SQL_IN, .index = program->list_count};
    if (left->bare_not)
        return refuse_operand(parser, left, NOT_FIRST, "write NOT directly before IN");
    if (left->shape != SHAPE_PROPERTY)
        return refuse_operand(parser, left, "only a property can be IN a list", NULL);
    take(parser);
    if (!take_sign(parser, '('))
        return expect(parser, "( and a list of texts", NULL);
    do {
        const bool number = parser->token.kind == SQL_TOKEN_INTEGER || parser->token.kind == SQL_TOKEN_FLOAT;
        if (number)
            return expect(parser, "a text in single quotes", "IN compares texts: put the number in single quotes");
        if (!take_text(parser, &program->lists[program->list_count]))
            return false;
        program->list_count++;
    } while (take_sign(parser, ','));
    if (!take_sign(parser, ')'))
        return expect(parser, ", or )", NULL);
    step.count = program->list_count - step.index;
    qsort(program->lists + step.index, step.count, sizeof *program->lists, by_size_and_bytes);
    return emit(parser, step, 0, NULL);
}

static bool text_test(struct parser *parser, struct operand *left, enum sql_op op)
{
    struct sql_step step = {.op = op, .value.kind = SQL_KIND_TEXT};
    if (left->bare_not)
        return refuse_operand(parser, left, NOT_FIRST, "write NOT behind the property");
    take(parser);
    return take_text(parser, &step.value.text) && emit(parser, step, 0, NULL);
}

/* One operator of `comparison` with its right side. *more is false if there is none. */
static bool comparison_step(struct parser *parser, struct operand *left, bool *more)
{
    const enum sql_token_kind kind = parser->token.kind;
    *more = true;
    if (at_sign(parser, '<'))
        return order(parser, left, SQL_LESS);
    if (at_sign(parser, '>'))
        return order(parser, left, SQL_GREATER);
    switch (kind) {
    case SQL_TOKEN_LESS_EQUAL: return order(parser, left, SQL_LESS_EQUAL);
    case SQL_TOKEN_GREATER_EQUAL: return order(parser, left, SQL_GREATER_EQUAL);
    case SQL_TOKEN_BETWEEN: return between(parser, left, false);
    case SQL_TOKEN_IN: return in(parser, left, false);
    case SQL_TOKEN_CONTAINS: return text_test(parser, left, SQL_CONTAINS);
    case SQL_TOKEN_STARTSWITH: return text_test(parser, left, SQL_STARTS);
    case SQL_TOKEN_ENDSWITH: return text_test(parser, left, SQL_ENDS);
    case SQL_TOKEN_NOT: break;
    default: *more = false; return true;
    }
    take(parser);
    switch (parser->token.kind) {
    case SQL_TOKEN_BETWEEN: return between(parser, left, true);
    case SQL_TOKEN_IN: return in(parser, left, true);
    case SQL_TOKEN_CONTAINS: return text_test(parser, left, SQL_NOT_CONTAINS);
    case SQL_TOKEN_STARTSWITH: return text_test(parser, left, SQL_NOT_STARTS);
    case SQL_TOKEN_ENDSWITH: return text_test(parser, left, SQL_NOT_ENDS);
    default: return expect(parser, "BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH", NULL);
    }
}

static bool comparison(struct parser *parser, struct operand *found)
{
    if (!unary(parser, found))
        return false;
    for (bool more = true;;) {
        if (!comparison_step(parser, found, &more))
            return false;
        if (!more)
            return true;
        *found = (struct operand){.shape = SHAPE_TRUTH, .at = found->at, .end = parser->end};
    }
}

static bool equal_operands(struct parser *parser, const struct operand *left, const struct operand *right)
{
    const struct operand *null = left->shape == SHAPE_NULL ? left : right;
    if (null->shape == SHAPE_NULL)
        return refuse_operand(parser, null, "NULL equals nothing", "write IS NULL or IS NOT NULL");
    const bool left_truth = left->shape >= SHAPE_CONSTANT_TRUTH, right_truth = right->shape >= SHAPE_CONSTANT_TRUTH;
    if (left_truth && !right_truth)
        return refuse_operand(parser, right, "a truth value on the left is only compared with another one",
                              "write a property on the left");
    if (right_truth && left->shape == SHAPE_NUMBER)
        return refuse_operand(parser, left, "a number is never equal to a truth value", NULL);
    return true;
}

static bool equality(struct parser *parser, struct operand *found)
{
    if (!comparison(parser, found))
        return false;
    for (;;) {
        const bool equal = at_sign(parser, '='), differ = parser->token.kind == SQL_TOKEN_NOT_EQUAL;
        bool not = differ;
        if (equal || differ) {
            struct operand right;
            if (found->bare_not)
                return refuse_operand(parser, found, NOT_FIRST, NOT_WAY);
            take(parser);
            if (!comparison(parser, &right) || !equal_operands(parser, found, &right))
                return false;
        } else if (take_if(parser, SQL_TOKEN_IS)) {
            if (found->bare_not)
                return refuse_operand(parser, found, NOT_FIRST, "write IS NOT NULL");
            not = take_if(parser, SQL_TOKEN_NOT);
            if (!take_if(parser, SQL_TOKEN_NULL))
                return expect(parser, not ? "NULL" : "NULL or NOT NULL", NULL);
            if (!emit(parser, (struct sql_step){.op = SQL_PUSH, .value.kind = SQL_KIND_NULL}, 1, NULL))
                return false;
        } else {
            return true;
        }
        if (!emit_op(parser, SQL_EQUAL, -1) || (not && !emit_op(parser, SQL_NOT, 0)))
            return false;
        *found = (struct operand){.shape = SHAPE_TRUTH, .at = found->at, .end = parser->end};
    }
}

/* `left` and what follows the word: both sides, with the jump over the right one. */
static bool joined(struct parser *parser, struct operand *left, enum sql_token_kind word, enum sql_op jump, enum sql_op op,
                   bool (*side)(struct parser *, struct operand *))
{
    while (parser->token.kind == word) {
        struct operand right;
        uint32_t from;
        take(parser);
        if (!as_truth(parser, left) || !emit(parser, (struct sql_step){.op = jump}, 0, &from) || !side(parser, &right) ||
            !as_truth(parser, &right) || !emit_op(parser, op, -1))
            return false;
        parser->program->steps[from].index = parser->program->step_count;
        *left = (struct operand){.shape = SHAPE_TRUTH, .at = left->at, .end = parser->end};
    }
    return true;
}

static bool and_expression(struct parser *parser, struct operand *found)
{
    return equality(parser, found) && joined(parser, found, SQL_TOKEN_AND, SQL_AND_JUMP, SQL_AND, equality);
}

static bool or_expression(struct parser *parser, struct operand *found)
{
    return and_expression(parser, found) && joined(parser, found, SQL_TOKEN_OR, SQL_OR_JUMP, SQL_OR, and_expression);
}

struct sql_program *sql_compile(const uint8_t *text, uint32_t size, struct sql_fault *fault)
{
    struct parser parser = {.text = text, .size = size, .fault = fault};
    *fault = (struct sql_fault){0};
    if (size > SQL_TEXT_MAX) {
        refuse(&parser, SQL_TEXT_MAX, SQL_TEXT_MAX, "the filter is longer than 65536 bytes", "write less, or filter in the program");
        return NULL;
    }
    /* IS NOT NULL makes three steps of eleven bytes, <> two of two, a name of one byte a step and its cast. */
    parser.step_room = 2 * size + 2 < SQL_STEPS_MAX ? 2 * size + 2 : SQL_STEPS_MAX;
    const size_t lists_at = sizeof *parser.program + parser.step_room * sizeof(struct sql_step);
    const size_t texts_at = lists_at + (size / 2 + 1) * sizeof(struct slice);
    uint8_t *memory = calloc(1, texts_at + size + 1);
    if (!memory) {
        fault->memory = true;
        return NULL;
    }
    parser.program = (struct sql_program *)(void *)memory;
    parser.program->steps = (struct sql_step *)(void *)(memory + sizeof *parser.program);
    parser.program->lists = (struct slice *)(void *)(memory + lists_at);
    parser.program->texts = memory + texts_at;
    parser.token = sql_token(text, size, 0);
    struct operand whole;
    bool good = or_expression(&parser, &whole);
    if (good && parser.token.kind != SQL_TOKEN_END)
        good = expect(&parser, "an operator, AND, OR or the end", NULL);
    if (good && as_truth(&parser, &whole)) {
        assert(parser.stack == 1 && parser.stack_most <= SQL_STACK_MAX && parser.depth == 0);
        return parser.program;
    }
    free(memory);
    return NULL;
}

void sql_free(struct sql_program *program) { free(program); }

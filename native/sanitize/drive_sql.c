/* Filters of any bytes, in memory of exactly their size: a text is a program or has a fault within it, and a program says something of
 * any properties. */
#include "drive.h"
#include "format/sql.h"

#include <string.h>

#define ROUNDS 60000u
#define MESSAGES 4u

static const char *const words[] = {
    "NOT ",  "and ", " OR ", " BETWEEN ", " in (", "TRUE", "false", "NULL", " IS ",  " CONTAINS ", " startswith ", " ENDSWITH ",
    "=",     "<>",   "<",    "<=",        ">",     ">=",   "(",     ")",    ",",     "+",          "-",            "a",
    "price", "TAGS", "'eu'", "'it''s'",   "'",     "1",    "0",     "1.5",  "1e308", "2147483648", "5L",           "9223372036854775807",
    "--",    "/*",   "*/",   "\n",        " a = 1", " a > 0.5", " b is null", "a IN ('x','y')", " AND ", "((", "))", "1e5"};
static const char *const values[] = {"1", "-5", "1e3", "0x1p3", "NaN", "-Infinity", "eu", "true", "2147483648", "99999999999999999999",
                                     "1e", ".", "0x", "it's", " 7 ", "\1", "\2", "a\1", "TAGS\1", "price\1", "b\1"};

/* Some of the words, and sometimes any byte. */
static uint32_t write_any(uint8_t *text, uint32_t room, uint64_t *seed, const char *const *from, uint32_t count)
{
    uint32_t size = 0;
    while (size < room) {
        const uint64_t kind = drive_random(seed) % 64;
        if (kind == 0) {
            text[size++] = (uint8_t)drive_random(seed);
            continue;
        }
        const char *word = from[drive_random(seed) % count];
        const uint32_t length = (uint32_t)strlen(word), left = room - size;
        memcpy(text + size, word, length < left ? length : left);
        size += length < left ? length : left;
    }
    return size;
}

static uint8_t *exactly(uint32_t size)
{
    uint8_t *memory = malloc(size ? size : 1);
    CHECK(memory != NULL);
    return memory;
}

static void drive(const uint8_t *text, uint32_t size, uint64_t *seed, uint32_t *compiled)
{
    struct sql_fault fault;
    struct sql_program *program = sql_compile(text, size, &fault);
    if (!program) {
        CHECK(!fault.memory && (uint64_t)fault.at + fault.size <= size && (fault.why != NULL) != (fault.expected != NULL));
        return;
    }
    ++*compiled;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        const uint32_t room = (uint32_t)(drive_random(seed) % 100);
        uint8_t *properties = exactly(room);
        const uint32_t used = write_any(properties, room, seed, values, sizeof values / sizeof *values);
        CHECK(sql_evaluate(program, properties, used) <= SQL_ERROR);
        free(properties);
    }
    sql_free(program);
}

/* As deep as it may be, and with values waiting at each depth. */
static void drive_deep(uint64_t *seed, uint32_t *compiled)
{
    static const char level[] = "a=1 OR a=1 AND TRUE=(", last[] = "a BETWEEN 1 AND 2";
    const uint32_t levels = SQL_DEPTH_MAX - 1;
    const uint32_t size = levels * (sizeof level - 1) + (sizeof last - 1) + levels;
    uint8_t *text = exactly(size), *to = text;
    for (uint32_t i = 0; i < levels; i++, to += sizeof level - 1)
        memcpy(to, level, sizeof level - 1);
    memcpy(to, last, sizeof last - 1);
    memset(to + sizeof last - 1, ')', levels);
    const uint32_t before = *compiled;
    drive(text, size, seed, compiled);
    CHECK(*compiled == before + 1);
    free(text);
}

int main(void)
{
    uint64_t seed = 88172645463325252u;
    uint32_t compiled = 0;
    drive_deep(&seed, &compiled);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t room = (uint32_t)(drive_random(&seed) % (round % 8 ? 24 : 400));
        uint8_t *text = exactly(room);
        drive(text, write_any(text, room, &seed, words, sizeof words / sizeof *words), &seed, &compiled);
        free(text);
    }
    CHECK(compiled > ROUNDS / 100);
    return 0;
}

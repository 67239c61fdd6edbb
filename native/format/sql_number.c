/* Numbers as Java's Long.parseLong and Double.parseDouble read them. What Java takes and what C's strtod takes differ, and strtod
 * depends on the process's language besides; so the text is taken apart here, and strtod only gets digits and an exponent. */
#include "format/sql_number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX 800u /* more than any double's halfway point has; what follows only counts as zero or not */

bool sql_integer(const uint8_t *text, uint32_t size, int64_t least, int64_t most, int64_t *value)
{
    uint32_t at = size && (*text == '-' || *text == '+');
    const bool negative = at && *text == '-';
    if (at == size)
        return false;
    int64_t sum = 0; /* counted downwards, because the least value has no positive counterpart */
    for (; at < size; at++) {
        const unsigned digit = (unsigned)text[at] - '0';
        if (digit > 9 || __builtin_mul_overflow(sum, 10, &sum) || __builtin_sub_overflow(sum, (int64_t)digit, &sum))
            return false;
    }
    if (!negative) {
        if (sum == INT64_MIN)
            return false;
        sum = -sum;
    }
    *value = sum;
    return sum >= least && sum <= most;
}

static int digit_of(uint8_t c, bool hex)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    const uint8_t lower = c | 0x20;
    return hex && lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* A number's digits without its point, and by how much its exponent differs for that. */
struct mantissa {
    char digits[DIGITS_MAX + 2]; /* "0" if there are none but zeros */
    uint32_t count;              /* significant ones */
    bool any;
    int64_t exponent;            /* to the base 10; hexadecimal: 16 */
    uint64_t small;              /* their value, while there are no more than 15 */
};

static uint32_t read_mantissa(const uint8_t *text, uint32_t size, uint32_t at, bool hex, struct mantissa *found)
{
    bool behind_point = false, dropped = false;
    found->count = 0;
    found->any = false;
    found->exponent = 0;
    found->small = 0;
    for (; at < size; at++) {
        if (text[at] == '.' && !behind_point) {
            behind_point = true;
            continue;
        }
        const int digit = digit_of(text[at], hex);
        if (digit < 0)
            break;
        found->any = true;
        found->exponent -= behind_point;
        if (found->count == 0 && digit == 0)
            continue;
        if (found->count < DIGITS_MAX) {
            found->digits[found->count++] = (char)text[at];
            if (!hex && found->count <= 15)
                found->small = found->small * 10 + (uint64_t)digit;
        } else {
            found->exponent++;
            dropped |= digit != 0;
        }
    }
    if (dropped) { /* greater than its digits say, by whatever */
        found->digits[found->count++] = '1';
        found->exponent--;
    }
    found->digits[found->count] = 0;
    return at;
}

/* An exponent's digits, bounded. False if there are none. */
static bool read_exponent(const uint8_t *text, uint32_t size, uint32_t *at, int64_t *exponent)
{
    const bool negative = *at < size && text[*at] == '-';
    *at += negative || (*at < size && text[*at] == '+');
    const uint32_t begin = *at;
    int64_t sum = 0;
    for (; *at < size && digit_of(text[*at], false) >= 0; ++*at)
        sum = sum < 1000000 ? sum * 10 + digit_of(text[*at], false) : sum;
    *exponent = negative ? -sum : sum;
    return *at > begin;
}

static bool is(const uint8_t *text, uint32_t size, uint32_t at, const char *word)
{
    return size - at == strlen(word) && memcmp(text + at, word, size - at) == 0;
}

static double value_of(const struct mantissa *mantissa, bool hex, int64_t exponent)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (mantissa->count == 0)
        return 0.0;
    /* Both numbers are exact, so their product or quotient is rounded once. */
    if (!hex && mantissa->count <= 15 && exponent >= -22 && exponent <= 22)
        return exponent < 0 ? (double)mantissa->small / powers[-exponent] : (double)mantissa->small * powers[exponent];
    char text[DIGITS_MAX + 40];
    snprintf(text, sizeof text, "%s%s%c%lld", hex ? "0x" : "", mantissa->digits, hex ? 'p' : 'e', (long long)exponent);
    return strtod(text, NULL);
}

bool sql_real(const uint8_t *text, uint32_t size, double *value)
{
    while (size && *text <= ' ')
        text++, size--;
    while (size && text[size - 1] <= ' ')
        size--;
    uint32_t at = size && (*text == '-' || *text == '+');
    const double sign = at && *text == '-' ? -1.0 : 1.0;
    if (is(text, size, at, "NaN") || is(text, size, at, "Infinity")) {
        *value = text[at] == 'N' ? (double)NAN : sign * (double)INFINITY;
        return true;
    }
    const bool hex = size - at > 2 && text[at] == '0' && (text[at + 1] | 0x20) == 'x';
    struct mantissa mantissa;
    at = read_mantissa(text, size, hex ? at + 2 : at, hex, &mantissa);
    if (!mantissa.any)
        return false;
    int64_t exponent = 0;
    if (at < size && (text[at] | 0x20) == (hex ? 'p' : 'e')) {
        at++;
        if (!read_exponent(text, size, &at, &exponent))
            return false;
    } else if (hex) {
        return false;
    }
    if (at < size && ((text[at] | 0x20) == 'f' || (text[at] | 0x20) == 'd'))
        at++;
    if (at != size)
        return false;
    *value = sign * value_of(&mantissa, hex, exponent + mantissa.exponent * (hex ? 4 : 1));
    return true;
}

int sql_compare_reals(double a, double b)
{
    if (a < b)
        return -1;
    if (a > b)
        return 1;
    const int nan_a = isnan(a), nan_b = isnan(b);
    if (nan_a || nan_b)
        return nan_a - nan_b;
    return (signbit(a) == 0) - (signbit(b) == 0);
}

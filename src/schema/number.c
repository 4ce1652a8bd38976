/*
 * number.c - writes numbers as text and reads them.
 *
 * Floats: an integer m below 2^53 and a power of ten up to 10^22 are both exact
 * doubles, so one division gives m / 10^k correctly rounded (W. D. Clinger, How
 * to Read Floating Point Numbers Accurately, 1990). That serves nearly all
 * numbers in practice. The others go to strtod and snprintf, whose decimal
 * point depends on the locale: it is found and replaced.
 */
#include "schema/number.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* Every integer up to this is a double. */
#define EXACT_MAX       (UINT64_C(1) << 53)
#define EXACT_POWER_MAX 22

static const double powers[EXACT_POWER_MAX + 1] = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
};

size_t tri_uint_write(char *buf, uint64_t value)
{
    TRI_CHECK(buf != NULL);
    char digits[20];
    size_t first = sizeof(digits);

    do {
        digits[--first] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    memcpy(buf, digits + first, sizeof(digits) - first);
    return sizeof(digits) - first;
}

size_t tri_int_write(char *buf, int64_t value)
{
    TRI_CHECK(buf != NULL);
    if (value >= 0) return tri_uint_write(buf, (uint64_t)value);
    buf[0] = '-';
    return 1 + tri_uint_write(buf + 1, 0 - (uint64_t)value);
}

/* Writes m / 10^k: 1234 and 2 give "12.34". */
static size_t write_decimal(char *buf, uint64_t m, unsigned k)
{
    char digits[20];
    size_t count = tri_uint_write(digits, m);
    size_t length = 0;

    if (k == 0) {
        memcpy(buf, digits, count);
        return count;
    }
    if (count <= k) {
        buf[length++] = '0';
    } else {
        memcpy(buf, digits, count - k);
        length = count - k;
    }
    buf[length++] = '.';
    for (size_t zeros = count; zeros < k; zeros++)
        buf[length++] = '0';
    size_t rest = count < k ? count : k;
    memcpy(buf + length, digits + count - rest, rest);
    return length + rest;
}

/*
 * Writes a positive number without an exponent. Returns 0 if it is too small or
 * too large for that, or has too many digits.
 */
static size_t write_without_exponent(char *buf, double value, bool single)
{
    TRI_CHECK_SLOW(value > 0);
    if (value < 1e-5 || value >= 1e15) return 0;
    for (unsigned k = 0; k <= EXACT_POWER_MAX; k++) {
        double scaled = value * powers[k] + 0.5;
        if (scaled >= (double)EXACT_MAX) return 0;
        uint64_t m = (uint64_t)scaled;
        double back = (double)m / powers[k];
        if (back == value || (single && (float)back == (float)value))
            return write_decimal(buf, m, k);
    }
    return 0;
}

/*
 * Replaces the decimal point of the locale, which may have several bytes, by
 * '.'. Returns the new length.
 */
static size_t replace_point(char *text, size_t length)
{
    size_t out = 0;
    bool in_point = false;

    for (size_t i = 0; i < length; i++) {
        bool is_number = strchr("0123456789+-eE", text[i]) != NULL;
        if (is_number) {
            text[out++] = text[i];
        } else if (!in_point) {
            text[out++] = '.';
        }
        in_point = !is_number;
    }
    return out;
}

/* Writes a positive number with as few digits as give the same bits. */
static size_t write_shortest(char *buf, double value, bool single)
{
    int from = single ? FLT_DIG : DBL_DIG;
    int to = single ? FLT_DECIMAL_DIG : DBL_DECIMAL_DIG;

    // Subnormal numbers are further apart and need fewer digits.
    if (value < (single ? (double)FLT_MIN : DBL_MIN)) from = 1;
    for (int digits = from;; digits++) {
        // A float that is read as a double and rounded again may differ with
        // 9 digits; then 17 are written.
        if (digits > to) digits = DBL_DECIMAL_DIG;
        int length = snprintf(buf, TRI_NUMBER_TEXT_MAX, "%.*g", digits, value);
        double back = strtod(buf, NULL);
        TRI_CHECK(length > 0 && length < TRI_NUMBER_TEXT_MAX);
        if (back == value || (single && (float)back == (float)value))
            return replace_point(buf, (size_t)length);
        TRI_CHECK(digits < DBL_DECIMAL_DIG);
    }
}

size_t tri_float_write(char *buf, double value, bool single)
{
    size_t sign = 0;

    TRI_CHECK(isfinite(value));
    if (signbit(value)) {
        buf[sign++] = '-';
        value = -value;
    }
    if (value == 0) {
        buf[sign] = '0';
        return sign + 1;
    }

    size_t length = write_without_exponent(buf + sign, value, single);

    if (length == 0) {
        char text[TRI_NUMBER_TEXT_MAX];
        length = write_shortest(text, value, single);
        memcpy(buf + sign, text, length);
    }
    return sign + length;
}

/* The number digits * 10^exponent. */
typedef struct decimal {
    uint64_t digits;
    int exponent;
    bool exact;  // false: too many digits; the other members mean nothing
} decimal;

static decimal parse_decimal(const char *text, size_t size)
{
    decimal out = {.exact = true};
    bool after_point = false;
    size_t i = 0;

    for (; i < size && text[i] != 'e' && text[i] != 'E'; i++) {
        if (text[i] == '.') {
            after_point = true;
            continue;
        }
        if (out.digits >= EXACT_MAX / 10) out.exact = false;
        if (out.exact) {
            out.digits = out.digits * 10 + (uint64_t)(text[i] - '0');
            out.exponent -= after_point;
        }
    }
    if (i == size) return out;

    int exponent = 0;
    bool down = text[++i] == '-';

    if (text[i] == '-' || text[i] == '+') i++;
    for (; i < size; i++) {
        exponent = exponent * 10 + (text[i] - '0');
        if (exponent > 100000) out.exact = false;
        if (!out.exact) return out;
    }
    out.exponent += down ? -exponent : exponent;
    return out;
}

/* Reads a positive number with strtod, in any locale. */
static double read_with_strtod(const char *text, size_t size)
{
    char copy[TRI_NUMBER_READ_MAX + 16];
    char sample[16];
    const char *point = memchr(text, '.', size);
    size_t before = point == NULL ? size : (size_t)(point - text);
    size_t length = before;

    memcpy(copy, text, before);
    if (point != NULL) {
        // The text is "0<point>5" with the decimal point of the locale.
        int sampled = snprintf(sample, sizeof(sample), "%.1f", 0.5);
        TRI_CHECK(sampled >= 3 && sampled < 8);
        memcpy(copy + length, sample + 1, (size_t)sampled - 2);
        length += (size_t)sampled - 2;
        memcpy(copy + length, point + 1, size - before - 1);
        length += size - before - 1;
    }
    copy[length] = '\0';
    return strtod(copy, NULL);
}

double tri_float_read(const char *text, size_t size)
{
    TRI_CHECK(size > 0);
    TRI_CHECK(size <= TRI_NUMBER_READ_MAX);

    bool negative = text[0] == '-';
    decimal parts = parse_decimal(text + negative, size - negative);
    double value;

    if (parts.exact && parts.exponent >= 0 &&
        parts.exponent <= EXACT_POWER_MAX) {
        value = (double)parts.digits * powers[parts.exponent];
    } else if (parts.exact && parts.exponent < 0 &&
               parts.exponent >= -EXACT_POWER_MAX) {
        value = (double)parts.digits / powers[-parts.exponent];
    } else {
        value = read_with_strtod(text + negative, size - negative);
    }
    return negative ? -value : value;
}

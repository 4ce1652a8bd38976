/*
 * json_scan.c - goes over the tokens of JSON and checks them.
 */
#include "schema/json_scan.h"

#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "schema/codec.h"
#include "schema/number.h"
#include "schema/utf8.h"

/* ---- strings ---- */

/* Reads four hexadecimal digits. Returns false if they are not that. */
static bool read_hex4(const char *at, uint32_t *out)
{
    uint32_t value = 0;

    for (int i = 0; i < 4; i++) {
        char c = at[i];
        uint32_t digit;
        if (c >= '0' && c <= '9') {
            digit = (uint32_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            digit = (uint32_t)(c - 'a') + 10;
        } else if (c >= 'A' && c <= 'F') {
            digit = (uint32_t)(c - 'A') + 10;
        } else {
            return false;
        }
        value = value << 4 | digit;
    }
    *out = value;
    return true;
}

static bool is_high_surrogate(uint32_t code)
{
    return code >= 0xd800 && code < 0xdc00;
}

static bool is_low_surrogate(uint32_t code)
{
    return code >= 0xdc00 && code < 0xe000;
}

/*
 * Returns the length of the escape at `at`, of which size characters are left;
 * 0 if it is not an escape or is half of a surrogate pair.
 */
static size_t escape_size(const char *at, size_t size)
{
    uint32_t code, low;

    if (size < 2) return 0;
    if (at[1] != 'u')
        return at[1] != '\0' && strchr("\"\\/bfnrt", at[1]) != NULL ? 2 : 0;
    if (size < 6 || !read_hex4(at + 2, &code) || is_low_surrogate(code))
        return 0;
    if (!is_high_surrogate(code)) return 6;
    if (size < 12 || at[6] != '\\' || at[7] != 'u') return 0;
    return read_hex4(at + 8, &low) && is_low_surrogate(low) ? 12 : 0;
}

tr_err tri_json_take_string(tri_json_input *in, tri_json_span *out,
                            const tri_codec_path *path)
{
    if (tri_json_peek(in) != '"')
        return TRI_JSON_FAIL(in, path, "expected a string");
    *out = (tri_json_span){.at = ++in->at};
    for (; in->at < in->end && *in->at != '"';) {
        unsigned char c = (unsigned char)*in->at;
        size_t bytes = 1;

        if (c == '\\') {
            out->escaped = true;
            bytes = escape_size(in->at, tri_json_left(in));
            if (bytes == 0) return TRI_JSON_FAIL(in, path, "no such escape");
        } else if (c >= 0x80) {
            bytes = tri_utf8_size(in->at, tri_json_left(in));
            if (bytes == 0) return TRI_JSON_FAIL(in, path, "text is not UTF-8");
        } else if (c < 0x20) {
            return TRI_JSON_FAIL(in, path, "control character in a string");
        }
        in->at += bytes;
    }
    if (in->at == in->end)
        return TRI_JSON_FAIL(in, path, "string without an end");
    out->size = (size_t)(in->at - out->at);
    in->at++;
    return TR_OK;
}

/* Returns the character for the letter after a backslash. */
static char unescape_one(char c)
{
    switch (c) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return c;
    }
}

size_t tri_json_unescape(char *to, tri_json_span from)
{
    char *start = to;
    const char *at = from.at;
    const char *end = from.at + from.size;

    while (at < end) {
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        if (at[1] != 'u') {
            *to++ = unescape_one(at[1]);
            at += 2;
            continue;
        }
        uint32_t code = 0;
        uint32_t low = 0;
        TRI_CHECK(read_hex4(at + 2, &code));
        at += 6;
        if (is_high_surrogate(code)) {
            TRI_CHECK(read_hex4(at + 2, &low));
            at += 6;
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        to += tri_utf8_write(to, code);
    }
    return (size_t)(to - start);
}

/* ---- numbers ---- */

/* Returns how many digits follow `at`. */
static size_t count_digits(const char *at, const char *end)
{
    const char *from = at;

    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return (size_t)(at - from);
}

tr_err tri_json_take_number(tri_json_input *in, tri_json_span *out, bool *whole,
                            const tri_codec_path *path)
{
    const char *at = in->at;
    const char *end = in->end;

    if (at < end && *at == '-') at++;
    size_t digits = count_digits(at, end);
    if (digits == 0) return TRI_JSON_FAIL(in, path, "expected a number");
    if (digits > 1 && *at == '0')
        return TRI_JSON_FAIL(in, path, "number with a leading zero");
    at += digits;
    *whole = true;
    if (at < end && *at == '.') {
        *whole = false;
        digits = count_digits(++at, end);
        if (digits == 0)
            return TRI_JSON_FAIL(in, path, "no digits after the point");
        at += digits;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        *whole = false;
        at++;
        if (at < end && (*at == '+' || *at == '-')) at++;
        digits = count_digits(at, end);
        if (digits == 0)
            return TRI_JSON_FAIL(in, path, "no digits in the exponent");
        at += digits;
    }
    *out = (tri_json_span){in->at, (size_t)(at - in->at), false};
    if (out->size > TRI_NUMBER_READ_MAX)
        return TRI_JSON_FAIL_AT(in, TR_ELIMIT, path, in->at,
                                "number is too long");
    in->at = at;
    return TR_OK;
}

/* ---- any value ---- */

tr_err tri_json_skip_value(tri_json_input *in, unsigned depth,
                           const tri_codec_path *path)
{
    tri_json_span ignored;
    bool whole;
    char first = tri_json_peek(in);

    if (first == '"') return tri_json_take_string(in, &ignored, path);
    if (tri_json_take_word(in, "null", 4) ||
        tri_json_take_word(in, "true", 4) ||
        tri_json_take_word(in, "false", 5)) {
        return TR_OK;
    }
    if (first != '{' && first != '[')
        return tri_json_take_number(in, &ignored, &whole, path);

    // Each level of the type may be an array in an object: two levels here.
    if (depth >= 2 * in->run.limits.depth)
        return TRI_JSON_FAIL_AT(in, TR_ELIMIT, path, in->at,
                                "nested too deeply");
    char last = first == '{' ? '}' : ']';
    in->at++;
    if (tri_json_peek(in) == last) {
        in->at++;
        return TR_OK;
    }
    for (;;) {
        if (first == '{') {
            TR_TRY(tri_json_take_string(in, &ignored, path));
            TR_TRY(tri_json_take_mark(in, ':', path));
        }
        TR_TRY(tri_json_skip_value(in, depth + 1, path));
        if (tri_json_peek(in) != ',') return tri_json_take_mark(in, last, path);
        in->at++;
    }
}

/*
 * json_scan.h - the tokens of JSON: white space, words, strings, numbers.
 *
 * The functions named tri_json_take_* go past a token that must come next and
 * check that it is right; on failure they report it and return the error. The
 * input is untrusted: no function reads beyond its end.
 *
 * Threads: one thread at a time uses an input.
 */
#ifndef TRI_SCHEMA_JSON_SCAN_H
#define TRI_SCHEMA_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "schema/decoding.h"
#include "troupe/base.h"

/* The text that is being read. */
typedef struct tri_json_input {
    const char *start;
    const char *at;  // the next character
    const char *end;
    tri_decoding run;
} tri_json_input;

/* A token in the input: the inside of a string, or a number. */
typedef struct tri_json_span {
    const char *at;
    size_t size;
    bool escaped;  // of a string: contains a backslash
} tri_json_span;

/* Report an error at the byte `where`, or at the next character. */
#define TRI_JSON_FAIL_AT(in, err, path, where, ...)                            \
    tri_decoding_fail(&(in)->run, (err), (path),                               \
                      (size_t)((where) - (in)->start), __VA_ARGS__)
#define TRI_JSON_FAIL(in, path, ...)                                           \
    TRI_JSON_FAIL_AT(in, TR_EINVAL, path, (in)->at, __VA_ARGS__)

/* Returns how many characters are left. */
static inline size_t tri_json_left(const tri_json_input *in)
{
    TRI_CHECK_SLOW(in->at <= in->end);
    return (size_t)(in->end - in->at);
}

/*
 * Goes past white space and returns the character there without taking it;
 * NUL at the end of the input.
 */
static inline char tri_json_peek(tri_json_input *in)
{
    while (in->at < in->end) {
        char c = *in->at;
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return c;
        in->at++;
    }
    return '\0';
}

/* Goes past a word such as null. Returns false if it does not come next. */
static inline bool tri_json_take_word(tri_json_input *in, const char *word,
                                      size_t size)
{
    if (tri_json_left(in) < size || memcmp(in->at, word, size) != 0)
        return false;
    in->at += size;
    return true;
}

/* Goes past white space and the character `mark`. Errors: TR_EINVAL. */
static inline tr_err tri_json_take_mark(tri_json_input *in, char mark,
                                        const tri_codec_path *path)
{
    if (tri_json_peek(in) != mark || in->at == in->end)
        return TRI_JSON_FAIL(in, path, "expected '%c'", mark);
    in->at++;
    return TR_OK;
}

/*
 * Goes past a string. *out is its inside, valid UTF-8 with valid escapes, which
 * tri_json_unescape can copy. Errors: TR_EINVAL.
 */
tr_err tri_json_take_string(tri_json_input *in, tri_json_span *out,
                            const tri_codec_path *path);

/*
 * Copies the inside of a string, which tri_json_take_string has checked, and
 * replaces its escapes. Returns the length, at most that of the span.
 */
size_t tri_json_unescape(char *to, tri_json_span from);

/*
 * Goes past a number. *whole becomes false if the number has a fraction or an
 * exponent. Errors: TR_EINVAL, TR_ELIMIT (longer than TRI_NUMBER_READ_MAX).
 */
tr_err tri_json_take_number(tri_json_input *in, tri_json_span *out, bool *whole,
                            const tri_codec_path *path);

/*
 * Goes past any value and checks it; `depth` is the number of objects and
 * arrays around it. Errors: TR_EINVAL, TR_ELIMIT (nested too deeply).
 */
tr_err tri_json_skip_value(tri_json_input *in, unsigned depth,
                           const tri_codec_path *path);

#endif

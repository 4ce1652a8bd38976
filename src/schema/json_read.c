/*
 * json_read.c - reads values from JSON that may be anything.
 *
 * The parser goes once over the input, guided by the type. A string is first
 * scanned, which proves it whole and right, and then copied without checks. A
 * list grows by doubling, so a short input cannot claim much memory.
 *
 * Invariant: before a field is read its bytes are zero; a sequence in the
 * value counts the elements that are initialised, and each of these has been
 * zeroed. A failure anywhere is undone by tri_value_release at the top.
 */
#include <math.h>

#include "schema/base64.h"
#include "schema/blob.h"
#include "schema/json.h"
#include "schema/number.h"
#include "schema/utf8.h"
#include "schema/value.h"

/* No field has so long a name; longer keys are unknown. */
#define KEY_MAX 128
/* A new list has room for this many bytes, or one element. */
#define LIST_FIRST_BYTES 64

/* Fields are ticked off in 64 bits. */
_Static_assert(TR_EACH_MAX <= 64, "one bit for each field of a type");

typedef struct parser {
    const char *start;
    const char *at;
    const char *end;
    tri_decoding run;
} parser;

/* The inside of a string. */
typedef struct span {
    const char *at;
    size_t size;
    bool escaped;  // holds a backslash
} span;

/* ---- words and marks ---- */

#define FAIL_AT(in, err, path, where, ...)                                     \
    tri_decoding_fail(&(in)->run, (err), (path),                               \
                      (size_t)((where) - (in)->start), __VA_ARGS__)
#define FAIL(in, path, ...) FAIL_AT(in, TR_EINVAL, path, (in)->at, __VA_ARGS__)

static size_t left(const parser *in)
{
    return (size_t)(in->end - in->at);
}

/* Goes past white space; returns the character there, or NUL at the end. */
static inline char peek(parser *in)
{
    while (in->at < in->end) {
        char c = *in->at;
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return c;
        in->at++;
    }
    return '\0';
}

/* Goes past a word such as null, if it is there. */
static bool take_word(parser *in, const char *word, size_t size)
{
    if (left(in) < size || memcmp(in->at, word, size) != 0) return false;
    in->at += size;
    return true;
}

static tr_err take_mark(parser *in, char mark, const tri_codec_path *path)
{
    if (peek(in) != mark || in->at == in->end)
        return FAIL(in, path, "expected '%c'", mark);
    in->at++;
    return TR_OK;
}

/* ---- strings ---- */

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

static bool is_high(uint32_t code)
{
    return code >= 0xd800 && code < 0xdc00;
}

static bool is_low(uint32_t code)
{
    return code >= 0xdc00 && code < 0xe000;
}

/* Length of the escape at `at`; 0 if it is none or half a pair. */
static size_t escape_size(const char *at, size_t size)
{
    uint32_t code, low;

    if (size < 2) return 0;
    if (at[1] != 'u')
        return at[1] != '\0' && strchr("\"\\/bfnrt", at[1]) != NULL ? 2 : 0;
    if (size < 6 || !read_hex4(at + 2, &code) || is_low(code)) return 0;
    if (!is_high(code)) return 6;
    if (size < 12 || at[6] != '\\' || at[7] != 'u') return 0;
    return read_hex4(at + 8, &low) && is_low(low) ? 12 : 0;
}

/* Goes past a string and proves it right. */
static tr_err take_string(parser *in, span *out, const tri_codec_path *path)
{
    if (peek(in) != '"') return FAIL(in, path, "expected a string");
    *out = (span){.at = ++in->at};
    for (; in->at < in->end && *in->at != '"';) {
        unsigned char c = (unsigned char)*in->at;
        size_t bytes = 1;

        if (c == '\\') {
            out->escaped = true;
            bytes = escape_size(in->at, left(in));
            if (bytes == 0) return FAIL(in, path, "no such escape");
        } else if (c >= 0x80) {
            bytes = tri_utf8_size(in->at, left(in));
            if (bytes == 0) return FAIL(in, path, "text is not UTF-8");
        } else if (c < 0x20) {
            return FAIL(in, path, "control character in a string");
        }
        in->at += bytes;
    }
    if (in->at == in->end) return FAIL(in, path, "string without an end");
    out->size = (size_t)(in->at - out->at);
    in->at++;
    return TR_OK;
}

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

/* Copies a string, which gets no longer by it; returns its length. */
static size_t unescape(char *to, span from)
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
        read_hex4(at + 2, &code);
        at += 6;
        if (is_high(code)) {
            read_hex4(at + 2, &low);
            at += 6;
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        to += tri_utf8_write(to, code);
    }
    return (size_t)(to - start);
}

/* ---- numbers ---- */

static size_t count_digits(const char *at, const char *end)
{
    const char *from = at;

    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return (size_t)(at - from);
}

/* Goes past a number; whole says that it has no fraction and no exponent. */
static tr_err take_number(parser *in, span *out, bool *whole,
                          const tri_codec_path *path)
{
    const char *at = in->at;
    const char *end = in->end;

    if (at < end && *at == '-') at++;
    size_t digits = count_digits(at, end);
    if (digits == 0) return FAIL(in, path, "expected a number");
    if (digits > 1 && *at == '0')
        return FAIL(in, path, "number with a leading zero");
    at += digits;
    *whole = true;
    if (at < end && *at == '.') {
        *whole = false;
        digits = count_digits(++at, end);
        if (digits == 0) return FAIL(in, path, "no digits after the point");
        at += digits;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        *whole = false;
        at++;
        if (at < end && (*at == '+' || *at == '-')) at++;
        digits = count_digits(at, end);
        if (digits == 0) return FAIL(in, path, "no digits in the exponent");
        at += digits;
    }
    *out = (span){in->at, (size_t)(at - in->at), false};
    if (out->size > TRI_NUMBER_READ_MAX)
        return FAIL_AT(in, TR_ELIMIT, path, in->at, "number is too long");
    in->at = at;
    return TR_OK;
}

/* The digits without a sign; false when they exceed 64 bits. */
static bool read_digits(span number, uint64_t *out)
{
    uint64_t value = 0;

    for (size_t i = 0; i < number.size; i++) {
        uint64_t digit = (uint64_t)(number.at[i] - '0');
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        if (__builtin_add_overflow(value, digit, &value)) return false;
    }
    *out = value;
    return true;
}

/* False when the number does not fit the field. */
static bool store_whole(const tr_field *field, span number, char *at)
{
    bool negative = number.at[0] == '-';
    uint64_t value;

    if (negative) number = (span){number.at + 1, number.size - 1, false};
    if (!read_digits(number, &value)) return false;
    if (field->kind == TR_KIND_UINT)
        return (!negative || value == 0) &&
               tri_store_uint(at, field->size, value);
    if (value > (uint64_t)INT64_MAX + negative) return false;
    return tri_store_int(at, field->size,
                         (int64_t)(negative ? 0 - value : value));
}

static tr_err read_whole(parser *in, const tr_field *field, char *at,
                         const tri_codec_path *path)
{
    span number;
    bool whole;
    const char *from = in->at;

    TR_TRY(take_number(in, &number, &whole, path));
    if (!whole)
        return FAIL_AT(in, TR_EINVAL, path, from, "expected a whole number");
    if (!store_whole(field, number, at))
        return FAIL_AT(in, TR_EINVAL, path, from, "the number does not fit");
    return TR_OK;
}

/* "NaN" and the infinities, which JSON has no number for. */
static tr_err read_no_number(parser *in, const tr_field *field, char *at,
                             const tri_codec_path *path)
{
    if (take_word(in, "\"NaN\"", 5)) {
        tri_store_float(at, field->size, (double)NAN);
    } else if (take_word(in, "\"Infinity\"", 10)) {
        tri_store_float(at, field->size, (double)INFINITY);
    } else if (take_word(in, "\"-Infinity\"", 11)) {
        tri_store_float(at, field->size, -(double)INFINITY);
    } else {
        return FAIL(in, path, "expected a number");
    }
    return TR_OK;
}

static tr_err read_float(parser *in, const tr_field *field, char *at,
                         const tri_codec_path *path)
{
    const char *from = in->at;
    span number;
    bool whole;

    if (*from == '"') return read_no_number(in, field, at, path);
    TR_TRY(take_number(in, &number, &whole, path));

    double value = tri_float_read(number.at, number.size);
    bool fits = isfinite(value);

    if (fits && field->size == sizeof(float)) fits = isfinite((float)value);
    if (!fits)
        return FAIL_AT(in, TR_EINVAL, path, from, "the number does not fit");
    tri_store_float(at, field->size, value);
    return TR_OK;
}

/* ---- what a string may stand for ---- */

static tr_err fail_piece(parser *in, tr_err err, const tri_codec_path *path)
{
    return FAIL_AT(in, err, path, in->at,
                   err == TR_ENOMEM ? "out of memory"
                                    : "the value is too large");
}

static tr_err read_text(parser *in, char *at, const tri_codec_path *path)
{
    span string;
    void *piece;

    TR_TRY(take_string(in, &string, path));
    tr_err err = tri_decoding_alloc(&in->run, &piece, string.size + 1, 1);
    if (err != TR_OK) return fail_piece(in, err, path);

    char *text = piece;
    size_t size = string.size;

    tri_store_pointer(at, text);
    if (string.escaped) {
        size = unescape(text, string);
    } else if (size > 0) {
        memcpy(text, string.at, size);
    }
    text[size] = '\0';
    // Only an escape can have made one: as it is it would be a control.
    if (string.escaped && memchr(text, '\0', size) != NULL)
        return FAIL_AT(in, TR_EINVAL, path, string.at,
                       "text holds a zero byte");
    return TR_OK;
}

static tr_err read_bytes(parser *in, const tr_field *field, char *at,
                         const tri_codec_path *path)
{
    span string;
    size_t size;
    void *piece;
    tr_blob blob = {NULL};
    tr_err err;

    TR_TRY(take_string(in, &string, path));
    if (!tri_base64_size(string.at, string.size, &size))
        return FAIL_AT(in, TR_EINVAL, path, string.at, "expected base64");
    if (field->kind == TR_KIND_BLOB) {
        err = tri_decoding_blob(&in->run, &blob, size, &piece);
    } else if (size == 0) {
        return TR_OK;
    } else {
        err = tri_decoding_alloc(&in->run, &piece, size, 1);
    }
    if (err != TR_OK) return fail_piece(in, err, path);
    tri_base64_read(piece, string.at, string.size);
    if (field->kind == TR_KIND_BLOB) {
        tri_store_blob(at, blob);
    } else {
        tri_store_seq(at, (tri_seq){piece, size});
    }
    return TR_OK;
}

/* Not in line: read_field nests, and must not carry this buffer along. */
__attribute__((noinline)) static tr_err read_ref(parser *in, char *at,
                                                 const tri_codec_path *path)
{
    const tri_ref_codec *refs = in->run.refs;
    // An escape may be six times as long as what it stands for.
    char text[TRI_REF_TEXT_MAX * 6];
    tr_ref ref = {0, 0};
    span string;

    TR_TRY(take_string(in, &string, path));
    if (string.size <= sizeof(text)) {
        size_t size = unescape(text, string);
        if (size == 6 && memcmp(text, "nobody", 6) == 0) return TR_OK;
        if (refs != NULL && size <= TRI_REF_TEXT_MAX &&
            refs->from_text(refs->user, text, size, &ref)) {
            memcpy(at, &ref, sizeof(ref));
            return TR_OK;
        }
    }
    return FAIL_AT(in, TR_EINVAL, path, string.at, "names no actor");
}

/* ---- what the type does not know ---- */

/* Goes past any value, and proves it right; depth counts arrays as well. */
static tr_err skip_value(parser *in, unsigned depth, const tri_codec_path *path)
{
    span ignored;
    bool whole;
    char first = peek(in);

    if (first == '"') return take_string(in, &ignored, path);
    if (take_word(in, "null", 4) || take_word(in, "true", 4) ||
        take_word(in, "false", 5)) {
        return TR_OK;
    }
    if (first != '{' && first != '[')
        return take_number(in, &ignored, &whole, path);

    // An array in an object: two levels for each of ours.
    if (depth >= 2 * in->run.limits.depth)
        return FAIL_AT(in, TR_ELIMIT, path, in->at, "nested too deeply");
    char last = first == '{' ? '}' : ']';
    in->at++;
    if (peek(in) == last) {
        in->at++;
        return TR_OK;
    }
    for (;;) {
        if (first == '{') {
            TR_TRY(take_string(in, &ignored, path));
            TR_TRY(take_mark(in, ':', path));
        }
        TR_TRY(skip_value(in, depth + 1, path));
        if (peek(in) != ',') return take_mark(in, last, path);
        in->at++;
    }
}

/* ---- messages and sequences ---- */

static tr_err read_field(parser *in, const tr_field *field, char *at,
                         unsigned depth, const tri_codec_path *path);

/* A list or array while it grows. */
typedef struct growing {
    char *elements;
    size_t count;
    size_t room;
} growing;

/* Makes place for one element more, and zeroes it. */
static tr_err grow(parser *in, growing *seq, const tr_field *element)
{
    if (seq->count == in->run.limits.count) return TR_ELIMIT;
    if (seq->count == seq->room) {
        size_t size = element->size > 0 ? element->size : 1;
        size_t room = seq->room * 2;
        void *piece;

        if (room == 0) room = LIST_FIRST_BYTES / size;
        if (room == 0) room = 1;
        TR_TRY(tri_decoding_alloc(&in->run, &piece, room, size));
        if (seq->count > 0) memcpy(piece, seq->elements, seq->count * size);
        tri_piece_release(in->run.mem, seq->elements);
        in->run.memory -= seq->room * size;
        seq->elements = piece;
        seq->room = room;
    }
    memset(seq->elements + seq->count * element->size, 0, element->size);
    seq->count++;
    return TR_OK;
}

/* Where element i of the field goes. */
static tr_err place_element(parser *in, const tr_field *field,
                            const tr_field *element, size_t i, char *at,
                            growing *seq, const tri_codec_path *path,
                            char **out)
{
    if (field->kind == TR_KIND_FIXED) {
        *out = at + i * element->size;
        if (i < field->size / element->size) return TR_OK;
        return FAIL(in, path, "more than %u elements",
                    field->size / element->size);
    }
    tr_err err = grow(in, seq, element);
    if (err != TR_OK) return fail_piece(in, err, path);
    tri_store_seq(at, (tri_seq){seq->elements, seq->count});
    *out = seq->elements + i * element->size;
    return TR_OK;
}

static tr_err read_elements(parser *in, const tr_field *field, char *at,
                            unsigned depth, const tri_codec_path *path)
{
    tr_field element = tri_field_element(field);
    growing seq = {.count = 0};

    if (field->kind == TR_KIND_OPTIONAL) {  // null was no concern of ours
        tri_optional_set(&element, at);
        return read_field(in, &element, at, depth, path);
    }

    TR_TRY(take_mark(in, '[', path));
    if (peek(in) == ']') {
        in->at++;
        return TR_OK;
    }
    for (size_t i = 0;; i++) {
        tri_codec_path here = {path, NULL, i};
        char *place = NULL;
        TR_TRY(place_element(in, field, &element, i, at, &seq, path, &place));
        TR_TRY(read_field(in, &element, place, depth, &here));
        if (peek(in) != ',') return take_mark(in, ']', path);
        in->at++;
    }
}

/* Index of the field with this name; it is probably `guess`. */
static size_t find_field(const tr_type *type, const char *name, size_t size,
                         size_t guess)
{
    for (size_t i = 0; i < type->field_count; i++) {
        size_t index = guess + i;
        if (index >= type->field_count) index -= type->field_count;
        const char *known = type->fields[index].name;
        if (strlen(known) == size && memcmp(known, name, size) == 0)
            return index;
    }
    return type->field_count;
}

/* Reads a key and its colon; gives the field's index, or field_count. */
static tr_err read_key(parser *in, const tr_type *type, size_t guess,
                       size_t *index, const tri_codec_path *path)
{
    char copy[KEY_MAX];
    const char *from;
    span key;

    peek(in);
    from = in->at;
    TR_TRY(take_string(in, &key, path));
    if (key.escaped && key.size <= sizeof(copy)) {
        key.size = unescape(copy, key);
        key.at = copy;
    }
    *index = find_field(type, key.at, key.size, guess);
    if (*index == type->field_count && in->run.unknown == TRI_UNKNOWN_ERROR)
        return FAIL_AT(in, TR_EINVAL, path, from, "no field \"%.*s\"",
                       (int)(key.size < 32 ? key.size : 32), key.at);
    return take_mark(in, ':', path);
}

static tr_err read_message(parser *in, const tr_type *type, char *value,
                           unsigned depth, const tri_codec_path *path)
{
    uint64_t seen = 0;
    size_t index = type->field_count;

    TRI_CHECK(type->field_count <= TR_EACH_MAX);
    if (depth > in->run.limits.depth)
        return FAIL_AT(in, TR_ELIMIT, path, in->at, "nested too deeply");
    if (peek(in) != '{') return FAIL(in, path, "expected an object");
    in->at++;
    if (peek(in) == '}') {
        in->at++;
        return TR_OK;
    }
    for (;;) {
        const char *from = in->at;
        size_t guess = index + 1 < type->field_count ? index + 1 : 0;

        TR_TRY(read_key(in, type, guess, &index, path));
        if (index == type->field_count) {
            TR_TRY(skip_value(in, 0, path));
        } else {
            const tr_field *field = &type->fields[index];
            tri_codec_path here = {path, field->name, 0};
            if (seen >> index & 1)
                return FAIL_AT(in, TR_EINVAL, &here, from, "is there twice");
            seen |= UINT64_C(1) << index;
            TR_TRY(read_field(in, field, value + field->offset, depth, &here));
        }
        if (peek(in) != ',') return take_mark(in, '}', path);
        in->at++;
    }
}

static tr_err read_field(parser *in, const tr_field *field, char *at,
                         unsigned depth, const tri_codec_path *path)
{
    char first = peek(in);

    if (in->at == in->end) return FAIL(in, path, "the text ends too early");
    if (first == 'n' && take_word(in, "null", 4)) return TR_OK;

    switch (field->kind) {
    case TR_KIND_BOOL:
        if (take_word(in, "true", 4)) {
            tri_store_uint(at, 1, 1);
        } else if (!take_word(in, "false", 5)) {
            return FAIL(in, path, "expected true or false");
        }
        return TR_OK;
    case TR_KIND_INT:
    case TR_KIND_UINT:
        return read_whole(in, field, at, path);
    case TR_KIND_FLOAT:
        return read_float(in, field, at, path);
    case TR_KIND_REF:
        return read_ref(in, at, path);
    case TR_KIND_NESTED:
        return read_message(in, field->type, at, depth + 1, path);
    case TR_KIND_TEXT:
        return read_text(in, at, path);
    case TR_KIND_BYTES:
    case TR_KIND_BLOB:
        return read_bytes(in, field, at, path);
    default:
        return read_elements(in, field, at, depth, path);
    }
}

static tr_err read_all(parser *in, const tr_type *type, void *value)
{
    if (left(in) > in->run.limits.size)
        return FAIL_AT(in, TR_ELIMIT, NULL, in->at, "more than %zu bytes",
                       in->run.limits.size);
    TR_TRY(read_message(in, type, value, 0, NULL));
    peek(in);
    if (in->at < in->end) return FAIL(in, NULL, "more text after the value");
    return TR_OK;
}

tr_err tri_json_read(const tr_type *type, void *value, const char *json,
                     size_t size, const tri_codec *codec,
                     tri_codec_error *error)
{
    TRI_CHECK(type != NULL);
    TRI_CHECK(value != NULL || type->size == 0);
    TRI_CHECK(json != NULL || size == 0);
    if (size == 0) json = "";

    parser in = {.start = json, .at = json, .end = json + size};

    tri_decoding_init(&in.run, codec, error);
    if (type->size > 0) memset(value, 0, type->size);
    tr_err err = read_all(&in, type, value);

    if (err != TR_OK) tri_value_release(type, value, in.run.mem);
    return err;
}

tr_err tr_json_read(const tr_type *type, void *value, const char *json,
                    size_t size)
{
    return tri_json_read(type, value, json, size, NULL, NULL);
}

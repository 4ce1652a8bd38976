/*
 * json_read.c - reads values from untrusted JSON.
 *
 * The parser goes over the input once, guided by the type. json_scan.c checks a
 * string as a whole before it is copied. A list grows by doubling, so a short
 * input cannot make it allocate much memory.
 *
 * Invariant: the bytes of a field are zero before it is read; a sequence in the
 * value counts only elements that have been zeroed or read. So after a failure
 * at any point tri_value_release can free the half-made value.
 */
#include "schema/json_read.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "schema/allocator.h"
#include "schema/base64.h"
#include "schema/decoding.h"
#include "schema/field.h"
#include "schema/json_scan.h"
#include "schema/number.h"
#include "schema/scalar.h"
#include "schema/value.h"
#include "troupe/macros.h"
#include "troupe/message.h"

/* Longer than any field name; a longer key is an unknown field. */
#define KEY_MAX 128
/* A new list has room for this many bytes, or for one element. */
#define LIST_FIRST_BYTES 64

_Static_assert(TR_EACH_MAX <= 64, "read_message has one bit for each field");

/* ---- numbers ---- */

/* Reads digits without a sign. Returns false if they exceed 64 bits. */
static bool read_digits(tri_json_span number, uint64_t *out)
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

/* Stores a whole number. Returns false if it does not fit the field. */
static bool store_whole(const tr_field *field, tri_json_span number, char *at)
{
    bool negative = number.at[0] == '-';
    uint64_t value;

    if (negative)
        number = (tri_json_span){number.at + 1, number.size - 1, false};
    if (!read_digits(number, &value)) return false;
    if (field->kind == TR_KIND_UINT)
        return (!negative || value == 0) &&
               tri_store_uint(at, field->size, value);
    if (value > (uint64_t)INT64_MAX + negative) return false;
    return tri_store_int(at, field->size,
                         (int64_t)(negative ? 0 - value : value));
}

static tr_err read_whole(tri_json_input *in, const tr_field *field, char *at,
                         const tri_codec_path *path)
{
    tri_json_span number;
    bool whole;
    const char *from = in->at;

    TR_TRY(tri_json_take_number(in, &number, &whole, path));
    if (!whole)
        return TRI_JSON_FAIL_AT(in, TR_EINVAL, path, from,
                                "expected a whole number");
    if (!store_whole(field, number, at))
        return TRI_JSON_FAIL_AT(in, TR_EINVAL, path, from,
                                "the number does not fit");
    return TR_OK;
}

/* Reads "NaN" or an infinity, for which JSON has no numbers. */
static tr_err read_float_name(tri_json_input *in, const tr_field *field,
                              char *at, const tri_codec_path *path)
{
    if (tri_json_take_word(in, "\"NaN\"", 5)) {
        tri_store_float(at, field->size, (double)NAN);
    } else if (tri_json_take_word(in, "\"Infinity\"", 10)) {
        tri_store_float(at, field->size, (double)INFINITY);
    } else if (tri_json_take_word(in, "\"-Infinity\"", 11)) {
        tri_store_float(at, field->size, -(double)INFINITY);
    } else {
        return TRI_JSON_FAIL(in, path, "expected a number");
    }
    return TR_OK;
}

static tr_err read_float(tri_json_input *in, const tr_field *field, char *at,
                         const tri_codec_path *path)
{
    const char *from = in->at;
    tri_json_span number;
    bool whole;

    if (*from == '"') return read_float_name(in, field, at, path);
    TR_TRY(tri_json_take_number(in, &number, &whole, path));

    double value = tri_float_read(number.at, number.size);
    bool fits = isfinite(value);

    if (fits && field->size == sizeof(float)) fits = isfinite((float)value);
    if (!fits)
        return TRI_JSON_FAIL_AT(in, TR_EINVAL, path, from,
                                "the number does not fit");
    tri_store_float(at, field->size, value);
    return TR_OK;
}

/* ---- values in a string: text, bytes, refs ---- */

/* Reports a piece that could not be allocated. */
static tr_err fail_alloc(tri_json_input *in, tr_err err,
                         const tri_codec_path *path)
{
    return TRI_JSON_FAIL_AT(in, err, path, in->at,
                            err == TR_ENOMEM ? "out of memory"
                                             : "the value is too large");
}

static tr_err read_text(tri_json_input *in, char *at,
                        const tri_codec_path *path)
{
    tri_json_span string;
    void *piece;

    TR_TRY(tri_json_take_string(in, &string, path));
    tr_err err = tri_decoding_alloc(&in->run, &piece, string.size + 1, 1);
    if (err != TR_OK) return fail_alloc(in, err, path);

    char *text = piece;
    size_t size = string.size;

    tri_store_pointer(at, text);
    if (string.escaped) {
        size = tri_json_unescape(text, string);
    } else if (size > 0) {
        memcpy(text, string.at, size);
    }
    text[size] = '\0';
    // Only an escape can give a zero byte: a control character is refused.
    if (string.escaped && memchr(text, '\0', size) != NULL)
        return TRI_JSON_FAIL_AT(in, TR_EINVAL, path, string.at,
                                "text holds a zero byte");
    return TR_OK;
}

static tr_err read_bytes(tri_json_input *in, const tr_field *field, char *at,
                         const tri_codec_path *path)
{
    tri_json_span string;
    size_t size;
    void *piece;
    tr_blob blob = {NULL};
    tr_err err;

    TR_TRY(tri_json_take_string(in, &string, path));
    if (!tri_base64_size(string.at, string.size, &size))
        return TRI_JSON_FAIL_AT(in, TR_EINVAL, path, string.at,
                                "expected base64");
    if (field->kind == TR_KIND_BLOB) {
        err = tri_decoding_blob(&in->run, &blob, size, &piece);
    } else if (size == 0) {
        return TR_OK;
    } else {
        err = tri_decoding_alloc(&in->run, &piece, size, 1);
    }
    if (err != TR_OK) return fail_alloc(in, err, path);
    tri_base64_read(piece, string.at, string.size);
    if (field->kind == TR_KIND_BLOB) {
        tri_store_blob(at, blob);
    } else {
        tri_store_seq(at, (tri_seq){piece, size});
    }
    return TR_OK;
}

/*
 * Not inlined: read_field calls itself for nested messages, and its frames must
 * not contain this buffer.
 */
__attribute__((noinline)) static tr_err read_ref(tri_json_input *in, char *at,
                                                 const tri_codec_path *path)
{
    const tri_ref_codec *refs = in->run.refs;
    // An escape may be six times as long as its character.
    char text[TRI_REF_TEXT_MAX * 6];
    tr_ref ref = {0, 0};
    tri_json_span string;

    TR_TRY(tri_json_take_string(in, &string, path));
    if (string.size <= sizeof(text)) {
        size_t size = tri_json_unescape(text, string);
        if (size == 6 && memcmp(text, "nobody", 6) == 0) return TR_OK;
        if (refs != NULL && size <= TRI_REF_TEXT_MAX &&
            refs->from_text(refs->user, text, size, &ref)) {
            memcpy(at, &ref, sizeof(ref));
            return TR_OK;
        }
    }
    return TRI_JSON_FAIL_AT(in, TR_EINVAL, path, string.at, "names no actor");
}

/* ---- messages and sequences ---- */

static tr_err read_field(tri_json_input *in, const tr_field *field, char *at,
                         unsigned depth, const tri_codec_path *path);

/* A list or array while its elements are read. */
typedef struct growing {
    char *elements;
    size_t count;
    size_t room;
} growing;

/* Adds a zeroed element. Errors: TR_ELIMIT, TR_ENOMEM. */
static tr_err grow(tri_json_input *in, growing *seq, const tr_field *element)
{
    TRI_CHECK(seq->count <= seq->room);
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
        TRI_CHECK(in->run.memory >= seq->room * size);
        in->run.memory -= seq->room * size;
        seq->elements = piece;
        seq->room = room;
    }
    memset(seq->elements + seq->count * element->size, 0, element->size);
    seq->count++;
    return TR_OK;
}

/* Adds element i to a field and stores where it is. */
static tr_err place_element(tri_json_input *in, const tr_field *field,
                            const tr_field *element, size_t i, char *at,
                            growing *seq, const tri_codec_path *path,
                            char **out)
{
    if (field->kind == TR_KIND_FIXED) {
        *out = at + i * element->size;
        if (i < field->size / element->size) return TR_OK;
        return TRI_JSON_FAIL(in, path, "more than %u elements",
                             field->size / element->size);
    }
    tr_err err = grow(in, seq, element);
    if (err != TR_OK) return fail_alloc(in, err, path);
    tri_store_seq(at, (tri_seq){seq->elements, seq->count});
    *out = seq->elements + i * element->size;
    return TR_OK;
}

static tr_err read_elements(tri_json_input *in, const tr_field *field, char *at,
                            unsigned depth, const tri_codec_path *path)
{
    tr_field element = tri_field_element(field);
    growing seq = {.count = 0};

    if (field->kind == TR_KIND_OPTIONAL) {  // read_field has handled null
        tri_optional_set(&element, at);
        return read_field(in, &element, at, depth, path);
    }

    TR_TRY(tri_json_take_mark(in, '[', path));
    if (tri_json_peek(in) == ']') {
        in->at++;
        return TR_OK;
    }
    for (size_t i = 0;; i++) {
        tri_codec_path here = {path, NULL, i};
        char *place = NULL;
        TR_TRY(place_element(in, field, &element, i, at, &seq, path, &place));
        TR_TRY(read_field(in, &element, place, depth, &here));
        if (tri_json_peek(in) != ',') return tri_json_take_mark(in, ']', path);
        in->at++;
    }
}

/*
 * Returns the index of the field with this name, or field_count. The search
 * starts at `guess`.
 */
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

/*
 * Reads a key and its colon. *index is that of the field, or field_count if the
 * type does not have it.
 */
static tr_err read_key(tri_json_input *in, const tr_type *type, size_t guess,
                       size_t *index, const tri_codec_path *path)
{
    char copy[KEY_MAX];
    const char *from;
    tri_json_span key;

    tri_json_peek(in);
    from = in->at;
    TR_TRY(tri_json_take_string(in, &key, path));
    if (key.escaped && key.size <= sizeof(copy)) {
        key.size = tri_json_unescape(copy, key);
        key.at = copy;
    }
    *index = find_field(type, key.at, key.size, guess);
    if (*index == type->field_count && in->run.unknown == TRI_UNKNOWN_ERROR)
        return TRI_JSON_FAIL_AT(in, TR_EINVAL, path, from, "no field \"%.*s\"",
                                (int)(key.size < 32 ? key.size : 32), key.at);
    return tri_json_take_mark(in, ':', path);
}

static tr_err read_message(tri_json_input *in, const tr_type *type, char *value,
                           unsigned depth, const tri_codec_path *path)
{
    TRI_CHECK(type != NULL);

    uint64_t seen = 0;
    size_t index = type->field_count;

    TRI_CHECK(type->field_count <= TR_EACH_MAX);
    if (depth > in->run.limits.depth)
        return TRI_JSON_FAIL_AT(in, TR_ELIMIT, path, in->at,
                                "nested too deeply");
    if (tri_json_peek(in) != '{')
        return TRI_JSON_FAIL(in, path, "expected an object");
    in->at++;
    if (tri_json_peek(in) == '}') {
        in->at++;
        return TR_OK;
    }
    for (;;) {
        const char *from = in->at;
        size_t guess = index + 1 < type->field_count ? index + 1 : 0;

        TR_TRY(read_key(in, type, guess, &index, path));
        if (index == type->field_count) {
            TR_TRY(tri_json_skip_value(in, 0, path));
        } else {
            const tr_field *field = &type->fields[index];
            tri_codec_path here = {path, field->name, 0};
            if (seen >> index & 1)
                return TRI_JSON_FAIL_AT(in, TR_EINVAL, &here, from,
                                        "is there twice");
            seen |= UINT64_C(1) << index;
            TR_TRY(read_field(in, field, value + field->offset, depth, &here));
        }
        if (tri_json_peek(in) != ',') return tri_json_take_mark(in, '}', path);
        in->at++;
    }
}

static tr_err read_field(tri_json_input *in, const tr_field *field, char *at,
                         unsigned depth, const tri_codec_path *path)
{
    char first = tri_json_peek(in);

    if (in->at == in->end)
        return TRI_JSON_FAIL(in, path, "the text ends too early");
    if (first == 'n' && tri_json_take_word(in, "null", 4)) return TR_OK;

    switch (field->kind) {
    case TR_KIND_BOOL:
        if (tri_json_take_word(in, "true", 4)) {
            tri_store_uint(at, 1, 1);
        } else if (!tri_json_take_word(in, "false", 5)) {
            return TRI_JSON_FAIL(in, path, "expected true or false");
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

/* Reads the value and makes sure that nothing follows it. */
static tr_err read_all(tri_json_input *in, const tr_type *type, void *value)
{
    if (tri_json_left(in) > in->run.limits.size)
        return TRI_JSON_FAIL_AT(in, TR_ELIMIT, NULL, in->at,
                                "more than %zu bytes", in->run.limits.size);
    TR_TRY(read_message(in, type, value, 0, NULL));
    tri_json_peek(in);
    if (in->at < in->end)
        return TRI_JSON_FAIL(in, NULL, "more text after the value");
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

    tri_json_input in = {.start = json, .at = json, .end = json + size};

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

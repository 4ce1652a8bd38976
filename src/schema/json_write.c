/*
 * json_write.c - writes values as JSON.
 *
 * Writing cannot fail: the writer counts every byte and stores those that fit,
 * so a first call without a buffer gives the size for a second.
 */
#include "schema/json_write.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "schema/base64.h"
#include "schema/field.h"
#include "schema/number.h"
#include "schema/scalar.h"
#include "schema/utf8.h"
#include "troupe/message.h"

typedef struct writer {
    char *buf;
    size_t size;    // of buf, with the NUL
    size_t length;  // of the whole text, also of what did not fit
    const tri_ref_codec *refs;
} writer;

static inline void put(writer *out, const char *text, size_t size)
{
    if (out->length < out->size) {
        size_t room = out->size - out->length;
        memcpy(out->buf + out->length, text, size < room ? size : room);
    }
    out->length += size;
}

static inline void put_char(writer *out, char c)
{
    if (out->length < out->size) out->buf[out->length] = c;
    out->length++;
}

static void put_null(writer *out)
{
    put(out, "null", 4);
}

/* Writes a character that needs an escape. */
static void put_escaped(writer *out, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    char text[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};

    switch (c) {
    case '"':
        put(out, "\\\"", 2);
        return;
    case '\\':
        put(out, "\\\\", 2);
        return;
    case '\b':
        put(out, "\\b", 2);
        return;
    case '\f':
        put(out, "\\f", 2);
        return;
    case '\n':
        put(out, "\\n", 2);
        return;
    case '\r':
        put(out, "\\r", 2);
        return;
    case '\t':
        put(out, "\\t", 2);
        return;
    default:
        put(out, text, sizeof(text));
        return;
    }
}

/* Returns true if the character is ASCII and needs no escape. */
static bool is_ordinary(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* Returns true if all of eight characters are ordinary. */
static bool are_ordinary(const char *text)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t highs = ones << 7;
    uint64_t w;

    memcpy(&w, text, sizeof(w));
    uint64_t quote = w ^ ones * '"';
    uint64_t slash = w ^ ones * '\\';
    // The high bit of a byte is set in one of these words if the byte is not
    // ASCII, is below 0x20, or is a quote or backslash (the xor made it 0, so
    // subtracting 1 borrows). A borrow reaches the next byte only after such a
    // hit, so it cannot make the result wrong.
    return ((w | (w - ones * 0x20) | (quote - ones) | (slash - ones)) &
            highs) == 0;
}

static void put_string(writer *out, const char *text, size_t size)
{
    put_char(out, '"');
    for (size_t i = 0; i < size;) {
        size_t from = i;
        while (size - i >= 8 && are_ordinary(text + i))
            i += 8;
        while (i < size && is_ordinary((unsigned char)text[i]))
            i++;
        put(out, text + from, i - from);
        if (i == size) break;

        if ((unsigned char)text[i] < 0x80) {
            put_escaped(out, (unsigned char)text[i++]);
            continue;
        }
        size_t bytes = tri_utf8_size(text + i, size - i);
        if (bytes == 0) {
            put(out, "\xef\xbf\xbd", 3);  // U+FFFD
            i++;
        } else {
            put(out, text + i, bytes);
            i += bytes;
        }
    }
    put_char(out, '"');
}

static void put_base64(writer *out, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;

    put_char(out, '"');
    for (size_t i = 0; i < size; i += 3) {
        char group[4];
        tri_base64_group(group, at + i, size - i < 3 ? size - i : 3);
        put(out, group, sizeof(group));
    }
    put_char(out, '"');
}

static void put_float(writer *out, double value, bool single)
{
    char text[TRI_NUMBER_TEXT_MAX];

    if (isnan(value)) {
        put(out, "\"NaN\"", 5);
    } else if (isinf(value)) {
        if (value > 0) {
            put(out, "\"Infinity\"", 10);
        } else {
            put(out, "\"-Infinity\"", 11);
        }
    } else {
        put(out, text, tri_float_write(text, value, single));
    }
}

/*
 * Not inlined: write_field calls itself for nested messages, and its frames
 * must not contain this buffer.
 */
__attribute__((noinline)) static void put_ref(writer *out, const char *at)
{
    char text[TRI_REF_TEXT_MAX];
    size_t size = tri_ref_codec_text(out->refs, at, text);

    if (size == 0) {
        put_null(out);
    } else {
        put_string(out, text, size);
    }
}

static void write_message(writer *out, const tr_type *type, const char *value);
static void write_field(writer *out, const tr_field *field, const char *at);

static void write_elements(writer *out, const tr_field *field, const char *at)
{
    tr_field element = tri_field_element(field);
    tri_seq seq = tri_field_elements(field, &element, at);

    if (field->kind == TR_KIND_OPTIONAL) {
        write_field(out, &element, at);
        return;
    }
    put_char(out, '[');
    for (size_t i = 0; i < seq.count; i++) {
        if (i > 0) put_char(out, ',');
        write_field(out, &element, (const char *)seq.at + i * element.size);
    }
    put_char(out, ']');
}

static void write_pointer(writer *out, const tr_field *field, const char *at)
{
    if (field->kind == TR_KIND_TEXT) {
        const char *text = tri_load_pointer(at);
        if (text == NULL) {
            put_null(out);
        } else {
            put_string(out, text, strlen(text));
        }
    } else if (field->kind == TR_KIND_BYTES) {
        tri_seq seq = tri_load_seq(at);
        put_base64(out, seq.at, seq.count);
    } else {
        tr_blob blob = tri_load_blob(at);
        tr_bytes bytes = tr_blob_bytes(blob);
        if (blob.body == NULL) {
            put_null(out);
        } else {
            put_base64(out, bytes.at, bytes.size);
        }
    }
}

static void write_field(writer *out, const tr_field *field, const char *at)
{
    char text[TRI_NUMBER_TEXT_MAX];

    switch (field->kind) {
    case TR_KIND_BOOL:
        if (tri_load_uint(at, 1) != 0) {
            put(out, "true", 4);
        } else {
            put(out, "false", 5);
        }
        return;
    case TR_KIND_INT:
        put(out, text, tri_int_write(text, tri_load_int(at, field->size)));
        return;
    case TR_KIND_UINT:
        put(out, text, tri_uint_write(text, tri_load_uint(at, field->size)));
        return;
    case TR_KIND_FLOAT:
        put_float(out, tri_load_float(at, field->size),
                  field->size == sizeof(float));
        return;
    case TR_KIND_REF:
        put_ref(out, at);
        return;
    case TR_KIND_NESTED:
        write_message(out, field->type, at);
        return;
    case TR_KIND_TEXT:
    case TR_KIND_BYTES:
    case TR_KIND_BLOB:
        write_pointer(out, field, at);
        return;
    default:
        write_elements(out, field, at);
        return;
    }
}

static bool is_absent(const tr_field *field, const char *at)
{
    if (field->kind != TR_KIND_OPTIONAL) return false;

    tr_field element = tri_field_element(field);

    return !tri_optional_has(&element, at);
}

static void write_message(writer *out, const tr_type *type, const char *value)
{
    bool first = true;

    put_char(out, '{');
    for (size_t i = 0; i < type->field_count; i++) {
        const tr_field *field = &type->fields[i];
        if (is_absent(field, value + field->offset)) continue;
        if (!first) put_char(out, ',');
        first = false;
        // A field name is a C identifier, so it needs no escapes.
        put_char(out, '"');
        put(out, field->name, strlen(field->name));
        put(out, "\":", 2);
        write_field(out, field, value + field->offset);
    }
    put_char(out, '}');
}

size_t tri_json_write(const tr_type *type, const void *value, char *buf,
                      size_t size, const tri_codec *codec)
{
    TRI_CHECK(type != NULL);
    TRI_CHECK(value != NULL || type->size == 0);
    TRI_CHECK(buf != NULL || size == 0);
    writer out = {.buf = buf, .size = size};

    if (codec != NULL) out.refs = codec->refs;
    write_message(&out, type, value);
    if (size > 0) buf[out.length < size ? out.length : size - 1] = '\0';
    return out.length;
}

size_t tr_json_write(const tr_type *type, const void *value, char *buf,
                     size_t size)
{
    return tri_json_write(type, value, buf, size, NULL);
}

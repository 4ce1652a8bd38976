/*
 * print.c - writes a value as text for people.
 *
 * The size of the buffer bounds the work: once it is full nothing more is
 * visited, so a message with a million elements costs no more than a small one.
 */
#include "schema/print.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "schema/field.h"
#include "schema/number.h"
#include "schema/scalar.h"
#include "troupe/message.h"

typedef struct printer {
    char *buf;
    size_t size;    // without the NUL
    size_t length;  // at most `size`
    bool full;      // something did not fit
    const tri_ref_codec *refs;
} printer;

static void put(printer *out, const char *text, size_t size)
{
    TRI_CHECK(out->length <= out->size);
    size_t room = out->size - out->length;

    if (size > room) {
        size = room;
        out->full = true;
    }
    memcpy(out->buf + out->length, text, size);
    out->length += size;
}

static void put_text(printer *out, const char *text)
{
    put(out, text, strlen(text));
}

static void put_uint(printer *out, uint64_t value)
{
    char text[TRI_NUMBER_TEXT_MAX];

    put(out, text, tri_uint_write(text, value));
}

static void put_hex(printer *out, unsigned char byte)
{
    static const char hex[] = "0123456789abcdef";
    char text[2] = {hex[byte >> 4], hex[byte & 15]};

    put(out, text, sizeof(text));
}

/* Writes a text in quotes, on one line. Bytes above 0x7f are unchanged. */
static void put_quoted(printer *out, const char *text)
{
    if (text == NULL) {
        put_text(out, "null");
        return;
    }
    put_text(out, "\"");
    for (; *text != '\0' && !out->full; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            char pair[2] = {'\\', (char)c};
            put(out, pair, 2);
        } else if (c == '\n') {
            put_text(out, "\\n");
        } else if (c < 0x20 || c == 0x7f) {
            put_text(out, "\\x");
            put_hex(out, c);
        } else {
            put(out, text, 1);
        }
    }
    put_text(out, "\"");
}

static void put_bytes(printer *out, const unsigned char *at, size_t size)
{
    put_uint(out, size);
    put_text(out, size == 1 ? " byte" : " bytes");
    for (size_t i = 0; i < size && !out->full; i++) {
        put_text(out, i == 0 ? ": " : " ");
        if (i == TRI_PRINT_ELEMENTS_MAX) {
            put_text(out, "...");
            return;
        }
        put_hex(out, at[i]);
    }
}

static void put_float(printer *out, double value, bool single)
{
    char text[TRI_NUMBER_TEXT_MAX];

    if (isnan(value)) {
        put_text(out, "nan");
    } else if (isinf(value)) {
        put_text(out, value > 0 ? "inf" : "-inf");
    } else {
        put(out, text, tri_float_write(text, value, single));
    }
}

/*
 * Not inlined: print_field calls itself for nested messages, and its frames
 * must not contain this buffer.
 */
__attribute__((noinline)) static void put_ref(printer *out, const char *at)
{
    char text[TRI_REF_TEXT_MAX];
    size_t size = 0;
    tr_ref ref;

    memcpy(&ref, at, sizeof(ref));
    if (ref.cell == 0) {
        put_text(out, "nobody");
        return;
    }
    if (out->refs != NULL)
        size = out->refs->to_text(out->refs->user, ref, text, sizeof(text));
    TRI_CHECK(size <= sizeof(text));
    if (size > 0) {
        put(out, text, size);
        return;
    }
    put_text(out, "#");
    put_uint(out, ref.id);
}

static void print_message(printer *out, const tr_type *type, const char *value,
                          unsigned depth);
static void print_field(printer *out, const tr_field *field, const char *at,
                        unsigned depth);

static void print_elements(printer *out, const tr_field *field, const char *at,
                           unsigned depth)
{
    tr_field element = tri_field_element(field);
    tri_seq seq = tri_field_elements(field, &element, at);

    if (field->kind == TR_KIND_OPTIONAL) {
        if (seq.count > 0) {
            print_field(out, &element, at, depth);
        } else {
            put_text(out, "none");
        }
        return;
    }
    put_text(out, "[");
    for (size_t i = 0; i < seq.count && !out->full; i++) {
        if (i > 0) put_text(out, ", ");
        if (i == TRI_PRINT_ELEMENTS_MAX) {
            put_uint(out, seq.count - i);
            put_text(out, " more");
            break;
        }
        print_field(out, &element, (const char *)seq.at + i * element.size,
                    depth);
    }
    put_text(out, "]");
}

static void print_field(printer *out, const tr_field *field, const char *at,
                        unsigned depth)
{
    char text[TRI_NUMBER_TEXT_MAX];

    switch (field->kind) {
    case TR_KIND_BOOL:
        put_text(out, tri_load_uint(at, 1) != 0 ? "true" : "false");
        return;
    case TR_KIND_INT:
        put(out, text, tri_int_write(text, tri_load_int(at, field->size)));
        return;
    case TR_KIND_UINT:
        put_uint(out, tri_load_uint(at, field->size));
        return;
    case TR_KIND_FLOAT:
        put_float(out, tri_load_float(at, field->size),
                  field->size == sizeof(float));
        return;
    case TR_KIND_REF:
        put_ref(out, at);
        return;
    case TR_KIND_NESTED:
        print_message(out, field->type, at, depth + 1);
        return;
    case TR_KIND_TEXT:
        put_quoted(out, tri_load_pointer(at));
        return;
    case TR_KIND_BYTES: {
        tri_seq seq = tri_load_seq(at);
        put_bytes(out, seq.at, seq.count);
        return;
    }
    case TR_KIND_BLOB: {
        tr_bytes bytes = tr_blob_bytes(tri_load_blob(at));
        put_text(out, "blob of ");
        put_bytes(out, bytes.at, bytes.size);
        return;
    }
    default:
        print_elements(out, field, at, depth);
        return;
    }
}

static void print_message(printer *out, const tr_type *type, const char *value,
                          unsigned depth)
{
    put_text(out, type->name);
    put_text(out, "{");
    if (depth > TRI_DEPTH_MAX) put_text(out, "...");
    for (size_t i = 0; depth <= TRI_DEPTH_MAX && i < type->field_count; i++) {
        const tr_field *field = &type->fields[i];
        if (out->full) return;
        if (i > 0) put_text(out, ", ");
        put_text(out, field->name);
        put_text(out, "=");
        print_field(out, field, value + field->offset, depth);
    }
    put_text(out, "}");
}

size_t tri_print(const tr_type *type, const void *value, char *buf, size_t size,
                 const tri_ref_codec *refs)
{
    TRI_CHECK(type != NULL);
    TRI_CHECK(value != NULL || type->size == 0);
    TRI_CHECK(buf != NULL);
    TRI_CHECK(size > 0);
    printer out = {.buf = buf, .size = size - 1, .refs = refs};

    print_message(&out, type, value, 0);
    if (out.full && out.length >= 3) memcpy(buf + out.length - 3, "...", 3);
    buf[out.length] = '\0';
    return out.length;
}

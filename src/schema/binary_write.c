/*
 * binary_write.c - writes the compact form that binary_wire.h describes.
 *
 * Most traffic consists of numbers, so write_numbers is a fast path for runs of
 * bool, integers and floats: it writes them inline as long as TRI_HEAD_MAX
 * bytes of room are left. Everything else goes through put, which counts the
 * bytes that do not fit.
 */
#include "schema/binary_write.h"

#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "schema/binary_wire.h"
#include "schema/field.h"
#include "schema/scalar.h"
#include "troupe/message.h"

static uint64_t zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

typedef struct writer {
    uint8_t *at;    // next byte to write
    uint8_t *end;   // of the buffer
    size_t missed;  // bytes that did not fit
    const tri_ref_codec *refs;
} writer;

/*
 * Writes the head of an item where TRI_HEAD_MAX bytes of room are left. Returns
 * the byte after it.
 */
static inline uint8_t *write_head(uint8_t *at, unsigned wire, uint64_t argument)
{
    if (argument < TRI_ARGUMENT_INLINE) {
        *at = (uint8_t)(wire | argument << TRI_WIRE_BITS);
        return at + 1;
    }

    unsigned bytes = (71u - (unsigned)__builtin_clzll(argument)) / 8;

    *at = (uint8_t)(wire | (TRI_ARGUMENT_INLINE - 1 + bytes) << TRI_WIRE_BITS);
    memcpy(at + 1, &argument, sizeof(argument));
    return at + 1 + bytes;
}

static void put(writer *out, const void *bytes, size_t size)
{
    TRI_CHECK_SLOW(out->at <= out->end);
    if (size == 0) return;
    if ((size_t)(out->end - out->at) < size) {
        out->missed += size;
        out->end = out->at;  // no later, shorter item may be written either
        return;
    }
    memcpy(out->at, bytes, size);
    out->at += size;
}

static void put_head(writer *out, unsigned wire, uint64_t argument)
{
    uint8_t head[TRI_HEAD_MAX];

    if (out->end - out->at >= TRI_HEAD_MAX) {
        out->at = write_head(out->at, wire, argument);
        return;
    }
    put(out, head, (size_t)(write_head(head, wire, argument) - head));
}

static void put_float(writer *out, const void *at, size_t size)
{
    uint8_t head = (uint8_t)(TRI_WIRE_FLOAT | size << TRI_WIRE_BITS);

    put(out, &head, 1);
    put(out, at, size);
}

static void put_bytes(writer *out, const void *at, size_t size)
{
    put_head(out, TRI_WIRE_BYTES, size);
    put(out, at, size);
}

/*
 * Not inlined: write_field calls itself for nested messages, and its frames
 * must not contain this buffer.
 */
__attribute__((noinline)) static void put_ref(writer *out, const void *at)
{
    char text[TRI_REF_TEXT_MAX];
    size_t size = tri_ref_codec_text(out->refs, at, text);

    if (size == 0) {
        put_head(out, TRI_WIRE_NONE, 0);
    } else {
        put_bytes(out, text, size);
    }
}

static void write_message(writer *out, const tr_type *type, const char *value);
static void write_field(writer *out, const tr_field *field, const char *at);

/* Writes an optional field that is present; empty bytes must not be none. */
static void write_present(writer *out, const tr_field *field, const char *at)
{
    if (field->kind == TR_KIND_BYTES) {
        tri_seq seq = tri_load_seq(at);
        put_bytes(out, seq.at, seq.count);
    } else {
        write_field(out, field, at);
    }
}

static void write_elements(writer *out, const tr_field *field, const char *at)
{
    tr_field element = tri_field_element(field);
    tri_seq seq = tri_field_elements(field, &element, at);

    if (seq.count == 0) {
        put_head(out, TRI_WIRE_NONE, 0);
        return;
    }
    if (field->kind == TR_KIND_OPTIONAL) {
        write_present(out, &element, at);
        return;
    }
    if (tri_is_packed(&element)) {
        uint8_t code = tri_packed_code(&element);
        put_head(out, TRI_WIRE_PACKED, 1 + seq.count * element.size);
        put(out, &code, 1);
        put(out, seq.at, seq.count * element.size);
        return;
    }
    put_head(out, TRI_WIRE_LIST, seq.count);
    for (size_t i = 0; i < seq.count; i++) {
        write_field(out, &element, (const char *)seq.at + i * element.size);
    }
}

static void write_field(writer *out, const tr_field *field, const char *at)
{
    switch (field->kind) {
    case TR_KIND_BOOL:
        put_head(out, TRI_WIRE_UINT, tri_load_uint(at, 1) != 0);
        return;
    case TR_KIND_UINT:
        put_head(out, TRI_WIRE_UINT, tri_load_uint(at, field->size));
        return;
    case TR_KIND_INT:
        put_head(out, TRI_WIRE_SINT, zigzag(tri_load_int(at, field->size)));
        return;
    case TR_KIND_FLOAT:
        put_float(out, at, field->size);
        return;
    case TR_KIND_REF:
        put_ref(out, at);
        return;
    case TR_KIND_NESTED:
        write_message(out, field->type, at);
        return;
    case TR_KIND_TEXT: {
        const char *text = tri_load_pointer(at);
        if (text == NULL) {
            put_head(out, TRI_WIRE_NONE, 0);
        } else {
            put_bytes(out, text, strlen(text));
        }
        return;
    }
    case TR_KIND_BYTES: {
        tri_seq seq = tri_load_seq(at);
        if (seq.count == 0) {
            put_head(out, TRI_WIRE_NONE, 0);
        } else {
            put_bytes(out, seq.at, seq.count);
        }
        return;
    }
    case TR_KIND_BLOB: {
        tr_blob blob = tri_load_blob(at);
        if (blob.body == NULL) {
            put_head(out, TRI_WIRE_NONE, 0);
        } else {
            tr_bytes bytes = tr_blob_bytes(blob);
            put_bytes(out, bytes.at, bytes.size);
        }
        return;
    }
    default:
        write_elements(out, field, at);
        return;
    }
}

/*
 * Fast path: writes numbers from field i on while TRI_HEAD_MAX bytes of room
 * are left. Returns the first field that was not written.
 */
static size_t write_numbers(writer *out, const tr_type *type, size_t i,
                            const char *value)
{
    uint8_t *at = out->at;  // a local, since stores may alias out->at
    const uint8_t *end = out->end;

    for (; i < type->field_count && end - at >= TRI_HEAD_MAX; i++) {
        const tr_field *field = &type->fields[i];
        const char *from = value + field->offset;

        switch (field->kind) {
        case TR_KIND_INT:
            at = write_head(at, TRI_WIRE_SINT,
                            zigzag(tri_load_int(from, field->size)));
            continue;
        case TR_KIND_UINT:
            at =
                write_head(at, TRI_WIRE_UINT, tri_load_uint(from, field->size));
            continue;
        case TR_KIND_BOOL:
            at = write_head(at, TRI_WIRE_UINT, tri_load_uint(from, 1) != 0);
            continue;
        case TR_KIND_FLOAT:
            *at++ = (uint8_t)(TRI_WIRE_FLOAT | field->size << TRI_WIRE_BITS);
            // A constant size is one move.
            if (field->size == sizeof(double)) {
                memcpy(at, from, sizeof(double));
            } else {
                memcpy(at, from, sizeof(float));
            }
            at += field->size;
            continue;
        default:
            break;
        }
        break;
    }
    out->at = at;
    return i;
}

static void write_message(writer *out, const tr_type *type, const char *value)
{
    TRI_CHECK(type != NULL);
    put_head(out, TRI_WIRE_MESSAGE, type->field_count);
    for (size_t i = 0; i < type->field_count; i++) {
        i = write_numbers(out, type, i, value);
        if (i == type->field_count) break;

        const tr_field *field = &type->fields[i];
        write_field(out, field, value + field->offset);
    }
}

size_t tri_binary_write(const tr_type *type, const void *value, void *buf,
                        size_t size, const tri_codec *codec)
{
    TRI_CHECK(type != NULL);
    TRI_CHECK(value != NULL || type->field_count == 0);
    TRI_CHECK(buf != NULL || size == 0);

    // Stands in for an empty buffer: arithmetic on NULL is undefined.
    uint8_t none[1];
    uint8_t *start = size == 0 ? none : buf;
    writer out = {.at = start, .end = start + size};

    if (codec != NULL) out.refs = codec->refs;
    write_message(&out, type, value);
    return (size_t)(out.at - start) + out.missed;
}

/*
 * binary_read.c - reads the compact form that binary_wire.h describes.
 *
 * read_numbers is the fast path for runs of bool, integers and floats: it reads
 * them inline as long as each item has the wire type of its field and may be
 * loaded with TRI_HEAD_MAX bytes. Everything else goes through read_field,
 * which checks byte by byte.
 *
 * Invariant: the bytes of a field are zero before it is read; a piece is stored
 * in the value as soon as it is allocated, with zeroed elements. So after a
 * failure at any point tri_value_release can free the half-made value.
 */
#include "schema/binary_read.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "schema/binary_wire.h"
#include "schema/decoding.h"
#include "schema/field.h"
#include "schema/scalar.h"
#include "schema/value.h"
#include "troupe/message.h"

static int64_t unzigzag(uint64_t value)
{
    return (int64_t)((value >> 1) ^ (0 - (value & 1)));
}

typedef struct reader {
    const uint8_t *start;
    const uint8_t *at;
    const uint8_t *end;
    tri_decoding run;
} reader;

/* The start of an item. */
typedef struct head {
    unsigned wire;  // TRI_WIRE_*
    uint64_t argument;
} head;

static size_t left(const reader *in)
{
    TRI_CHECK_SLOW(in->at <= in->end);
    return (size_t)(in->end - in->at);
}

static tr_err fail_short(const reader *in, const tri_codec_path *path)
{
    return tri_decoding_fail(&in->run, TR_EINVAL, path,
                             (size_t)(in->end - in->start),
                             "the bytes end too early");
}

/* Reports a piece that could not be allocated. */
static tr_err fail_alloc(const reader *in, tr_err err,
                         const tri_codec_path *path)
{
    return tri_decoding_fail(&in->run, err, path, (size_t)(in->at - in->start),
                             err == TR_ENOMEM ? "out of memory"
                                              : "the value is too large");
}

static const char *wire_name(unsigned wire)
{
    static const char *const names[] = {
        "nothing", "an unsigned number", "a signed number", "a float",
        "bytes",   "a message",          "a list",          "packed numbers",
    };

    return names[wire & TRI_WIRE_MASK];
}

/* Reports an item of another wire type than the field's. */
static tr_err fail_wire(const reader *in, unsigned wire, const char *wanted,
                        const tri_codec_path *path)
{
    return tri_decoding_fail(&in->run, TR_EINVAL, path,
                             (size_t)(in->at - in->start),
                             "expected %s, found %s", wanted, wire_name(wire));
}

/* Reads the head of an item. Returns false if the bytes end too early. */
static inline bool read_head(reader *in, head *out)
{
    size_t room = left(in);

    if (room == 0) return false;

    unsigned first = *in->at;
    unsigned argument = first >> TRI_WIRE_BITS;

    out->wire = first & TRI_WIRE_MASK;
    if (argument < TRI_ARGUMENT_INLINE) {
        out->argument = argument;
        in->at += 1;
        return true;
    }

    unsigned bytes = argument - TRI_ARGUMENT_INLINE + 1;
    uint64_t value = 0;

    if (room >= TRI_HEAD_MAX) {
        memcpy(&value, in->at + 1, sizeof(value));
        value &= UINT64_MAX >> (64 - 8 * bytes);
    } else {
        if (room < 1 + bytes) return false;
        memcpy(&value, in->at + 1, bytes);
    }
    out->argument = value;
    in->at += 1 + bytes;
    return true;
}

/*
 * Goes past the rest of an item; `depth` is the number of messages and lists
 * around it.
 */
static tr_err skip_rest(reader *in, head item, unsigned depth,
                        const tri_codec_path *path)
{
    switch (item.wire) {
    case TRI_WIRE_NONE:
    case TRI_WIRE_UINT:
    case TRI_WIRE_SINT:
        return TR_OK;
    case TRI_WIRE_FLOAT:
    case TRI_WIRE_BYTES:
    case TRI_WIRE_PACKED:
        if (item.argument > left(in)) return fail_short(in, path);
        in->at += item.argument;
        return TR_OK;
    default:
        break;
    }
    // Each level of the type may be a message in a list: two levels here.
    if (depth >= 2 * in->run.limits.depth)
        return tri_decoding_fail(&in->run, TR_ELIMIT, path,
                                 (size_t)(in->at - in->start),
                                 "nested too deeply");
    for (uint64_t i = 0; i < item.argument; i++) {
        head inner;
        if (!read_head(in, &inner)) return fail_short(in, path);
        TR_TRY(skip_rest(in, inner, depth + 1, path));
    }
    return TR_OK;
}

static tr_err fail_range(const reader *in, const tri_codec_path *path)
{
    return tri_decoding_fail(&in->run, TR_EINVAL, path,
                             (size_t)(in->at - in->start),
                             "the number does not fit");
}

static tr_err read_number(reader *in, const tr_field *field, head item,
                          char *at, const tri_codec_path *path)
{
    if (field->kind == TR_KIND_INT) {
        if (item.wire != TRI_WIRE_SINT)
            return fail_wire(in, item.wire, "a signed number", path);
        if (!tri_store_int(at, field->size, unzigzag(item.argument)))
            return fail_range(in, path);
        return TR_OK;
    }
    if (item.wire != TRI_WIRE_UINT)
        return fail_wire(in, item.wire, "an unsigned number", path);
    if (field->kind == TR_KIND_BOOL && item.argument > 1)
        return fail_range(in, path);
    if (!tri_store_uint(at, field->size, item.argument))
        return fail_range(in, path);
    return TR_OK;
}

/*
 * Reads a float. A field that was a float when it was written may be a double
 * now, but not the reverse.
 */
static tr_err read_float(reader *in, const tr_field *field, head item, char *at,
                         const tri_codec_path *path)
{
    if (item.wire != TRI_WIRE_FLOAT)
        return fail_wire(in, item.wire, "a float", path);
    if (item.argument != sizeof(float) && item.argument != sizeof(double))
        return fail_range(in, path);
    if (item.argument > left(in)) return fail_short(in, path);
    if (item.argument > field->size) return fail_range(in, path);
    if (item.argument == field->size) {
        memcpy(at, in->at, field->size);  // keeps the bits of a NaN
    } else {
        tri_store_float(at, field->size, tri_load_float(in->at, 4));
    }
    in->at += item.argument;
    return TR_OK;
}

/* Checks an item of bytes and stores where they are. */
static tr_err read_bytes(reader *in, head item, const char *wanted,
                         const uint8_t **bytes, const tri_codec_path *path)
{
    if (item.wire != TRI_WIRE_BYTES)
        return fail_wire(in, item.wire, wanted, path);
    if (item.argument > left(in)) return fail_short(in, path);
    *bytes = in->at;
    in->at += item.argument;
    return TR_OK;
}

static tr_err read_text(reader *in, head item, char *at,
                        const tri_codec_path *path)
{
    const uint8_t *bytes;
    void *piece;

    TR_TRY(read_bytes(in, item, "text", &bytes, path));

    size_t size = (size_t)item.argument;

    if (memchr(bytes, '\0', size) != NULL)
        return tri_decoding_fail(&in->run, TR_EINVAL, path,
                                 (size_t)(bytes - in->start),
                                 "text holds a zero byte");
    tr_err err = tri_decoding_alloc(&in->run, &piece, size + 1, 1);
    if (err != TR_OK) return fail_alloc(in, err, path);
    memcpy(piece, bytes, size);
    ((char *)piece)[size] = '\0';
    tri_store_pointer(at, piece);
    return TR_OK;
}

static tr_err read_data(reader *in, head item, char *at,
                        const tri_codec_path *path)
{
    const uint8_t *bytes;
    void *piece;

    TR_TRY(read_bytes(in, item, "bytes", &bytes, path));
    if (item.argument == 0) return TR_OK;
    tr_err err = tri_decoding_alloc(&in->run, &piece, (size_t)item.argument, 1);
    if (err != TR_OK) return fail_alloc(in, err, path);
    memcpy(piece, bytes, (size_t)item.argument);
    tri_store_seq(at, (tri_seq){piece, (size_t)item.argument});
    return TR_OK;
}

static tr_err read_blob(reader *in, head item, char *at,
                        const tri_codec_path *path)
{
    const uint8_t *bytes;
    tr_blob blob;
    void *body;

    TR_TRY(read_bytes(in, item, "bytes", &bytes, path));
    tr_err err =
        tri_decoding_blob(&in->run, &blob, (size_t)item.argument, &body);
    if (err != TR_OK) return fail_alloc(in, err, path);
    memcpy(body, bytes, (size_t)item.argument);
    tri_store_blob(at, blob);
    return TR_OK;
}

static tr_err read_ref(reader *in, head item, char *at,
                       const tri_codec_path *path)
{
    const tri_ref_codec *refs = in->run.refs;
    const uint8_t *bytes;
    tr_ref ref = {0, 0};

    TR_TRY(read_bytes(in, item, "a ref", &bytes, path));
    if (refs == NULL || item.argument > TRI_REF_TEXT_MAX ||
        !refs->from_text(refs->user, (const char *)bytes, (size_t)item.argument,
                         &ref)) {
        return tri_decoding_fail(&in->run, TR_EINVAL, path,
                                 (size_t)(bytes - in->start), "names no actor");
    }
    memcpy(at, &ref, sizeof(ref));
    return TR_OK;
}

/*
 * Makes room for count elements, zeroed, in the field itself or as a piece.
 */
static tr_err make_room(reader *in, const tr_field *field,
                        const tr_field *element, size_t count, char *at,
                        char **elements, const tri_codec_path *path)
{
    TRI_CHECK(count > 0);
    void *piece;

    if (field->kind == TR_KIND_FIXED) {
        *elements = at;
        if (count <= field->size / element->size) return TR_OK;
        return tri_decoding_fail(&in->run, TR_EINVAL, path,
                                 (size_t)(in->at - in->start),
                                 "has %zu elements, room is for %u", count,
                                 field->size / element->size);
    }
    if (count > in->run.limits.count) return fail_alloc(in, TR_ELIMIT, path);
    tr_err err = tri_decoding_alloc(&in->run, &piece, count, element->size);
    if (err != TR_OK) return fail_alloc(in, err, path);
    memset(piece, 0, count * element->size);
    tri_store_seq(at, (tri_seq){piece, count});
    *elements = piece;
    return TR_OK;
}

static tr_err read_packed(reader *in, const tr_field *field,
                          const tr_field *element, head item, char *at,
                          const tri_codec_path *path)
{
    TRI_CHECK(element->size > 0);
    char *elements;

    if (item.wire != TRI_WIRE_PACKED)
        return fail_wire(in, item.wire, "packed numbers", path);
    if (item.argument > left(in)) return fail_short(in, path);
    if (item.argument < 1 || *in->at != tri_packed_code(element) ||
        (item.argument - 1) % element->size != 0) {
        return tri_decoding_fail(&in->run, TR_EINVAL, path,
                                 (size_t)(in->at - in->start),
                                 "elements of another kind or size");
    }

    size_t size = (size_t)item.argument - 1;

    in->at++;
    if (size == 0) return TR_OK;
    TR_TRY(make_room(in, field, element, size / element->size, at, &elements,
                     path));
    for (size_t i = 0; element->kind == TR_KIND_BOOL && i < size; i++) {
        if (in->at[i] > 1) return fail_range(in, path);
    }
    memcpy(elements, in->at, size);
    in->at += size;
    return TR_OK;
}

static tr_err read_field(reader *in, const tr_field *field, char *at,
                         unsigned depth, const tri_codec_path *path);
static tr_err read_item(reader *in, const tr_field *field, head item, char *at,
                        unsigned depth, const tri_codec_path *path);

static tr_err read_elements(reader *in, const tr_field *field, head item,
                            char *at, unsigned depth,
                            const tri_codec_path *path)
{
    tr_field element = tri_field_element(field);
    char *elements;

    if (field->kind == TR_KIND_OPTIONAL) {
        tri_optional_set(&element, at);
        return read_item(in, &element, item, at, depth, path);
    }
    if (tri_is_packed(&element))
        return read_packed(in, field, &element, item, at, path);
    if (item.wire != TRI_WIRE_LIST)
        return fail_wire(in, item.wire, "a list", path);
    // Each element takes at least one byte: a count beyond that is a lie, and
    // no memory is allocated for it.
    if (item.argument > left(in)) return fail_short(in, path);
    if (item.argument == 0) return TR_OK;

    size_t count = (size_t)item.argument;

    TR_TRY(make_room(in, field, &element, count, at, &elements, path));
    for (size_t i = 0; i < count; i++) {
        tri_codec_path here = {path, NULL, i};
        TR_TRY(read_field(in, &element, elements + i * element.size, depth,
                          &here));
    }
    return TR_OK;
}

static tr_err read_message(reader *in, const tr_type *type, head item,
                           char *value, unsigned depth,
                           const tri_codec_path *path);

static tr_err read_field(reader *in, const tr_field *field, char *at,
                         unsigned depth, const tri_codec_path *path)
{
    head item;

    if (!read_head(in, &item)) return fail_short(in, path);
    if (item.wire == TRI_WIRE_NONE) return TR_OK;  // the field is zero
    return read_item(in, field, item, at, depth, path);
}

static tr_err read_item(reader *in, const tr_field *field, head item, char *at,
                        unsigned depth, const tri_codec_path *path)
{
    switch (field->kind) {
    case TR_KIND_BOOL:
    case TR_KIND_INT:
    case TR_KIND_UINT:
        return read_number(in, field, item, at, path);
    case TR_KIND_FLOAT:
        return read_float(in, field, item, at, path);
    case TR_KIND_REF:
        return read_ref(in, item, at, path);
    case TR_KIND_NESTED:
        return read_message(in, field->type, item, at, depth + 1, path);
    case TR_KIND_TEXT:
        return read_text(in, item, at, path);
    case TR_KIND_BYTES:
        return read_data(in, item, at, path);
    case TR_KIND_BLOB:
        return read_blob(in, item, at, path);
    default:
        return read_elements(in, field, item, at, depth, path);
    }
}

/* Skips fields that the type does not have: the writer's type is newer. */
static tr_err skip_fields(reader *in, uint64_t count,
                          const tri_codec_path *path)
{
    if (count > 0 && in->run.unknown == TRI_UNKNOWN_ERROR)
        return tri_decoding_fail(&in->run, TR_EINVAL, path,
                                 (size_t)(in->at - in->start),
                                 "has more fields than the type");
    return skip_rest(in, (head){TRI_WIRE_MESSAGE, count}, 0, path);
}

/*
 * Fast path: reads numbers from field i on while each item has the wire type of
 * its field and fits. An argument outside the first byte is loaded as eight
 * bytes, so TRI_HEAD_MAX bytes must be left. Returns the first field that was
 * not read.
 */
static size_t read_numbers(reader *in, const tr_type *type, size_t i,
                           size_t count, char *value)
{
    const uint8_t *at = in->at;  // a local, since stores may alias in->at
    const uint8_t *end = in->end;

    for (; i < count && at < end; i++) {
        const tr_field *field = &type->fields[i];
        unsigned first = *at;
        unsigned bytes = first >> TRI_WIRE_BITS;
        uint64_t argument = bytes;

        if (field->kind == TR_KIND_FLOAT) {
            // read_float converts other sizes. A constant size is one move.
            if (first != (TRI_WIRE_FLOAT | field->size << TRI_WIRE_BITS) ||
                end - at < TRI_HEAD_MAX) {
                break;
            }
            if (field->size == sizeof(double)) {
                memcpy(value + field->offset, at + 1, sizeof(double));
            } else {
                memcpy(value + field->offset, at + 1, sizeof(float));
            }
            at += 1 + field->size;
            continue;
        }
        if (bytes < TRI_ARGUMENT_INLINE) {
            bytes = 0;
        } else {
            if (end - at < TRI_HEAD_MAX) break;
            bytes -= TRI_ARGUMENT_INLINE - 1;
            memcpy(&argument, at + 1, sizeof(argument));
            argument &= UINT64_MAX >> (64 - 8 * bytes);
        }
        if (field->kind == TR_KIND_INT &&
            (first & TRI_WIRE_MASK) == TRI_WIRE_SINT) {
            if (!tri_store_int(value + field->offset, field->size,
                               unzigzag(argument))) {
                break;
            }
        } else if (field->kind == TR_KIND_UINT &&
                   (first & TRI_WIRE_MASK) == TRI_WIRE_UINT) {
            if (!tri_store_uint(value + field->offset, field->size, argument))
                break;
        } else if (field->kind == TR_KIND_BOOL && argument <= 1 &&
                   (first & TRI_WIRE_MASK) == TRI_WIRE_UINT) {
            value[field->offset] = (char)argument;
        } else {
            break;
        }
        at += 1 + bytes;
    }
    in->at = at;
    return i;
}

static tr_err read_message(reader *in, const tr_type *type, head item,
                           char *value, unsigned depth,
                           const tri_codec_path *path)
{
    TRI_CHECK(type != NULL);
    if (item.wire != TRI_WIRE_MESSAGE)
        return fail_wire(in, item.wire, "a message", path);
    if (item.argument > left(in)) return fail_short(in, path);
    if (depth > in->run.limits.depth)
        return tri_decoding_fail(&in->run, TR_ELIMIT, path,
                                 (size_t)(in->at - in->start),
                                 "nested too deeply");

    size_t known = type->field_count;
    size_t count = item.argument < known ? (size_t)item.argument : known;

    for (size_t i = 0; i < count; i++) {
        i = read_numbers(in, type, i, count, value);
        if (i == count) break;

        const tr_field *field = &type->fields[i];
        tri_codec_path here = {path, field->name, 0};
        TR_TRY(read_field(in, field, value + field->offset, depth, &here));
    }
    if (item.argument == count) return TR_OK;
    return skip_fields(in, item.argument - count, path);
}

/* Reads the message and makes sure that nothing follows it. */
static tr_err read_all(reader *in, const tr_type *type, void *value)
{
    head item;

    if (left(in) > in->run.limits.size)
        return tri_decoding_fail(&in->run, TR_ELIMIT, NULL, 0,
                                 "more than %zu bytes", in->run.limits.size);
    if (!read_head(in, &item)) return fail_short(in, NULL);
    TR_TRY(read_message(in, type, item, value, 0, NULL));
    if (left(in) > 0)
        return tri_decoding_fail(&in->run, TR_EINVAL, NULL,
                                 (size_t)(in->at - in->start),
                                 "bytes after the end of the message");
    return TR_OK;
}

tr_err tri_binary_read(const tr_type *type, void *value, const void *bytes,
                       size_t size, const tri_codec *codec,
                       tri_codec_error *error)
{
    TRI_CHECK(type != NULL);
    TRI_CHECK(value != NULL || type->size == 0);
    TRI_CHECK(bytes != NULL || size == 0);

    static const uint8_t none[1];
    const uint8_t *start = size == 0 ? none : bytes;
    reader in = {.start = start, .at = start, .end = start + size};

    tri_decoding_init(&in.run, codec, error);
    if (type->size > 0) memset(value, 0, type->size);
    tr_err err = read_all(&in, type, value);

    if (err != TR_OK) tri_value_release(type, value, in.run.mem);
    return err;
}

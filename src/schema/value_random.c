/*
 * value_random.c - random values of any type.
 *
 * Invariant: tri_value_release can free the value at any moment: a piece is
 * stored as soon as it is allocated, with zeroed elements.
 */
#include "schema/value_random.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "schema/blob.h"
#include "schema/field.h"
#include "schema/scalar.h"
#include "schema/utf8.h"
#include "schema/value.h"
#include "troupe/message.h"

#define TEXT_DEFAULT  24
#define COUNT_DEFAULT 4

typedef struct maker {
    tri_rand *rand;
    tri_random_limits limits;
    const tri_allocator *mem;
} maker;

static uint64_t below(maker *m, uint64_t limit)
{
    return tri_rand_below(m->rand, limit);
}

/* Returns 64 bits: often 0, all ones, small, or a power of two. */
static uint64_t make_bits(maker *m)
{
    uint64_t bits = tri_rand_next(m->rand);

    switch (below(m, 8)) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX;
    case 2:
        return below(m, 4);
    case 3:
        return UINT64_C(1) << below(m, 64);
    case 4:
        return (UINT64_C(1) << below(m, 64)) - 1;
    default:
        return bits >> below(m, 64);
    }
}

static double make_float(maker *m)
{
    static const double edges[] = {0.0, -0.0, 1.0,    -1.0,
                                   0.1, 1e15, 5e-324, 1.7976931348623157e308,
                                   0.3, 1e-7};
    double value;
    uint64_t bits;

    switch (below(m, 4)) {
    case 0:
        return edges[below(m, TRI_COUNT_OF(edges))];
    case 1:
        return (double)(int64_t)make_bits(m) / 1000;
    case 2:
        return (double)below(m, 1000000) / 100;
    default:
        bits = tri_rand_next(m->rand);
        memcpy(&value, &bits, sizeof(value));
        return value;
    }
}

static void put_float(maker *m, char *at, size_t size)
{
    double value = make_float(m);

    if (size == sizeof(float)) {
        // Most doubles are too large for a float: replace those.
        if (isfinite(value) && fabs(value) > 1e38)
            value = 1.0 / (double)(1 + below(m, 99));
        value = (double)(float)value;
    }
    if (!m->limits.any_floats && !isfinite(value)) value = 0.5;
    tri_store_float(at, size, value);
}

static tr_err make_piece(maker *m, void **out, size_t size)
{
    TRI_CHECK(out != NULL);
    *out = tri_piece_alloc(m->mem, size > 0 ? size : 1);
    if (*out == NULL) return TR_ENOMEM;
    memset(*out, 0, size);
    return TR_OK;
}

static void fill_bytes(maker *m, unsigned char *at, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        at[i] = (unsigned char)tri_rand_next(m->rand);
    }
}

/* Returns a character of any UTF-8 length, often one that JSON escapes. */
static uint32_t make_character(maker *m)
{
    static const char special[] = "\"\\/\b\f\n\r\t\x01\x1f\x7f";

    switch (below(m, 8)) {
    case 0:
        return (uint32_t)special[below(m, sizeof(special) - 1)];
    case 1:
        return (uint32_t)(0x80 + below(m, 0x780));
    case 2:
        return (uint32_t)(0x800 + below(m, 0xd000));
    case 3:
        return (uint32_t)(0x10000 + below(m, 0x100000));
    default:
        return (uint32_t)(' ' + below(m, 95));
    }
}

static tr_err make_text(maker *m, char *at)
{
    size_t size = below(m, m->limits.text + 1);
    size_t length = 0;
    void *piece;

    if (below(m, 8) == 0) return TR_OK;
    TR_TRY(make_piece(m, &piece, size + 1));
    tri_store_pointer(at, piece);
    while (length + 4 <= size) {
        length += tri_utf8_write((char *)piece + length, make_character(m));
    }
    return TR_OK;
}

static tr_err make_bytes(maker *m, char *at)
{
    size_t size = below(m, m->limits.text + 1);
    void *piece;

    if (size == 0) return TR_OK;
    TR_TRY(make_piece(m, &piece, size));
    fill_bytes(m, piece, size);
    tri_store_seq(at, (tri_seq){piece, size});
    return TR_OK;
}

static tr_err make_blob(maker *m, char *at)
{
    size_t size = below(m, m->limits.text + 1);
    tr_blob blob;
    void *bytes;

    if (below(m, 4) == 0) return TR_OK;
    TR_TRY(tri_blob_make(&blob, size, &bytes, m->mem));
    fill_bytes(m, bytes, size);
    tri_store_blob(at, blob);
    return TR_OK;
}

static tr_err make_message(maker *m, const tr_type *type, char *value);
static tr_err make_field(maker *m, const tr_field *field, char *at);

static tr_err make_elements(maker *m, const tr_field *field, char *at)
{
    tr_field element = tri_field_element(field);
    size_t count = below(m, m->limits.count + 1);
    void *elements = at;

    if (field->kind == TR_KIND_FIXED) {
        count = field->size / element.size;
    } else if (field->kind == TR_KIND_OPTIONAL) {
        count = below(m, 2);
        if (count > 0) tri_optional_set(&element, at);
    } else if (count > 0) {
        TR_TRY(make_piece(m, &elements, count * element.size));
        tri_store_seq(at, (tri_seq){elements, count});
    }
    for (size_t i = 0; i < count; i++) {
        TR_TRY(make_field(m, &element, (char *)elements + i * element.size));
    }
    return TR_OK;
}

static tr_err make_field(maker *m, const tr_field *field, char *at)
{
    uint64_t bits;

    switch (field->kind) {
    case TR_KIND_BOOL:
        tri_store_uint(at, 1, below(m, 2));
        return TR_OK;
    case TR_KIND_INT:
    case TR_KIND_UINT:
        bits = make_bits(m);
        memcpy(at, &bits, field->size);
        return TR_OK;
    case TR_KIND_FLOAT:
        put_float(m, at, field->size);
        return TR_OK;
    case TR_KIND_REF:
        return TR_OK;
    case TR_KIND_NESTED:
        return make_message(m, field->type, at);
    case TR_KIND_TEXT:
        return make_text(m, at);
    case TR_KIND_BYTES:
        return make_bytes(m, at);
    case TR_KIND_BLOB:
        return make_blob(m, at);
    default:
        return make_elements(m, field, at);
    }
}

static tr_err make_message(maker *m, const tr_type *type, char *value)
{
    for (size_t i = 0; i < type->field_count; i++) {
        const tr_field *field = &type->fields[i];
        TR_TRY(make_field(m, field, value + field->offset));
    }
    return TR_OK;
}

tr_err tri_value_random(const tr_type *type, tri_rand *rand, void *value,
                        const tri_random_limits *limits,
                        const tri_allocator *mem)
{
    TRI_CHECK(type != NULL);
    TRI_CHECK(rand != NULL);
    TRI_CHECK(value != NULL || type->size == 0);
    maker m = {.rand = rand, .mem = mem};

    if (limits != NULL) m.limits = *limits;
    if (m.limits.text == 0) m.limits.text = TEXT_DEFAULT;
    if (m.limits.count == 0) m.limits.count = COUNT_DEFAULT;
    if (type->size == 0) return TR_OK;
    memset(value, 0, type->size);
    tr_err err = make_message(&m, type, value);

    if (err != TR_OK) tri_value_release(type, value, mem);
    return err;
}

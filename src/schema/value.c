/*
 * value.c - copies, compares and releases values through their field tables.
 *
 * Invariant: while a value is being made, each pointer in it is NULL or an
 * owned piece, and the count of a sequence is set together with its pointer,
 * after its elements have been zeroed. So tri_value_release also frees a
 * half-made value, and every failure ends with it.
 */
#include "schema/value.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "schema/blob.h"
#include "schema/field.h"
#include "schema/scalar.h"
#include "troupe/message.h"

static tr_err copy_message(const tr_type *type, char *dst, const char *src,
                           unsigned depth, const tri_allocator *mem);

/*
 * Allocates a piece of count elements: a copy of `from`, or zeroed if `from` is
 * NULL. *out is NULL only if count is 0, even if the elements have size 0.
 */
static tr_err make_piece(void **out, const void *from, size_t count,
                         size_t size, const tri_allocator *mem)
{
    size_t bytes;

    *out = NULL;
    if (__builtin_mul_overflow(count, size, &bytes)) return TR_ENOMEM;
    if (count == 0) return TR_OK;
    *out = tri_piece_alloc(mem, bytes > 0 ? bytes : 1);
    if (*out == NULL) return TR_ENOMEM;
    if (from != NULL) {
        memcpy(*out, from, bytes);
    } else {
        memset(*out, 0, bytes);
    }
    return TR_OK;
}

static tr_err copy_text(char *dst, const char *text, const tri_allocator *mem)
{
    void *piece = NULL;

    if (text != NULL)
        TR_TRY(make_piece(&piece, text, strlen(text) + 1, 1, mem));
    tri_store_pointer(dst, piece);
    return TR_OK;
}

static tr_err copy_field(const tr_field *field, char *dst, const char *src,
                         unsigned depth, const tri_allocator *mem);

static tr_err copy_elements(const tr_field *field, char *dst, const char *src,
                            unsigned depth, const tri_allocator *mem)
{
    tr_field element = tri_field_element(field);
    tri_seq seq = tri_field_elements(field, &element, src);
    bool plain = tri_field_is_plain(&element);
    void *elements = dst;

    if (field->kind == TR_KIND_OPTIONAL) {
        if (seq.count > 0) tri_optional_set(&element, dst);
    } else if (field->kind != TR_KIND_FIXED) {
        TR_TRY(make_piece(&elements, plain ? seq.at : NULL, seq.count,
                          element.size, mem));
        tri_store_seq(dst, (tri_seq){elements, seq.count});
    }
    if (plain) return TR_OK;
    for (size_t i = 0; i < seq.count; i++) {
        TR_TRY(copy_field(&element, (char *)elements + i * element.size,
                          (const char *)seq.at + i * element.size, depth, mem));
    }
    return TR_OK;
}

static tr_err copy_field(const tr_field *field, char *dst, const char *src,
                         unsigned depth, const tri_allocator *mem)
{
    if (tri_field_is_plain(field)) {
        memcpy(dst, src, field->size);
        return TR_OK;
    }
    switch (field->kind) {
    case TR_KIND_NESTED:
        return copy_message(field->type, dst, src, depth + 1, mem);
    case TR_KIND_TEXT:
        return copy_text(dst, tri_load_pointer(src), mem);
    case TR_KIND_BYTES: {
        tri_seq seq = tri_load_seq(src);
        void *piece;
        TR_TRY(make_piece(&piece, seq.at, seq.count, 1, mem));
        tri_store_seq(dst, (tri_seq){piece, seq.count});
        return TR_OK;
    }
    case TR_KIND_BLOB:
        tri_blob_hold(tri_load_blob(src));
        tri_store_blob(dst, tri_load_blob(src));
        return TR_OK;
    default:
        return copy_elements(field, dst, src, depth, mem);
    }
}

static tr_err copy_message(const tr_type *type, char *dst, const char *src,
                           unsigned depth, const tri_allocator *mem)
{
    if (depth > TRI_DEPTH_MAX) return TR_ELIMIT;
    for (size_t i = 0; i < type->field_count; i++) {
        const tr_field *field = &type->fields[i];
        TR_TRY(copy_field(field, dst + field->offset, src + field->offset,
                          depth, mem));
    }
    return TR_OK;
}

tr_err tri_value_copy(const tr_type *type, void *dst, const void *src,
                      const tri_allocator *mem)
{
    TRI_CHECK(type != NULL);
    TRI_CHECK(dst != src || type->size == 0);
    TRI_CHECK(src != NULL || type->size == 0);
    if (type->size == 0) return TR_OK;

    memset(dst, 0, type->size);
    tr_err err = copy_message(type, dst, src, 0, mem);

    if (err != TR_OK) tri_value_release(type, dst, mem);
    return err;
}

tr_err tri_unpack_owned(const tr_type *type, void *out, const void *src)
{
    return tri_value_copy(type, out, src, NULL);
}

static void release_elements(const tr_field *field, char *at,
                             const tri_allocator *mem)
{
    tr_field element = tri_field_element(field);
    tri_seq seq = tri_field_elements(field, &element, at);

    if (!tri_field_is_plain(&element)) {
        for (size_t i = 0; i < seq.count; i++) {
            tri_field_release(&element, (char *)seq.at + i * element.size, mem);
        }
    }
    if (!tri_field_is_inline(field)) tri_piece_release(mem, seq.at);
}

static void release_message(const tr_type *type, char *at,
                            const tri_allocator *mem)
{
    for (size_t i = 0; i < type->field_count; i++) {
        const tr_field *field = &type->fields[i];
        if (!tri_field_is_plain(field))
            tri_field_release(field, at + field->offset, mem);
    }
}

void tri_field_release(const tr_field *field, void *at,
                       const tri_allocator *mem)
{
    TRI_CHECK(at != NULL);
    if (!tri_field_is_plain(field)) {
        switch (field->kind) {
        case TR_KIND_NESTED:
            release_message(field->type, at, mem);
            break;
        case TR_KIND_TEXT:
            tri_piece_release(mem, tri_load_pointer(at));
            break;
        case TR_KIND_BYTES:
            tri_piece_release(mem, tri_load_seq(at).at);
            break;
        case TR_KIND_BLOB:
            tri_blob_drop(tri_load_blob(at));
            break;
        default:
            release_elements(field, at, mem);
            break;
        }
    }
    memset(at, 0, field->size);
}

void tri_value_release(const tr_type *type, void *value,
                       const tri_allocator *mem)
{
    TRI_CHECK(type != NULL);
    if (type->size == 0) return;
    TRI_CHECK(value != NULL);
    release_message(type, value, mem);
    memset(value, 0, type->size);
}

// In parentheses, because message.h has a macro of this name.
void(tr_drop)(const tr_type *type, void *value)
{
    tri_value_release(type, value, NULL);
}

static bool equal_field(const tr_field *field, const char *a, const char *b);

static bool equal_text(const char *a, const char *b)
{
    if (a == NULL || b == NULL) return a == b;
    return strcmp(a, b) == 0;
}

static bool equal_blob(tr_blob a, tr_blob b)
{
    if (a.body == b.body) return true;
    if (a.body == NULL || b.body == NULL) return false;

    tr_bytes x = tr_blob_bytes(a);
    tr_bytes y = tr_blob_bytes(b);

    return x.size == y.size && memcmp(x.at, y.at, x.size) == 0;
}

static bool equal_float(size_t size, const char *a, const char *b)
{
    if (memcmp(a, b, size) == 0) return true;
    if (size == sizeof(float)) {
        float x, y;
        memcpy(&x, a, size);
        memcpy(&y, b, size);
        return isnan(x) && isnan(y);
    }
    double x, y;
    memcpy(&x, a, size);
    memcpy(&y, b, size);
    return isnan(x) && isnan(y);
}

static bool equal_elements(const tr_field *field, const char *a, const char *b)
{
    tr_field element = tri_field_element(field);
    tri_seq x = tri_field_elements(field, &element, a);
    tri_seq y = tri_field_elements(field, &element, b);

    if (x.count != y.count) return false;
    for (size_t i = 0; i < x.count; i++) {
        if (!equal_field(&element, (const char *)x.at + i * element.size,
                         (const char *)y.at + i * element.size)) {
            return false;
        }
    }
    return true;
}

static bool equal_field(const tr_field *field, const char *a, const char *b)
{
    switch (field->kind) {
    case TR_KIND_BOOL:
    case TR_KIND_INT:
    case TR_KIND_UINT:
    case TR_KIND_REF:
        return memcmp(a, b, field->size) == 0;
    case TR_KIND_FLOAT:
        return equal_float(field->size, a, b);
    case TR_KIND_NESTED:
        return tri_value_equal(field->type, a, b);
    case TR_KIND_TEXT:
        return equal_text(tri_load_pointer(a), tri_load_pointer(b));
    case TR_KIND_BYTES: {
        tri_seq x = tri_load_seq(a);
        tri_seq y = tri_load_seq(b);
        return x.count == y.count &&
               (x.count == 0 || memcmp(x.at, y.at, x.count) == 0);
    }
    case TR_KIND_BLOB:
        return equal_blob(tri_load_blob(a), tri_load_blob(b));
    default:
        return equal_elements(field, a, b);
    }
}

bool tri_value_equal(const tr_type *type, const void *a, const void *b)
{
    TRI_CHECK(type != NULL);
    TRI_CHECK((a != NULL && b != NULL) || type->size == 0);
    for (size_t i = 0; i < type->field_count; i++) {
        const tr_field *field = &type->fields[i];
        if (!equal_field(field, (const char *)a + field->offset,
                         (const char *)b + field->offset)) {
            return false;
        }
    }
    return true;
}

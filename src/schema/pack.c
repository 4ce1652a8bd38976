/*
 * pack.c - copies a value and everything it points to into one block.
 *
 * tri_pack copies the struct first. Then it follows each pointer in the copy
 * once, appends what it points to to the tail, and sets the pointer to that
 * piece. The elements of a list are appended as one piece and then treated the
 * same way, so their text comes after the list.
 *
 * Invariant: size_of_* and pack_* visit the same pieces in the same order, so
 * the tail is filled exactly.
 */
#include "schema/pack.h"

#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "schema/blob.h"
#include "schema/scalar.h"
#include "troupe/message.h"

/* Rounds a size up to TRI_PACK_ALIGN. */
static size_t padded(size_t size)
{
    return (size + TRI_PACK_ALIGN - 1) & ~(TRI_PACK_ALIGN - 1);
}

/*
 * Adds the size of a piece of count elements to *total. Returns false if the
 * tail would be too large.
 */
static bool add_piece(size_t *total, size_t count, size_t size)
{
    size_t piece;

    if (__builtin_mul_overflow(count, size, &piece)) return false;
    if (piece > TRI_PACK_MAX) return false;
    *total += padded(piece);
    return *total <= TRI_PACK_MAX;
}

static bool size_of_message(const tr_type *type, const char *at, unsigned depth,
                            size_t *total);

static bool size_of_field(const tr_field *field, const char *at, unsigned depth,
                          size_t *total)
{
    TRI_CHECK_SLOW(at != NULL);
    if (tri_field_is_plain(field)) return true;

    switch (field->kind) {
    case TR_KIND_NESTED:
        return size_of_message(field->type, at, depth + 1, total);
    case TR_KIND_TEXT: {
        const char *text = tri_load_pointer(at);
        return text == NULL || add_piece(total, strlen(text) + 1, 1);
    }
    case TR_KIND_BYTES:
        return add_piece(total, tri_load_seq(at).count, 1);
    case TR_KIND_BLOB:
        return true;
    default:
        break;
    }

    tr_field element = tri_field_element(field);
    tri_seq seq = tri_field_elements(field, &element, at);

    if (!tri_field_is_inline(field) &&
        !add_piece(total, seq.count, element.size)) {
        return false;
    }
    if (tri_field_is_plain(&element)) return true;
    for (size_t i = 0; i < seq.count; i++) {
        if (!size_of_field(&element, (const char *)seq.at + i * element.size,
                           depth, total)) {
            return false;
        }
    }
    return true;
}

static bool size_of_message(const tr_type *type, const char *at, unsigned depth,
                            size_t *total)
{
    TRI_CHECK_SLOW(type != NULL);
    if (depth > TRI_PACK_DEPTH_MAX) return false;
    for (size_t i = 0; i < type->field_count; i++) {
        const tr_field *field = &type->fields[i];
        if (!size_of_field(field, at + field->offset, depth, total))
            return false;
    }
    return true;
}

size_t tri_pack_size(const tr_type *type, const void *value)
{
    size_t total = 0;

    TRI_CHECK(type != NULL);
    TRI_CHECK(value != NULL || type->size == 0);
    return size_of_message(type, value, 0, &total) ? total : SIZE_MAX;
}

/* Appends a piece to the tail and returns its address. */
static char *append(char **tail, const void *from, size_t size)
{
    char *at = *tail;

    memcpy(at, from, size);
    *tail += padded(size);
    return at;
}

static void pack_message(const tr_type *type, char *at, char **tail);

static void pack_field(const tr_field *field, char *at, char **tail)
{
    if (tri_field_is_plain(field)) return;

    switch (field->kind) {
    case TR_KIND_NESTED:
        pack_message(field->type, at, tail);
        return;
    case TR_KIND_TEXT: {
        const char *text = tri_load_pointer(at);
        if (text != NULL)
            tri_store_pointer(at, append(tail, text, strlen(text) + 1));
        return;
    }
    case TR_KIND_BYTES: {
        tri_seq seq = tri_load_seq(at);
        if (seq.count > 0) seq.at = append(tail, seq.at, seq.count);
        tri_store_seq(at, seq);
        return;
    }
    case TR_KIND_BLOB:
        tri_blob_hold(tri_load_blob(at));
        return;
    default:
        break;
    }

    tr_field element = tri_field_element(field);
    tri_seq seq = tri_field_elements(field, &element, at);
    char *elements = at;

    if (!tri_field_is_inline(field)) {
        elements = NULL;
        if (seq.count > 0)
            elements = append(tail, seq.at, seq.count * element.size);
        tri_store_seq(at, (tri_seq){elements, seq.count});
    }
    // An absent value may contain stale pointers; the copy must not.
    if (field->kind == TR_KIND_OPTIONAL && seq.count == 0)
        memset(at, 0, field->size);
    if (tri_field_is_plain(&element)) return;
    for (size_t i = 0; i < seq.count; i++) {
        pack_field(&element, elements + i * element.size, tail);
    }
}

static void pack_message(const tr_type *type, char *at, char **tail)
{
    for (size_t i = 0; i < type->field_count; i++) {
        const tr_field *field = &type->fields[i];
        pack_field(field, at + field->offset, tail);
    }
}

void tri_pack(const tr_type *type, void *dst, const void *src, void *tail)
{
    TRI_CHECK(type != NULL);
    TRI_CHECK(dst != NULL || type->size == 0);
    TRI_CHECK(src != NULL || type->size == 0);
    TRI_CHECK((uintptr_t)tail % TRI_PACK_ALIGN == 0);

    char *end = tail;

    if (type->size > 0) memcpy(dst, src, type->size);
    pack_message(type, dst, &end);
}

static bool message_has_blobs(const tr_type *type, unsigned depth);

/* Returns true if values of the field may contain blobs. */
static bool field_has_blobs(const tr_field *field, unsigned depth)
{
    if (tri_field_is_plain(field)) return false;
    if (field->type != NULL) return message_has_blobs(field->type, depth + 1);
    return field->kind == TR_KIND_BLOB ||
           (field->element & 0xff) == TR_KIND_BLOB;
}

static bool message_has_blobs(const tr_type *type, unsigned depth)
{
    if (depth > TRI_PACK_DEPTH_MAX || type->var_count == 0) return false;
    for (size_t i = 0; i < type->field_count; i++) {
        if (field_has_blobs(&type->fields[i], depth)) return true;
    }
    return false;
}

bool tri_pack_has_blobs(const tr_type *type)
{
    TRI_CHECK(type != NULL);
    return message_has_blobs(type, 0);
}

static void release_field(const tr_field *field, char *at)
{
    // Asks the type first, so that lists without blobs are not walked.
    if (!field_has_blobs(field, 0)) return;

    if (field->kind == TR_KIND_NESTED) {
        tri_pack_release(field->type, at);
        return;
    }
    if (field->kind == TR_KIND_BLOB) {
        tri_blob_drop(tri_load_blob(at));
        tri_store_blob(at, (tr_blob){NULL});
        return;
    }

    tr_field element = tri_field_element(field);
    tri_seq seq = tri_field_elements(field, &element, at);

    for (size_t i = 0; i < seq.count; i++) {
        release_field(&element, (char *)seq.at + i * element.size);
    }
}

void tri_pack_release(const tr_type *type, void *value)
{
    TRI_CHECK(type != NULL);
    if (type->var_count == 0) return;
    TRI_CHECK(value != NULL);
    for (size_t i = 0; i < type->field_count; i++) {
        const tr_field *field = &type->fields[i];
        release_field(field, (char *)value + field->offset);
    }
}

/*
 * field.h - reads a value through its field table.
 *
 * Values are handled as bytes: pointers and counts are loaded and stored with
 * memcpy, because the structs that TR_MESSAGE declares for lists and arrays
 * have no common type. tri_field_element describes an element of a list, an
 * array or a fixed array as a field, so that the same functions handle fields
 * and elements. An optional field is treated as a sequence of 0 or 1 elements
 * inside the struct.
 *
 * Threads: any; nothing here has state.
 */
#ifndef TRI_SCHEMA_FIELD_H
#define TRI_SCHEMA_FIELD_H

#include <string.h>
#include <troupe/message.h>

#include "base/check.h"

/* The deepest nesting of messages, in fields or lists, that is supported. */
#define TRI_DEPTH_MAX 32u

/* The two words of every list, array and tr_bytes. */
typedef struct tri_seq {
    const void *at;
    size_t count;
} tri_seq;

_Static_assert(sizeof(tri_seq) == sizeof(tr_bytes), "bytes are a sequence");

static inline const void *tri_load_pointer(const void *at)
{
    const void *pointer;

    memcpy(&pointer, at, sizeof(pointer));
    return pointer;
}

static inline void tri_store_pointer(void *at, const void *pointer)
{
    memcpy(at, &pointer, sizeof(pointer));
}

/* Loads a sequence; `at` of an empty one is NULL, whatever was stored. */
static inline tri_seq tri_load_seq(const void *at)
{
    tri_seq seq;

    memcpy(&seq, at, sizeof(seq));
    if (seq.count == 0) seq.at = NULL;
    TRI_CHECK(seq.count == 0 || seq.at != NULL);
    return seq;
}

static inline void tri_store_seq(void *at, tri_seq seq)
{
    memcpy(at, &seq, sizeof(seq));
}

/*
 * Returns the description of an element of a list, array or fixed array, or of
 * the value of an optional field.
 */
static inline tr_field tri_field_element(const tr_field *field)
{
    tr_field element = {.name = field->name};

    if (field->type != NULL) {
        element.kind = TR_KIND_NESTED;
        element.type = field->type;
        element.size = field->type->size;
        return element;
    }
    element.kind = field->element & 0xff;
    element.size = field->element >> 8;
    TRI_CHECK(element.kind != 0);
    TRI_CHECK(element.size != 0);
    return element;
}

/* Returns true for kinds without pointers: numbers, bool and refs. */
static inline bool tri_kind_is_plain(unsigned kind)
{
    return kind <= TR_KIND_REF;
}

/* Returns true if a copy of the field's bytes is a copy of its value. */
static inline bool tri_field_is_plain(const tr_field *field)
{
    if (field->kind == TR_KIND_NESTED) {
        TRI_CHECK_SLOW(field->type != NULL);
        return field->type->var_count == 0;
    }
    if (field->kind == TR_KIND_FIXED)
        return tri_kind_is_plain(field->element & 0xff);
    if (field->kind == TR_KIND_OPTIONAL)
        return field->type != NULL ? field->type->var_count == 0
                                   : tri_kind_is_plain(field->element & 0xff);
    return tri_kind_is_plain(field->kind);
}

/* Returns true if the elements of a sequence are in the struct itself. */
static inline bool tri_field_is_inline(const tr_field *field)
{
    return field->kind == TR_KIND_FIXED || field->kind == TR_KIND_OPTIONAL;
}

/* Returns true if the optional at `at` is present; a flag follows its value. */
static inline bool tri_optional_has(const tr_field *element, const void *at)
{
    return ((const char *)at)[element->size] != 0;
}

/* Marks an optional as present, before its value is filled in. */
static inline void tri_optional_set(const tr_field *element, void *at)
{
    bool has = true;

    memcpy((char *)at + element->size, &has, sizeof(has));
}

/*
 * Returns the elements of the list, array or fixed array at `at`, or the 0 or 1
 * values of an optional field.
 */
static inline tri_seq tri_field_elements(const tr_field *field,
                                         const tr_field *element,
                                         const void *at)
{
    if (field->kind == TR_KIND_FIXED)
        return (tri_seq){at, field->size / element->size};
    if (field->kind == TR_KIND_OPTIONAL)
        return (tri_seq){at, tri_optional_has(element, at) ? 1 : 0};
    return tri_load_seq(at);
}

#endif

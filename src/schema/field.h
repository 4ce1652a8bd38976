/*
 * field.h - how the code of this folder reads a value through its field table.
 *
 * Values are seen as bytes: pointers and counts are loaded and stored with
 * memcpy, because the structs that TR_MESSAGE declares for lists and arrays
 * have no common type. An element of a list, an array or a fixed array is
 * described by a field of its own (tri_field_element), so that one function
 * per job handles fields and elements alike. An optional field is a sequence
 * in line, of no element or one.
 *
 * Threads: any; nothing here has state.
 */
#ifndef TRI_SCHEMA_FIELD_H
#define TRI_SCHEMA_FIELD_H

#include <string.h>

#include <troupe/message.h>

#include "base/check.h"

/* Messages inside messages, lists of them included, that any code follows. */
#define TRI_DEPTH_MAX 32u

/* The two words of a list, an array and tr_bytes. */
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

/* A sequence without elements has no address, whatever was written there. */
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

/* Describes an element of a list or (fixed) array, or what is optional. */
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

/* True for kinds whose bytes are the whole value: numbers, bool and refs. */
static inline bool tri_kind_is_plain(unsigned kind)
{
    return kind <= TR_KIND_REF;
}

/* True if a copy of the field's bytes is a copy of its value. */
static inline bool tri_field_is_plain(const tr_field *field)
{
    if (field->kind == TR_KIND_NESTED) return field->type->var_count == 0;
    if (field->kind == TR_KIND_FIXED)
        return tri_kind_is_plain(field->element & 0xff);
    if (field->kind == TR_KIND_OPTIONAL)
        return field->type != NULL ? field->type->var_count == 0
                                   : tri_kind_is_plain(field->element & 0xff);
    return tri_kind_is_plain(field->kind);
}

/* True if the elements are in the struct itself. */
static inline bool tri_field_is_inline(const tr_field *field)
{
    return field->kind == TR_KIND_FIXED || field->kind == TR_KIND_OPTIONAL;
}

/* Whether the optional at `at` is there; the flag is behind its value. */
static inline bool tri_optional_has(const tr_field *element, const void *at)
{
    return ((const char *)at)[element->size] != 0;
}

/* Says that it is there: before its value is made, which is zero until then. */
static inline void tri_optional_set(const tr_field *element, void *at)
{
    bool has = true;

    memcpy((char *)at + element->size, &has, sizeof(has));
}

/* The elements of a list or (fixed) array at `at`, or what is optional. */
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

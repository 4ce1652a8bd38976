/*
 * value.h - values that own their pieces: copy, compare, release.
 *
 * Outside a handler a value is not one block: each text and each sequence it
 * points to is a piece with its own allocation, which the field table finds
 * again. So there is no hidden pointer beside the struct, and the caller may
 * move the struct until tr_drop ends it.
 *
 * Threads: any; one thread at a time uses a value.
 * Ownership: a value made here owns its pieces and shares its blobs.
 */
#ifndef TRI_SCHEMA_VALUE_H
#define TRI_SCHEMA_VALUE_H

#include <stdbool.h>
#include <troupe/message.h>

#include "schema/allocator.h"
#include "troupe/base.h"

/*
 * Makes *dst a deep copy of *src, with pieces from mem (NULL: malloc, and
 * tr_drop ends the copy); padding is zero. On failure *dst is zero and its
 * pieces are freed, unless mem has no release.
 * Errors: TR_ENOMEM, TR_ELIMIT (nested deeper than TRI_DEPTH_MAX).
 */
tr_err tri_value_copy(const tr_type *type, void *dst, const void *src,
                      const tri_allocator *mem);

/* Copies a value with malloc, for a caller outside of actors. */
tr_err tri_unpack_owned(const tr_type *type, void *out, const void *src);

/* Frees the pieces of a value that was made with mem, and zeroes it. */
void tri_value_release(const tr_type *type, void *value,
                       const tri_allocator *mem);

/* Like tri_value_release, for one field or element at `at`. */
void tri_field_release(const tr_field *field, void *at,
                       const tri_allocator *mem);

/*
 * Returns true if both values are equal. Texts are equal by content, and NULL
 * equals only NULL. Floats are equal by their bits, so 0.0 and -0.0 differ, but
 * every NaN equals every other.
 */
bool tri_value_equal(const tr_type *type, const void *a, const void *b);

#endif

/*
 * value.h - values that own their pieces: copy, compare, release.
 *
 * Outside a handler a value is not one block: each text, each sequence and
 * each blob it points to is a piece of its own, found again through the field
 * table. That needs no hidden pointer beside the struct, and a caller may copy
 * the struct about freely before tr_drop ends it.
 *
 * Threads: any; a value is its caller's.
 * Ownership: a value made here owns its pieces and shares its blobs.
 */
#ifndef TRI_SCHEMA_VALUE_H
#define TRI_SCHEMA_VALUE_H

#include <troupe/message.h>

#include "schema/allocator.h"
#include "schema/field.h"

/*
 * Makes *dst a deep copy of *src, in memory from mem (NULL: malloc, to be
 * ended with tr_drop); padding is zero. On failure *dst is zero and nothing
 * is kept, except what a mem without release has given.
 * Errors: TR_ENOMEM, TR_ELIMIT (nested beyond TRI_DEPTH_MAX).
 */
tr_err tri_value_copy(const tr_type *type, void *dst, const void *src,
                      const tri_allocator *mem);

/* As tri_value_copy with malloc: fills a value for an outside caller. */
tr_err tri_unpack_owned(const tr_type *type, void *out, const void *src);

/* Ends the pieces of a value that was made with mem, and zeroes it. */
void tri_value_release(const tr_type *type, void *value,
                       const tri_allocator *mem);

/*
 * The same for one field or element at `at`; its bytes are then zero. The
 * decoders use it to give up a half-made piece.
 */
void tri_field_release(const tr_field *field, void *at,
                       const tri_allocator *mem);

/*
 * True if both are the same value: text by content, NULL text only like NULL,
 * floats by their bits, so 0.0 and -0.0 differ and any NaN equals any other.
 */
bool tri_value_equal(const tr_type *type, const void *a, const void *b);

#endif

/*
 * binary.h - the compact form of a value, for the wire and for processes.
 *
 * The format, which is documented in docs/design/0004-schema.md: each item
 * starts with one byte, a wire type in the low 3 bits and an argument in the
 * high 5: 0 to 23 is the argument itself, 24 to 31 says that 1 to 8 bytes of
 * it follow, lowest first.
 *
 *   0 none     the zero value: NULL text, nobody, an empty sequence, absent
 *   1 uint     the argument: bool and unsigned numbers
 *   2 sint     the argument, zigzag: 0, -1, 1, -2, ...
 *   3 float    4 or 8 in the high bits, and as many bytes
 *   4 bytes    a length and as many bytes: text, bytes, blobs, refs
 *   5 message  a number of fields and as many items, in the type's order
 *   6 list     a number of elements and as many items
 *   7 packed   a length and as many bytes: one that says kind and size of the
 *              elements, then these as they are in memory
 *
 * An optional field is none, or an item as if it were not optional; bytes that
 * are there and empty are bytes of length 0.
 *
 * An item can be skipped without knowing its type. So a reader skips fields
 * that were appended after its time, and leaves those at zero that the writer
 * did not know.
 *
 * Threads: any.
 */
#ifndef TRI_SCHEMA_BINARY_H
#define TRI_SCHEMA_BINARY_H

#include "schema/codec.h"

/*
 * Writes *value and returns the length that it needs, which may be more than
 * size: then buf holds a useless beginning. Only codec's refs are used.
 */
size_t tri_binary_write(const tr_type *type, const void *value, void *buf,
                        size_t size, const tri_codec *codec);

/*
 * Fills *value, which owns its pieces (tr_drop, or tri_value_release with
 * codec's mem). On failure *value is zero and *error, unless NULL, says why.
 * Errors: TR_EINVAL (not a value of this type), TR_ELIMIT, TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_binary_read(const tr_type *type, void *value,
                                    const void *bytes, size_t size,
                                    const tri_codec *codec,
                                    tri_codec_error *error);

#endif

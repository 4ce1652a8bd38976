/*
 * binary_wire.h - the compact form of a value, as binary_write.c writes it and
 * binary_read.c reads it.
 *
 * The form is also described in docs/design/0004-schema.md. Each item starts
 * with one byte: a wire type in the low 3 bits and an argument in the high 5.
 * The values 0 to 23 are the argument itself; 24 to 31 say that 1 to 8 bytes of
 * the argument follow, lowest first.
 *
 *   0 none     the zero value: NULL text, nobody, an empty sequence, absent
 *   1 uint     the argument: bool and unsigned numbers
 *   2 sint     the argument, zigzag: 0, -1, 1, -2, ...
 *   3 float    the size, 4 or 8, as argument, then that many bytes
 *   4 bytes    a length and that many bytes: text, bytes, blobs, refs
 *   5 message  the number of fields and an item for each, in the type's order
 *   6 list     the number of elements and an item for each
 *   7 packed   a length and that many bytes: one for the kind and size of the
 *              elements, then the elements as they are in memory
 *
 * An optional field is none if absent, otherwise the item of its value; bytes
 * that are present and empty are bytes of length 0.
 *
 * A reader can skip an item without knowing its type. So it skips fields that
 * were added to the type later, and leaves fields at zero that the writer did
 * not have.
 */
#ifndef TRI_SCHEMA_BINARY_WIRE_H
#define TRI_SCHEMA_BINARY_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include <troupe/message.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers are stored lowest byte first");

enum {
    TRI_WIRE_NONE,
    TRI_WIRE_UINT,
    TRI_WIRE_SINT,
    TRI_WIRE_FLOAT,
    TRI_WIRE_BYTES,
    TRI_WIRE_MESSAGE,
    TRI_WIRE_LIST,
    TRI_WIRE_PACKED,
};

#define TRI_WIRE_BITS 3
#define TRI_WIRE_MASK 7u
/* Arguments below this fit into the first byte. */
#define TRI_ARGUMENT_INLINE 24u
/* Size of the first byte and the longest argument. */
#define TRI_HEAD_MAX 9

/* Returns the first byte of packed elements: their kind and size. */
static inline uint8_t tri_packed_code(const tr_field *element)
{
    return (uint8_t)((unsigned)element->kind << 4 | element->size);
}

/*
 * Returns true if elements of this kind are packed: bool and numbers, but not
 * refs, whose bits mean nothing to another process.
 */
static inline bool tri_is_packed(const tr_field *element)
{
    return element->kind < TR_KIND_REF;
}

#endif

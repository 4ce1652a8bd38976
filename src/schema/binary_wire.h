/*
 * binary_wire.h - what the writer and the reader of the compact form share.
 * For binary_write.c and binary_read.c only; binary.h describes the form.
 *
 * Threads: none; constants.
 */
#ifndef TRI_SCHEMA_BINARY_WIRE_H
#define TRI_SCHEMA_BINARY_WIRE_H

#include "schema/binary.h"

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
/* Arguments below this are in the first byte. */
#define TRI_ARGUMENT_INLINE 24u
/* First byte and the longest argument. */
#define TRI_HEAD_MAX 9

/* The byte that begins packed elements: their kind and size. */
static inline uint8_t tri_packed_code(const tr_field *element)
{
    return (uint8_t)((unsigned)element->kind << 4 | element->size);
}

/* Refs are packed nowhere: their bits mean nothing on another side. */
static inline bool tri_is_packed(const tr_field *element)
{
    return element->kind < TR_KIND_REF;
}

#endif

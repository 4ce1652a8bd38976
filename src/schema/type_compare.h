/*
 * type_compare.h - compares type descriptions.
 *
 * Each source file that includes a message's declaration has its own tr_type.
 * If the schema hashes of two of them are equal, the types are very probably
 * the same; the first time two are met, they are compared in full, and the
 * result is remembered (core/cell).
 *
 * Threads: any; descriptions are constant.
 */
#ifndef TRI_SCHEMA_TYPE_COMPARE_H
#define TRI_SCHEMA_TYPE_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "troupe/base.h"

/*
 * Returns true if the bytes of a value of one type are a value of the other:
 * same name and size, and the same fields in the same order at the same
 * offsets, also in nested types. Types nested deeper than TRI_DEPTH_MAX are
 * never the same.
 */
bool tri_type_same(const tr_type *a, const tr_type *b);

/*
 * Writes the first difference, such as "Deposit.cents: kind", or an empty text
 * if the types are the same. Returns buf.
 */
const char *tri_type_difference(const tr_type *a, const tr_type *b, char *buf,
                                size_t size);

#endif

/*
 * same.h - whether two descriptions are of the same type.
 *
 * Each source file that sees a declaration has its own tr_type, and equal
 * schema hashes say that two of them very probably agree. Whoever meets a
 * pair for the first time compares them in full and remembers the answer.
 *
 * Threads: any; descriptions are constant.
 */
#ifndef TRI_SCHEMA_SAME_H
#define TRI_SCHEMA_SAME_H

#include <troupe/message.h>

/*
 * True if a value of one is a value of the other, bit for bit: same name,
 * size and fields in the same order and places, nested types likewise. Types
 * nested beyond TRI_DEPTH_MAX are not the same as any other.
 */
bool tri_type_same(const tr_type *a, const tr_type *b);

/*
 * Writes where two types differ first, such as "Deposit.cents: kind", and
 * returns buf. Empty when they are the same.
 */
const char *tri_type_difference(const tr_type *a, const tr_type *b, char *buf,
                                size_t size);

#endif

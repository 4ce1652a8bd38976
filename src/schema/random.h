/*
 * random.h - random values of any type, for tests.
 *
 * The same seed gives the same value everywhere. Numbers favour the edges:
 * zero, one, the largest and the smallest, powers of two.
 *
 * Threads: any; a tri_rand has one user.
 */
#ifndef TRI_SCHEMA_RANDOM_H
#define TRI_SCHEMA_RANDOM_H

#include "base/rand.h"
#include "schema/codec.h"

/* A field left zero takes the default named beside it. */
typedef struct tri_random_limits {
    size_t text;      // bytes of a text, of bytes or a blob; default 24
    size_t count;     // elements of a list or array; default 4
    bool any_floats;  // NaN and infinities too
} tri_random_limits;

/*
 * Fills *value at random; its pieces come from mem (NULL: malloc, tr_drop).
 * Texts are UTF-8. Refs are nobody: a random one would be an address. On
 * failure *value is zero. Errors: TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_value_random(const tr_type *type, tri_rand *rand,
                                     void *value,
                                     const tri_random_limits *limits,
                                     const tri_allocator *mem);

#endif

/*
 * value_random.h - random values of any type, for tests.
 *
 * A seed gives the same value everywhere. Numbers are often extreme: zero, one,
 * the largest and the smallest, powers of two.
 *
 * Threads: any; one thread at a time uses a tri_rand.
 */
#ifndef TRI_SCHEMA_VALUE_RANDOM_H
#define TRI_SCHEMA_VALUE_RANDOM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rand.h"
#include "schema/allocator.h"
#include "troupe/base.h"

/* Limits of a random value. 0 stands for the default named here. */
typedef struct tri_random_limits {
    size_t text;      // bytes of a text, of bytes or a blob; default 24
    size_t count;     // elements of a list or array; default 4
    bool any_floats;  // also NaN and infinities
} tri_random_limits;

/*
 * Fills *value at random, with pieces from mem (NULL: malloc, and tr_drop ends
 * the value). Texts are UTF-8. Refs are nobody, because a ref contains an
 * address. On failure *value is zero. Errors: TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_value_random(const tr_type *type, tri_rand *rand,
                                     void *value,
                                     const tri_random_limits *limits,
                                     const tri_allocator *mem);

#endif

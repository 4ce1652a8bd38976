/*
 * rand.h - seeded random numbers: a seed gives the same numbers everywhere.
 *
 * For decisions that a simulation must replay and for test data, never for
 * secrets. The generator is xoshiro256** of Blackman and Vigna ("Scrambled
 * Linear Pseudorandom Number Generators", 2021), seeded by a counter through
 * tri_hash_mix. The seeds come from the world.
 *
 * Threads: one thread at a time uses a generator.
 */
#ifndef TRI_BASE_RAND_H
#define TRI_BASE_RAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/hash.h"

typedef struct tri_rand {
    uint64_t word[4];  // never all zero
} tri_rand;

static inline void tri_rand_init(tri_rand *rand, uint64_t seed)
{
    // Mixed, so that the counters of neighbouring seeds do not overlap.
    uint64_t counter = tri_hash_mix(seed);

    // tri_hash_mix is one to one, so the four words differ: not all are zero.
    for (uint32_t i = 0; i < TRI_COUNT_OF(rand->word); i++) {
        rand->word[i] = tri_hash_mix(counter + i);
    }
}

static inline uint64_t tri_rand_rotate(uint64_t x, uint32_t bits)
{
    return x << bits | x >> (64 - bits);
}

static inline uint64_t tri_rand_next(tri_rand *rand)
{
    uint64_t *word = rand->word;
    uint64_t result = tri_rand_rotate(word[1] * 5, 7) * 9;
    uint64_t shifted = word[1] << 17;

    word[2] ^= word[0];
    word[3] ^= word[1];
    word[1] ^= word[2];
    word[0] ^= word[3];
    word[2] ^= shifted;
    word[3] = tri_rand_rotate(word[3], 45);
    return result;
}

/* Returns a number below `limit` (not 0); all are equally likely. */
static inline uint64_t tri_rand_below(tri_rand *rand, uint64_t limit)
{
    TRI_CHECK(limit > 0);
    // Draws below 2^64 mod limit are rejected, so the number of accepted draws
    // is a multiple of limit. Less than half are rejected: the loop is short.
    uint64_t reject = -limit % limit;
    uint64_t drawn;

    do {
        drawn = tri_rand_next(rand);
    } while (drawn < reject);
    return drawn % limit;
}

/*
 * Returns true with probability p: never if p <= 0, always if p >= 1. Draws one
 * number for every p, so a changed probability does not shift later draws.
 */
static inline bool tri_rand_chance(tri_rand *rand, double p)
{
    uint64_t drawn = tri_rand_next(rand) >> 11;  // 53 bits fit a double
    uint64_t whole = UINT64_C(1) << 53;

    if (p >= 1.0) {
        return true;
    }
    // The product only shifts the exponent, so it is exact everywhere.
    return p > 0.0 && drawn < (uint64_t)(p * (double)whole);
}

#endif

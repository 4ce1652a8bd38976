/*
 * hash.c - the hash of bytes.
 *
 * The bytes are read as little-endian words of 64 bits on every machine; zeros
 * fill the last word. Each word enters the state by an xor, a product with an
 * odd constant and an xor of the upper half into the lower. Each of these steps
 * is invertible, so two inputs of the same length that differ in one word never
 * collide. The length enters first, so "a" and "a\0" differ.
 */
#include "base/hash.h"

#include "base/check.h"

#define WORD_SIZE  sizeof(uint64_t)
#define MULTIPLIER UINT64_C(0x3c6ef372fe94f82b)  // fraction of square root of 5

static uint64_t fold(uint64_t state, uint64_t word)
{
    state = (state ^ word) * MULTIPLIER;
    return state ^ state >> 32;
}

/* Loads eight bytes; compilers make one load of it on little-endian CPUs. */
static uint64_t full_word(const unsigned char *at)
{
    return (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 |
           (uint64_t)at[3] << 24 | (uint64_t)at[4] << 32 |
           (uint64_t)at[5] << 40 | (uint64_t)at[6] << 48 |
           (uint64_t)at[7] << 56;
}

uint64_t tri_hash_bytes(const void *bytes, size_t size)
{
    TRI_CHECK(bytes != NULL || size == 0);
    const unsigned char *at = bytes;
    size_t left = size;
    uint64_t state = tri_hash_mix(size);

    for (; left >= WORD_SIZE; left -= WORD_SIZE, at += WORD_SIZE) {
        state = fold(state, full_word(at));
    }
    if (left > 0) {
        uint64_t word = 0;
        for (size_t i = 0; i < left; i++) {
            word |= (uint64_t)at[i] << (8 * i);
        }
        state = fold(state, word);
    }
    return tri_hash_mix(state);
}

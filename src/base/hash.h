/*
 * hash.h - 64-bit hashes that are the same on every machine and in every run.
 *
 * There is no seed, so an order that follows from these hashes can be replayed.
 * The price is that whoever chooses the keys can make them collide. Tables with
 * keys from outside therefore have limits, and placement in a cluster uses
 * another hash.
 *
 * Threads: any.
 */
#ifndef TRI_BASE_HASH_H
#define TRI_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/*
 * Spreads a number over all 64 bits. Different numbers have different results,
 * because each step is invertible: an addition, an xor of the upper bits into
 * the lower, a product with an odd constant. The constants are the first 64
 * bits of the fractions of well-known numbers; hash_test.c shows that they
 * spread well.
 */
static inline uint64_t tri_hash_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);  // golden ratio; maps 0 to non-zero
    x ^= x >> 32;
    x *= UINT64_C(0xbb67ae8584caa73b);  // square root of 3
    x ^= x >> 29;
    x *= UINT64_C(0xa54ff53a5f1d36f1);  // square root of 7
    x ^= x >> 32;
    return x;
}

/* Returns the hash of `size` bytes; `bytes` may be NULL if size is 0. */
uint64_t tri_hash_bytes(const void *bytes, size_t size);

#endif

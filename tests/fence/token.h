/*
 * token.h - a resource outside of the store that is guarded by tr_epoch.
 *
 * Each activation shows its epoch when it begins and before each use; the
 * resource refuses an epoch below the highest it has seen. That is how a
 * program is told to fence what it writes elsewhere. It fails if an activation
 * that was replaced shows an epoch that is not below that of its successor.
 *
 * Threads: any; also of several processes.
 */
#ifndef TEST_FENCE_TOKEN_H
#define TEST_FENCE_TOKEN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The highest epoch, with the number of its activation in the lowest bits. */
typedef _Atomic(uint64_t) token_guard;

enum { TOKEN_BITS = 22 };  // of the number; the rest holds a time in ms

static inline uint64_t token_number(uint64_t activation)
{
    return activation & ((UINT64_C(1) << TOKEN_BITS) - 1);
}

typedef enum token_use {
    TOKEN_TAKEN,
    TOKEN_REFUSED,   // a successor has begun with a higher epoch
    TOKEN_TOO_LATE,  // a successor has begun, and its epoch does not tell
} token_use;

/* Notes an activation, unless one with a higher epoch has begun before. */
static inline void token_begin(token_guard *it, uint32_t activation,
                               uint64_t epoch)
{
    uint64_t word = atomic_load(it);

    uint64_t mine = epoch << TOKEN_BITS | token_number(activation);
    while (word >> TOKEN_BITS <= epoch &&
           !atomic_compare_exchange_weak(it, &word, mine)) {
    }
}

/* Uses the resource. */
static inline token_use token_check(token_guard *it, uint32_t activation,
                                    uint64_t epoch)
{
    uint64_t word = atomic_load(it);

    if (token_number(word) == token_number(activation)) {
        return TOKEN_TAKEN;
    }
    return epoch < word >> TOKEN_BITS ? TOKEN_REFUSED : TOKEN_TOO_LATE;
}

#endif

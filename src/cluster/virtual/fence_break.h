/*
 * fence_break.h - switches that leave out parts of the fence, for the tests
 * that prove that each part is needed. All are off unless a test sets them.
 *
 * Threads: any.
 */
#ifndef TRI_CLUSTER_FENCE_BREAK_H
#define TRI_CLUSTER_FENCE_BREAK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    TRI_FENCE_BREAK_LOAD = 1,   // a load does not raise the store's fence
    TRI_FENCE_BREAK_EPOCH = 2,  // a view raises the epoch of all activations
    TRI_FENCE_BREAK_LEASE = 4,  // the lease is not checked
};

/* Part of tri_cluster and of tri_membership: TRI_FENCE_BREAK_*. */
typedef _Atomic(uint32_t) tri_fence_break;

static inline bool tri_fence_is_broken(tri_fence_break *it, uint32_t part)
{
    // Relaxed: a switch that orders nothing.
    return (atomic_load_explicit(it, memory_order_relaxed) & part) != 0;
}

static inline void tri_fence_break_set(tri_fence_break *it, uint32_t parts)
{
    // Relaxed: as in tri_fence_is_broken.
    atomic_store_explicit(it, parts, memory_order_relaxed);
}

#endif

/*
 * tally.c - histograms of times and depths, and the numbers of kinds.
 *
 * Buckets of time are log-linear: each power of two of nanoseconds, from
 * 2^TIME_FIRST to 2^TIME_LAST, in TIME_PARTS equal parts, so a bucket is at
 * most a quarter wider than its lower bound. Shorter times are in the first
 * bucket, longer ones in the last. Buckets of depth are powers of two. A bound
 * belongs to the bucket below it, as in Prometheus.
 *
 * Invariant: each counter has one writer, so an addition needs no exchange.
 */
#include "core/cell/tally.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/lock.h"
#include "core/cell/mem.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "troupe/observe.h"

enum {
    TIME_FIRST = 6,  // 64 ns: about as long as reading the clock
    TIME_LAST = 36,  // 69 s
    TIME_PART_BITS = 2,
    TIME_PARTS = 1 << TIME_PART_BITS,
    DEPTH_LAST = 20,
};

_Static_assert(TR_TIME_BUCKETS == (TIME_LAST - TIME_FIRST) * TIME_PARTS + 2,
               "one below, one above");
_Static_assert(TR_DEPTH_BUCKETS == DEPTH_LAST + 3, "0, 1, 2, 4, ..., more");

static uint32_t log2_of(uint64_t value)
{
    TRI_CHECK(value != 0);
    return 63 - (uint32_t)__builtin_clzll(value);
}

uint32_t tri_time_bucket(tr_nanos span)
{
    if (span <= (tr_nanos)1 << TIME_FIRST) {
        return 0;
    }
    uint64_t below = (uint64_t)span - 1;  // a bound is in the bucket below
    uint32_t power = log2_of(below);
    if (power >= TIME_LAST) {
        return TR_TIME_BUCKETS - 1;
    }
    uint32_t part =
        (uint32_t)(below >> (power - TIME_PART_BITS)) & (TIME_PARTS - 1);
    return 1 + (power - TIME_FIRST) * TIME_PARTS + part;
}

tr_nanos tr_time_bound(uint32_t bucket)
{
    if (bucket >= TR_TIME_BUCKETS - 1) {
        return TR_FOREVER;
    }
    if (bucket == 0) {
        return (tr_nanos)1 << TIME_FIRST;
    }
    uint32_t power = TIME_FIRST + (bucket - 1) / TIME_PARTS;
    uint32_t part = (bucket - 1) % TIME_PARTS;
    return (tr_nanos)(TIME_PARTS + part + 1) << (power - TIME_PART_BITS);
}

uint32_t tri_depth_bucket(uint64_t depth)
{
    if (depth <= 1) {
        return (uint32_t)depth;
    }
    uint32_t bucket = 2 + log2_of(depth - 1);
    return TRI_MIN(bucket, (uint32_t)TR_DEPTH_BUCKETS - 1);
}

uint64_t tr_depth_bound(uint32_t bucket)
{
    return bucket == 0                      ? 0
           : bucket >= TR_DEPTH_BUCKETS - 1 ? UINT64_MAX
                                            : UINT64_C(1) << (bucket - 1);
}

uint32_t tri_kind_number(tr_system *sys, const char *name)
{
    tri_lock_assert_held(&sys->behaviours_lock);
    // Relaxed: written under the lock.
    uint32_t count =
        atomic_load_explicit(&sys->kind_count, memory_order_relaxed);
    for (uint32_t i = 1; i < count; i++) {
        if (strcmp(sys->kinds[i], name) == 0) {
            return i;
        }
    }
    if (count == TRI_KINDS) {
        return 0;
    }
    sys->kinds[count] = name;
    // Release: publishes the name to tr_metrics_kinds.
    atomic_store_explicit(&sys->kind_count, count + 1, memory_order_release);
    return count;
}

static void add(_Atomic(uint64_t) *sum, uint64_t value)
{
    // Relaxed: one writer; for readers a statistic.
    atomic_store_explicit(
        sum, atomic_load_explicit(sum, memory_order_relaxed) + value,
        memory_order_relaxed);
}

void tri_tally_sample(tri_worker *worker, uint32_t kind, tr_nanos span,
                      uint32_t depth)
{
    TRI_CHECK(kind < TRI_KINDS);
    // Relaxed: only this worker stores it.
    tri_samples *samples = atomic_load_explicit(&worker->tally.samples[kind],
                                                memory_order_relaxed);
    if (samples == NULL) {
        samples = tri_mem_calloc(&worker->sys->mem, sizeof(*samples));
        if (samples == NULL) {
            return;
        }
        // Release: publishes the zeros to tr_metrics_kinds.
        atomic_store_explicit(&worker->tally.samples[kind], samples,
                              memory_order_release);
    }
    span = span > 0 ? span : 0;
    add(&samples->time_sum, (uint64_t)span);
    add(&samples->depth_sum, depth);
    add(&samples->times[tri_time_bucket(span)], 1);
    add(&samples->depths[tri_depth_bucket(depth)], 1);
}

void tri_tally_free(tri_tally *tally)
{
    for (uint32_t i = 0; i < TRI_KINDS; i++) {
        // Relaxed: no other thread is left.
        free(atomic_load_explicit(&tally->samples[i], memory_order_relaxed));
    }
}

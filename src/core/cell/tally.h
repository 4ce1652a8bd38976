/*
 * tally.h - counts and times for each kind of actor.
 *
 * Definitions with the same name are one kind. The first TRI_KINDS - 1 names
 * of a system have a number of their own; all others are counted together
 * under number 0.
 *
 * Each worker counts for itself, without a lock; readers add the workers up.
 * Times and depths are samples (docs/design/0013-samples.md), in histograms
 * that a worker makes when it first times a handler of the kind.
 *
 * Threads: the worker writes, or the holder of outside_lock for sys->outside;
 * any thread reads.
 */
#ifndef TRI_CORE_CELL_TALLY_H
#define TRI_CORE_CELL_TALLY_H

#include "core/types.h"
#include "troupe/observe.h"

enum { TRI_KINDS = TR_KINDS_MAX };

/* Counts of the lives of one kind. */
typedef struct tri_kind_lives {
    _Atomic(uint64_t) spawned;
    _Atomic(uint64_t) ended;
    _Atomic(uint64_t) failures;
    _Atomic(uint64_t) restarts;
} tri_kind_lives;

/* Histograms of one kind. */
typedef struct tri_samples {
    _Atomic(uint64_t) time_sum;  // nanoseconds
    _Atomic(uint64_t) depth_sum;
    _Atomic(uint64_t) times[TR_TIME_BUCKETS];
    _Atomic(uint64_t) depths[TR_DEPTH_BUCKETS];
} tri_samples;

/* The counts of one worker. */
typedef struct tri_tally {
    _Atomic(uint64_t) messages[TRI_KINDS];  // calls of handlers
    tri_kind_lives lives[TRI_KINDS];
    _Atomic(tri_samples *) samples[TRI_KINDS];  // owned; NULL: none yet
} tri_tally;

/*
 * Returns the number of a name, given at the first call. sys->behaviours_lock
 * is held.
 */
uint32_t tri_kind_number(struct tr_system *sys, const char *name);

/*
 * Counts a handler of the kind that has run for `span` while `depth` messages
 * waited. Without memory the sample is left out.
 */
void tri_tally_sample(tri_worker *worker, uint32_t kind, tr_nanos span,
                      uint32_t depth);

/* Frees the histograms. */
void tri_tally_free(tri_tally *tally);

/* Return the bucket of a value: below TR_TIME_BUCKETS, TR_DEPTH_BUCKETS. */
uint32_t tri_time_bucket(tr_nanos span);
uint32_t tri_depth_bucket(uint64_t depth);

#endif

/*
 * tally.h - what is counted and timed per kind of actor.
 *
 * A kind is a name of a definition; definitions of one name are one kind. The
 * first TRI_KINDS - 1 names that a system meets have a number of their own,
 * the others are counted together under number 0.
 *
 * Each worker counts for itself, without a lock; readers add up. Times and
 * depths are samples (docs/design/0013-samples.md), kept in histograms that a
 * worker makes when it first times a handler of the kind.
 *
 * Threads: writers are the worker, or whoever holds the outside's lock.
 */
#ifndef TRI_CORE_TALLY_H
#define TRI_CORE_TALLY_H

#include <stdatomic.h>

#include "core/cell.h"
#include "troupe/observe.h"

enum { TRI_KINDS = TR_KINDS_MAX };

/* How often lives of a kind began and ended, and how they went. */
typedef struct tri_kind_lives {
    _Atomic(uint64_t) spawned;
    _Atomic(uint64_t) ended;
    _Atomic(uint64_t) failures;
    _Atomic(uint64_t) restarts;
} tri_kind_lives;

typedef struct tri_samples {
    _Atomic(uint64_t) time_sum;  // nanoseconds
    _Atomic(uint64_t) depth_sum;
    _Atomic(uint64_t) times[TR_TIME_BUCKETS];
    _Atomic(uint64_t) depths[TR_DEPTH_BUCKETS];
} tri_samples;

/* A worker's share. */
typedef struct tri_tally {
    _Atomic(uint64_t) messages[TRI_KINDS];  // calls of handlers
    tri_kind_lives lives[TRI_KINDS];
    _Atomic(tri_samples *) samples[TRI_KINDS];  // NULL: none yet; owned
} tri_tally;

/* The number of a name; sys->behaviours_lock is held. */
uint32_t tri_kind_number(struct tr_system *sys, const char *name);
/*
 * A handler of the kind has run for `span`, with `depth` messages behind the
 * one it was given. Without memory the sample is left out.
 */
void tri_tally_sample(tri_worker *worker, uint32_t kind, tr_nanos span,
                      uint32_t depth);
void tri_tally_free(tri_tally *tally);

/* Where a value belongs; below the number of buckets. */
uint32_t tri_time_bucket(tr_nanos span);
uint32_t tri_depth_bucket(uint64_t depth);

#endif

/*
 * bench.h - what the workloads of troupe-bench share.
 *
 * A workload is a function that spawns its actors in bench.sys, lets them run
 * and returns one figure. The actors have a `bench *` in their state. Time is
 * measured from bench_begin to bench_end; the main thread sleeps in between and
 * takes no CPU from the workers. All functions may be called from any thread.
 */
#ifndef TROUPE_BENCH_H
#define TROUPE_BENCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "troupe/troupe.h"

/* One run, as the command line says. */
typedef struct bench {
    const char *workload;
    uint32_t workers;
    double scale;
    double seconds;  // for workloads that run for a time
    uint64_t seed;   // 0: the fixed sizes
    uint64_t dice;   // bench_random's state; main thread only
    int64_t n;       // this run's count: default x scale, or drawn
    int64_t w;       // this run's width: number of actors or pairs
    tr_system *sys;
    pthread_mutex_t lock;  // guards begin, end and ended
    pthread_cond_t changed;
    double begin;
    double end;
    bool ended;
} bench;

typedef struct bench_workload {
    const char *name;
    int64_t n;  // default count, multiplied by --scale
    int64_t w;  // default width, not scaled
    const char *unit;
    const char *what;  // one line for the usage
    double (*run)(bench *b);
} bench_workload;

/* Each array ends with a row without a name. */
extern const bench_workload bench_messages[];
extern const bench_workload bench_meetings[];
extern const bench_workload bench_spawns[];
extern const bench_workload bench_asks[];
extern const bench_workload bench_timers[];
extern const bench_workload bench_cpu[];
extern const bench_workload bench_crowds[];
extern const bench_workload bench_sustained[];
extern const bench_workload bench_codecs[];
extern const bench_workload bench_virtuals[];
extern const bench_workload bench_sqlite[];    // if BENCH_SQLITE
extern const bench_workload bench_postgres[];  // if BENCH_POSTGRES

/* Returns the monotonic time in seconds. */
double bench_now(void);
/* Puts the calling thread to sleep; not for handlers. */
void bench_sleep(double seconds);
/* Returns the CPU time of the process so far, in seconds. */
double bench_cpu_time(void);
/* Returns the resident memory of the process, in bytes. */
int64_t bench_rss(void);
/* Returns the next number of a small generator: same seed, same numbers. */
uint64_t bench_random(uint64_t *dice);
/*
 * Returns a number below `below`, from the upper bits of a value of the
 * generator.
 */
uint64_t bench_below(uint64_t dice, uint64_t below);

/*
 * Mark the start and the end of the measured time; the end wakes the main
 * thread.
 */
void bench_begin(bench *b);
void bench_end(bench *b);
/* Sleeps until bench_end; returns the measured seconds. */
double bench_wait(bench *b);

/* Opens another system with the same workers; the caller owns it. */
tr_system *bench_open(const bench *b);
/* Allocates memory; ends the process if there is none. */
void *bench_alloc(int64_t count, size_t size);
/* Sorts the samples (in seconds) and reports p50 and p99 as a fact. */
void bench_percentiles(const char *what, double *seconds, int64_t count);
/* Reports that a count does not match and ends the process with status 3. */
void bench_verify(bool ok, const char *what);

#endif

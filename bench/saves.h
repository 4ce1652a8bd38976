/*
 * saves.h - actors that save as fast as their store answers, for any store.
 */
#ifndef TROUPE_BENCH_SAVES_H
#define TROUPE_BENCH_SAVES_H

#include "bench.h"

#define SAVES_STATE_SIZE 256  // of a stored state, about; raw: exactly
#define SAVES_KEY_SIZE   48

/*
 * Spawns b->n actors with this store, each with a state of its own, and lets
 * b->w of them save at a time (1,000: each save hands its turn to another
 * actor) for b->seconds. Returns saves per second.
 */
double saves_run(bench *b, tr_storage *store);
/* Spawns b->n actors whose states are stored; returns loads per second. */
double saves_load(bench *b, tr_storage *store);

/* Reports the raw figure and the ratio of `value` to it; returns value. */
double saves_report(double value, double raw);

#endif

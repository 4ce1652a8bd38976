/* virtuals.h - activations of virtual actors, with any store. */
#ifndef TROUPE_BENCH_VIRTUALS_H
#define TROUPE_BENCH_VIRTUALS_H

#include "bench.h"

/*
 * Sends a first message to b->n virtual actors, whose states are stored before;
 * at most b->w of them are under way at a time. NULL: no store. Returns
 * activations per second; b->sys is another system afterwards.
 */
double virtuals_activate(bench *b, tr_storage *store);

#endif

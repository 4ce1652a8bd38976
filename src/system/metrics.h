/*
 * metrics.h - the numbers of a whole system.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_METRICS_H
#define TRI_SYSTEM_METRICS_H

#include <stdint.h>

#include "troupe/base.h"

/* Returns how many actors have ended. */
uint64_t tri_ended_count(tr_system *sys);

#endif

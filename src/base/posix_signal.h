/*
 * posix_signal.h - signals of the real world.
 *
 * The functions are the signals_* entries of tri_world_ops and wait_signal;
 * world.h has their contracts.
 *
 * Threads: any.
 */
#ifndef TRI_BASE_POSIX_SIGNAL_H
#define TRI_BASE_POSIX_SIGNAL_H

#include <stdint.h>

#include "base/world.h"
#include "troupe/base.h"

tr_err tri_posix_signals_open(tri_poller *poller, tri_stream **out,
                              uint64_t set);
tr_err tri_posix_signals_take(tri_stream *signals, int *number);
void tri_posix_wait_signal(tri_world *world, _Atomic(uint32_t) *word,
                           uint32_t expected);

#endif

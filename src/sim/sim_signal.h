/*
 * sim_signal.h - signals that a simulation sends to its nodes.
 *
 * The functions are the signals_* entries of tri_world_ops; world.h has their
 * contracts. tr_sim_signal (sim.h) sends one.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_SIGNAL_H
#define TRI_SIM_SIM_SIGNAL_H

#include <stdint.h>

#include "base/world.h"
#include "troupe/base.h"

tr_err tri_sim_signals_open(tri_poller *poller, tri_stream **out, uint64_t set);
tr_err tri_sim_signals_take(tri_stream *signals, int *number);

#endif

/*
 * sim_address.h - addresses of simulated streams.
 *
 * All nodes are on one machine, so "localhost" and its like mean the same;
 * "node-2" is node 2.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_ADDRESS_H
#define TRI_SIM_SIM_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "base/world.h"
#include "troupe/base.h"

/* Splits an address; the names of the machine itself become 127.0.0.1. */
tr_err tri_sim_address_split(const char *text, tri_address *out);
/* Reads "node-3". Returns false if the host has another form. */
bool tri_sim_host_node(const char *host, uint32_t *index);
/* The entry `resolve` of tri_world_ops. */
tr_err tri_sim_resolve(tri_world *world, const char *address,
                       char (*out)[TRI_STREAM_ADDRESS_MAX], uint32_t max,
                       uint32_t *count);

#endif

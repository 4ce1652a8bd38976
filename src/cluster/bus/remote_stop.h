/*
 * remote_stop.h - stops, kills and poisons actors that are on other nodes.
 *
 * Threads: the turns of the bus, except where said.
 */
#ifndef TRI_CLUSTER_REMOTE_STOP_H
#define TRI_CLUSTER_REMOTE_STOP_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/bus/bus.h"
#include "cluster/bus/parcel.h"
#include "cluster/transport/wire.h"
#include "cluster/virtual/virtual.h"
#include "core/types.h"
#include "troupe/base.h"

struct tri_peer;

/* ---- functions of tri_virtual_ops: any thread; false: not for the bus ---- */

bool tri_remote_stop_signal(tri_worker *worker, tri_cell *cell,
                            uint32_t signal);
/* Takes msg if the result is true. */
bool tri_remote_stop_poison(tri_worker *worker, tri_cell *cell, tr_msg *msg);

/* ---- in turns ---- */

/* Sends a signal after the actor: TRI_NOTE_SIGNAL. */
void tri_remote_stop_note(tri_bus *bus, tri_virtual *v, uint64_t signal);
/* A node sends a signal: TRI_FRAME_CONTROL. Returns false without memory. */
bool tri_remote_stop_on_frame(tri_bus *bus, struct tri_peer *peer,
                              tri_reader *reader);
/* True if the parcel is a stop or kill, which does not wait for mail. */
bool tri_remote_stop_is_signal(const tri_parcel *p);
/* Makes the message that ends an actor after its mail; NULL: no memory. */
tr_msg *tri_remote_stop_poison_message(tri_bus *bus);
/* Gives the signal of a parcel to the activation here, if any. Takes p. */
void tri_remote_stop_here(tri_bus *bus, tri_parcel *p);

#endif

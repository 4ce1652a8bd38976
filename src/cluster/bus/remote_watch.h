/*
 * remote_watch.h - watches of actors that are on other nodes.
 *
 * Threads: the turns of the bus, except where said.
 */
#ifndef TRI_CLUSTER_REMOTE_WATCH_H
#define TRI_CLUSTER_REMOTE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/bus/bus.h"
#include "cluster/membership/view.h"
#include "cluster/transport/frame.h"
#include "cluster/transport/wire.h"
#include "core/life/watch.h"
#include "core/types.h"
#include "troupe/base.h"

struct tri_parcel;
struct tri_peer;

/* ---- functions of tri_virtual_ops: any thread ---- */

/* Gives a watch to the bus. Takes it if the result is true. */
bool tri_remote_watch_add(tri_worker *worker, tri_cell *cell, tri_watch *watch);
/* Ends a watch that the bus has. Takes `watching` if the result is true. */
bool tri_remote_watch_remove(tri_worker *worker, tri_cell *cell,
                             tri_watching *watching);

/* ---- in turns ---- */

/* Adds or removes a watch: TRI_NOTE_WATCH, TRI_NOTE_UNWATCH. */
void tri_remote_watch_note(tri_bus *bus, const tri_bus_note *note);
/* A watch has come to the owner of its shard: watches. Takes p. */
void tri_remote_watch_here(tri_bus *bus, struct tri_parcel *p);
/* An actor that the bus watches for other nodes has ended. */
void tri_remote_watch_ended(tri_bus *bus, tr_ref actor, uint32_t reason);
/* A node is dead: its actors have ended, and it watches none of ours. */
void tri_remote_watch_node_dead(tri_bus *bus, tri_node node);
/* A frame about watches has come. Returns false without memory. */
bool tri_remote_watch_on_frame(tri_bus *bus, struct tri_peer *peer,
                               tri_frame_kind kind, tri_reader *reader);
/* Sends what could not be sent before. Returns true if some is left. */
bool tri_remote_watch_send_unsent(tri_bus *bus);
/* Ends all watches, because the system closes; then frees them. */
void tri_remote_watch_close(tri_bus *bus);
void tri_remote_watch_free_all(tri_bus *bus);

#endif

/*
 * relay.h - actors that the owner of their shard has placed on another node.
 *
 * The owner of a shard hosts its actors, except those whose kind it does not
 * host and those whose kind asks for another placement. Mail for such an actor
 * still goes to the owner, which passes it on to the host that it has chosen
 * (hosted.h). So there is one order for all mail of an actor, and nobody else
 * needs to know where it is.
 *
 * Threads: the turns of the bus.
 */
#ifndef TRI_CLUSTER_RELAY_H
#define TRI_CLUSTER_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/bus/bus.h"
#include "cluster/membership/view.h"
#include "cluster/transport/wire.h"

struct tri_parcel;
struct tri_peer;

/*
 * True if mail for the actor goes to the host that this node, the owner, has
 * chosen or chooses; from then on senders of this node give theirs to the bus.
 */
bool tri_relay_is_needed(tri_bus *bus, tri_virtual *v);
/* Passes a list of parcels for one actor on to its host. Takes the list. */
void tri_relay_send(tri_bus *bus, tri_virtual *v, struct tri_parcel *list);
/*
 * Puts a parcel that a dead host has not got in front of all others; returns
 * false if the actor is not placed elsewhere. Takes p if the result is true.
 */
bool tri_relay_put_back(tri_bus *bus, struct tri_parcel *p);

/* Ends the actors of a shard that this node gives away; returns how many. */
uint32_t tri_relay_drain(tri_bus *bus, uint32_t shard);
/* A node is dead: what it hosted is placed anew when the epoch was raised. */
void tri_relay_node_dead(tri_bus *bus, tri_node node);
/* This node owns the shard in a newer epoch, or does not own it any more. */
void tri_relay_epoch_raised(tri_bus *bus, uint32_t shard);
void tri_relay_shard_lost(tri_bus *bus, uint32_t shard);
/* Places actors for which no host was known. Returns true if some are left. */
bool tri_relay_retry(tri_bus *bus);
void tri_relay_free_all(tri_bus *bus);

/* This node, which is the owner, has hosted an actor: the same without frames. */
void tri_relay_host_ended(tri_bus *bus, tri_virtual *v);
void tri_relay_gone(tri_bus *bus, tri_virtual *v);

/* ---- frames of the host ---- */

/* Its activation has ended: TRI_FRAME_HOSTED_ENDED. */
void tri_relay_on_ended(tri_bus *bus, struct tri_peer *peer, tri_reader *r);
/* A message comes back that it has not handled. Takes p. */
void tri_relay_on_returned(tri_bus *bus, struct tri_parcel *p);
/* All of them have come back: TRI_FRAME_HOSTED_GONE. */
void tri_relay_on_gone(tri_bus *bus, struct tri_peer *peer, tri_reader *r);

#endif

/*
 * hosted.h - actors that the owner of their shard has placed on this node.
 *
 * All mail for such an actor comes from the owner (relay.h), also that of
 * senders on this node.
 *
 * Threads: the turns of the bus.
 */
#ifndef TRI_CLUSTER_HOSTED_H
#define TRI_CLUSTER_HOSTED_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/bus/bus.h"
#include "cluster/membership/view.h"
#include "cluster/transport/wire.h"

struct tri_parcel;
struct tri_peer;

/* Takes a parcel that the owner has passed on; begins the actor if needed. */
void tri_hosted_take(tri_bus *bus, tri_node owner, struct tri_parcel *p);
/* The activation has ended: TRI_NOTE_HOSTED_ENDED. */
void tri_hosted_ended(tri_bus *bus, tri_virtual *v);
/* The owner sends nothing more: gives back what is left. */
void tri_hosted_clear(tri_bus *bus, tri_virtual *v);
/* This node has lost its lease: stops all of them. */
void tri_hosted_orphan_all(tri_bus *bus);
/* The owner has raised the epoch and keeps the actor here. */
void tri_hosted_on_confirm(tri_bus *bus, struct tri_peer *peer, tri_reader *r);
/* The owner says so: TRI_FRAME_HOSTED_CLEAR. */
void tri_hosted_on_clear(tri_bus *bus, struct tri_peer *peer, tri_reader *r);
/* The shard has another owner: ends what the one before has placed here. */
void tri_hosted_owner_changed(tri_bus *bus, uint32_t shard);
/* Tells those who deliver the shard's reminders to read them again. */
void tri_hosted_tell_reminder(tri_bus *bus, uint32_t shard);
void tri_hosted_on_reminder(tri_bus *bus, tri_reader *r);
/* Asks again what was not answered. Returns true if some is left. */
bool tri_hosted_retry(tri_bus *bus);
void tri_hosted_free_all(tri_bus *bus);

#endif

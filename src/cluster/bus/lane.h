/*
 * lane.h - the way to the actors of one shard.
 *
 * The owner of a shard hosts its actors, so mail for a shard goes one way at a
 * time: into mailboxes here, or to the node that owns the shard.
 *
 *   CLOSED   mail waits: nobody owns the shard, or this node does and is giving
 *            it away, or has not got back what it had sent to the last owner
 *   REMOTE   mail goes to the node `to`
 *   OPEN     this node owns the shard; mail goes into mailboxes
 *
 * lane.c has the table of all steps. docs/design/0016-owners.md argues that
 * messages stay in order when a shard moves.
 *
 * Threads: the turns of the bus.
 */
#ifndef TRI_CLUSTER_LANE_H
#define TRI_CLUSTER_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "cluster/bus/bus.h"
#include "cluster/membership/view.h"
#include "cluster/transport/wire.h"
#include "troupe/base.h"

struct tri_parcel;
struct tri_peer;

#define TRI_LANE_WAIT TR_SECONDS(30)  // then mail that waits is given up

typedef enum tri_lane_state {
    TRI_LANE_CLOSED,
    TRI_LANE_REMOTE,
    TRI_LANE_OPEN,
} tri_lane_state;

typedef struct tri_lane {
    tri_link link;       // in bus->waiting while mail waits
    tri_link stopping;   // in bus->stopping until its actors were told
    uint8_t state;       // tri_lane_state
    bool mail_sent;      // mail of this node is with `to`, or on its way there
    bool passed_since;   // mail was passed on behind our marker
    bool marker_unsent;  // our marker could not be sent yet
    bool draining;       // this node gives the shard away,
    bool drained;        // ... and the membership was told that it may
    tri_node to;         // of REMOTE
    tri_node marker_to;  // the node that our marker was sent to
    uint64_t token;      // of our marker under way; 0: none
    tr_nanos since;      // when mail began to wait
    tri_list relays;     // tri_relay: actors that we, the owner, placed
    tri_list hosted;     // tri_hosted: actors that the owner has placed here
    struct tri_parcel *first, *last;            // mail that waits
    struct tri_parcel *first_held, *last_held;  // behind our marker
} tri_lane;

/* Sends, delivers or keeps a parcel for the shard. Takes p. */
void tri_lane_put(tri_bus *bus, uint32_t shard, struct tri_parcel *p);
/* Puts a parcel that was not sent in front of all others. Takes p. */
void tri_lane_put_back(tri_bus *bus, uint32_t shard, struct tri_parcel *p);
/* The record has pending mail for the bus. */
void tri_lane_take_mail(tri_bus *bus, tri_virtual *v);

/* The view has a new owner of the shard, or a new epoch. */
void tri_lane_set_owner(tri_bus *bus, uint32_t shard,
                        const tri_shard_owner *owner);
/* A newer view has the same owner, who may be a member only now. */
void tri_lane_review(tri_bus *bus, uint32_t shard);
/* The owner of the shard is this node, and the view says who shall be next. */
void tri_lane_drain(tri_bus *bus, uint32_t shard);
/* The view does not name a next owner any more: this node keeps the shard. */
void tri_lane_keep(tri_bus *bus, uint32_t shard);
/* A node is dead: no marker comes back through it. */
void tri_lane_node_dead(tri_bus *bus, tri_node node);
/* This node has lost its lease: it owns nothing, and hosts nothing. */
void tri_lane_close_all(tri_bus *bus);
/*
 * This node goes on as another incarnation, and all lanes are closed: what the
 * one before has sent is lost with it, so no marker is waited for.
 */
void tri_lane_restart(tri_bus *bus);
/* Closes all lanes if the lease was lost, and opens them if it is back. */
void tri_lane_check_lease(tri_bus *bus);

/* Tries again what could not be done. Returns true if some of it is left. */
bool tri_lane_retry(tri_bus *bus);
/* Gives up mail that has waited too long. Returns when to look again. */
tr_nanos tri_lane_expire(tri_bus *bus, tr_nanos now);
/* Fails all mail that waits, because the system closes. */
void tri_lane_fail_all(tri_bus *bus);

/* A marker has come: TRI_FRAME_FLUSH. Returns false without memory. */
bool tri_lane_on_marker(tri_bus *bus, struct tri_peer *peer, tri_reader *r);
/* A marker of ours has arrived behind our mail: TRI_FRAME_FLUSHED. */
void tri_lane_on_flushed(tri_bus *bus, tri_reader *r);

/*
 * Checks the invariants of the lanes of `count` shards, between turns of the
 * bus; a system without a bus has none.
 */
void tri_lane_check_shards(tr_system *sys, uint32_t first, uint32_t count);

#endif

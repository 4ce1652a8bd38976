/*
 * peer.h - another node: the session with it, and what it has told us.
 *
 * Threads: the turns of the bus.
 */
#ifndef TRI_CLUSTER_PEER_H
#define TRI_CLUSTER_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "cluster/bus/bus.h"
#include "cluster/membership/view.h"
#include "cluster/transport/frame.h"
#include "cluster/transport/session.h"
#include "cluster/transport/wire.h"

struct tri_wire_type;

typedef struct tri_peer {
    tri_session session;  // first
    tri_bus *bus;
    uint32_t node;               // its slot
    bool greeted;                // its HELLO has come: we know its kinds
    bool refused;                // it belongs to another namespace
    struct tri_kind *announced;  // the newest of our kinds it was told of
    tri_map out_types;           // schema -> number, of the present stream
    uint32_t out_count;
    struct tri_wire_type *in_types;  // owned; those it has declared
    uint32_t in_count, in_room;
} tri_peer;

/*
 * Returns the peer of a node, made on first use; NULL without memory, for this
 * node itself, or for a number that is too large.
 */
tri_peer *tri_peer_get(tri_bus *bus, uint32_t node);
/* Frees a peer with the system; NULL is fine. */
void tri_peer_free(tri_peer *peer);

/* Begins a frame. Needs no check: tri_peer_put sees a failed writer. */
tri_writer tri_peer_frame(tri_bus *bus, tri_frame_kind kind);
/*
 * Queues a frame; takes the writer's bytes. Returns false if it could not be
 * queued. `tag` is a tri_parcel that ends with the frame, or NULL.
 */
bool tri_peer_put(tri_bus *bus, tri_node node, tri_writer *w, void *tag);
/* The same, to whoever has the slot now. */
bool tri_peer_put_slot(tri_bus *bus, uint32_t slot, tri_writer *w);
/* Returns the incarnation whose frames are taken. */
tri_node tri_peer_node(const tri_peer *peer);
/* The incarnation of the node is dead: gives back what it has not got. */
void tri_peer_dead(tri_peer *peer, uint64_t incarnation);

#endif

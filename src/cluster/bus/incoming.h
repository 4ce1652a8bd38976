/*
 * incoming.h - messages that come from other nodes.
 *
 * Threads: the turns of the bus.
 */
#ifndef TRI_CLUSTER_INCOMING_H
#define TRI_CLUSTER_INCOMING_H

#include <stdbool.h>
#include <stddef.h>

#include "cluster/bus/bus.h"
#include "cluster/bus/parcel.h"
#include "cluster/bus/wire_type.h"
#include "cluster/transport/frame.h"
#include "cluster/transport/wire.h"
#include "troupe/base.h"

struct tri_peer;

/*
 * An envelope has come: TRI_FRAME_MESSAGE, _RELAYED or _RETURNED. Returns false
 * without memory.
 */
bool tri_incoming_message(tri_bus *bus, struct tri_peer *peer,
                          tri_frame_kind kind, tri_reader *r);
/*
 * Makes a message of a parcel that came from another node. NULL on an error:
 * *err, and why in `text` of `size` bytes.
 */
tr_msg *tri_incoming_decode(tri_bus *bus, tri_parcel *p, tr_err *err,
                            char *text, size_t size);
/* Sends a message to one of the stateless workers of its name. Takes p. */
void tri_incoming_to_worker(tri_bus *bus, tri_parcel *p);

#endif

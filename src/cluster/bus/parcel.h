/*
 * parcel.h - one message, marker, stop or watch on its way to a shard.
 *
 * Threads: the turns of the bus.
 */
#ifndef TRI_CLUSTER_PARCEL_H
#define TRI_CLUSTER_PARCEL_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/bus/bus.h"
#include "cluster/bus/wire_type.h"
#include "cluster/membership/view.h"
#include "cluster/transport/envelope.h"
#include "cluster/virtual/virtual.h"
#include "core/cell/message.h"
#include "troupe/base.h"

typedef enum tri_parcel_kind {
    TRI_PARCEL_MESSAGE = 1,  // from a sender of this node: msg
    TRI_PARCEL_PASSED,       // from another node: head, bytes
    TRI_PARCEL_FLUSH,        // a marker: shard, origin, token
    TRI_PARCEL_CONTROL,      // stop, kill or poison: token is the signal
    TRI_PARCEL_WATCH,        // origin watches the actor
} tri_parcel_kind;

/* It waits in a lane, or in a session until it is acknowledged. */
typedef struct tri_parcel {
    struct tri_parcel *next;
    struct tri_parcel *next_head;  // deliver.c
    uint8_t kind;                  // tri_parcel_kind
    uint8_t forwards;
    bool relayed;  // from the owner to the host that it has chosen, or back
    uint32_t shard;
    tri_virtual *v;        // held; NULL: a marker
    tr_msg *msg;           // owned; NULL while a call has it
    uint64_t call;         // correlation of its tri_call; 0: none
    uint32_t via;          // while lane.c holds it: the node that it came from
    tri_node origin;       // of PASSED: the node that it came from
    uint64_t token;        // of FLUSH: its marker; of CONTROL: the signal
    tr_nanos arrived;      // of PASSED: when it came from the other node
    tri_node taken_as;     // of PASSED: this node, as it was then
    tri_envelope *head;    // owned
    unsigned char *bytes;  // owned: the payload of head
    tri_wire_type type;    // owned texts: of the payload
} tri_parcel;

/* Makes a parcel for an actor, which it holds; NULL: no memory. */
tri_parcel *tri_parcel_new(tri_bus *bus, tri_parcel_kind kind, tri_virtual *v,
                           tri_node origin);
/*
 * Makes parcels of a list of mail, in the same order; takes it. What there is
 * no memory for becomes dead letters.
 */
tri_parcel *tri_parcel_from_mail(tri_bus *bus, tri_virtual *v, tri_item *mail);
/* Makes a marker; NULL: no memory. */
tri_parcel *tri_parcel_marker(tri_bus *bus, uint32_t shard, tri_node origin,
                              uint64_t token, uint8_t forwards);
/* Tells the origin of a marker that it has arrived. Takes p. */
void tri_parcel_answer_marker(tri_bus *bus, tri_parcel *p);
void tri_parcel_free(tri_bus *bus, tri_parcel *p);
/*
 * Ends a parcel that cannot be delivered: its message becomes a dead letter,
 * or its asker gets the error. Takes p.
 */
void tri_parcel_fail(tri_bus *bus, tri_parcel *p, tr_err err, const char *text);
/* Ends a parcel whose frame has left its session. Takes p. */
void tri_parcel_done(tri_bus *bus, tri_parcel *p, bool received, bool sent);
/* Returns the reason of a dead letter for an error. */
uint32_t tri_parcel_dead_reason(tr_err err);
/* Makes dead letters of a list of mail; takes it. */
void tri_parcel_kill_mail(tri_bus *bus, tri_virtual *v, tri_item *mail,
                          uint32_t reason);

#endif

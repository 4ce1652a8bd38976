/*
 * call.h - requests that this node has sent and that wait for an answer.
 *
 * Threads: the turns of the bus.
 */
#ifndef TRI_CLUSTER_CALL_H
#define TRI_CLUSTER_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/wheel.h"
#include "cluster/bus/bus.h"
#include "cluster/bus/parcel.h"
#include "cluster/bus/wire_type.h"
#include "cluster/transport/envelope.h"
#include "cluster/virtual/virtual.h"
#include "troupe/base.h"

struct tri_peer;

#define TRI_CALL_TTL_MAX_MS (UINT32_C(24) * 60 * 60 * 1000)

typedef struct tri_call {
    tri_timer timer;
    uint64_t correlation;
    tr_msg *msg;     // owned: it is answered, or becomes an error
    tri_virtual *v;  // held
    tri_node node;   // that it was sent to
    bool lost;       // with its node: it ends unless it was never sent
    tr_nanos started, deadline;
} tri_call;

/* Returns the whole milliseconds that are left until the deadline, or 0. */
uint32_t tri_call_ttl_ms(tri_bus *bus, tr_nanos deadline);
/*
 * Makes the call of a request that is about to be sent, and makes e a request.
 * The call has the parcel's message then.
 * Errors: TR_ETIMEDOUT, TR_ELIMIT, TR_ENOMEM.
 */
tr_err tri_call_begin(tri_bus *bus, tri_node to, tri_parcel *p,
                      tri_envelope *e);
/*
 * Undoes tri_call_begin for a request that was not sent: the parcel has its
 * message again, if the asker still waits.
 */
void tri_call_undo(tri_bus *bus, tri_parcel *p);

/* ---- completion: each call ends by one of these ---- */

/* The answer has come from another node. */
void tri_call_on_answer(tri_bus *bus, struct tri_peer *peer,
                        const tri_envelope *e);
/*
 * The actor of this node has answered a request that came back here: with err
 * and text, or with reply.
 */
void tri_call_complete_here(tri_bus *bus, uint64_t correlation, tri_virtual *v,
                            tr_err err, const char *text, const tr_msg *reply);
void tri_call_timeout(tri_bus *bus, tri_call *call);
/*
 * Marks the calls to a node whose stream has ended. Those that were never sent
 * are undone next; tri_call_end_lost ends the others.
 */
void tri_call_node_lost(tri_bus *bus, tri_node node);
void tri_call_end_lost(tri_bus *bus);
/* Ends all calls, because the system closes. */
void tri_call_close(tri_bus *bus);
/* Frees all calls with the bus. */
void tri_call_free_all(tri_bus *bus);

#endif

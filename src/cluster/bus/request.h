/*
 * request.h - requests of other nodes that this node has to answer.
 *
 * Threads: the turns of the bus, except where said.
 */
#ifndef TRI_CLUSTER_REQUEST_H
#define TRI_CLUSTER_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/bus/bus.h"
#include "cluster/transport/envelope.h"
#include "cluster/virtual/virtual.h"
#include "core/types.h"
#include "troupe/base.h"

typedef struct tri_request {
    struct tri_request *next;  // in bus->unsent_answers
    uint64_t id;               // our correlation
    uint64_t correlation;      // of the asker's node
    uint32_t node;
    tri_virtual *v;  // held
    char sender[];   // the asker's name, or ""
} tri_request;

/*
 * Notes a request before its message runs; the message gets the id and a
 * deadline. Errors: TR_ENOMEM.
 */
tr_err tri_request_add(tri_bus *bus, const tri_envelope *head, tri_virtual *v,
                       tr_nanos arrived, tr_msg *msg);
/*
 * Answers a request that cannot be delivered with an error; makes a dead letter
 * of a one-way message. Returns false if the error could not be sent.
 */
bool tri_request_refuse(tri_bus *bus, const tri_envelope *head, tri_virtual *v,
                        const char *type, tr_err err, const char *text);
/* The same for a request that was taken: the error may be sent later. */
void tri_request_refuse_later(tri_bus *bus, const tri_envelope *head,
                              tri_virtual *v, const char *type, tr_err err,
                              const char *text);
/*
 * Sends errors for answers that there was no memory for. Returns true if some
 * are left.
 */
bool tri_request_send_unsent(tri_bus *bus);
/* Frees all requests with the bus. */
void tri_request_free_all(tri_bus *bus);

/*
 * Sends the reply of an actor to the asker's node; returns false if the reply
 * is not for the bus. Takes the reply. A function of tri_virtual_ops: runs in
 * the cell of the bus, between two of its turns.
 */
bool tri_request_reply(tri_worker *worker, tri_cell *cell, tr_msg *reply);

#endif

/*
 * incoming.c - messages that come from other nodes.
 *
 * Invariant: no message that came is lost silently. What cannot be read is
 * counted; what cannot be taken is refused, with the reason, towards its
 * sender.
 */
#include "cluster/bus/incoming.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/lock.h"
#include "cluster/bus/call.h"
#include "cluster/bus/hosted.h"
#include "cluster/bus/lane.h"
#include "cluster/bus/peer.h"
#include "cluster/bus/relay.h"
#include "cluster/bus/request.h"
#include "cluster/bus/wire_type.h"
#include "cluster/transport/envelope.h"
#include "cluster/virtual/actor_id.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/kind.h"
#include "cluster/virtual/names.h"
#include "cluster/virtual/shard.h"
#include "cluster/virtual/virtual.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/mail/send.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/types.h"
#include "schema/value.h"
#include "troupe/message.h"

/* Returns the kind of a record, or NULL. Takes the shard's lock. */
static tri_kind *kind_of(tri_bus *bus, tri_virtual *v)
{
    tri_shard *shard = tri_cluster_shard(bus->cluster, v);
    tri_lock_take(&shard->lock);
    tri_kind *kind = tri_kind_of(bus->cluster, v);
    tri_lock_drop(&shard->lock);
    return kind;
}

/*
 * Returns the handler for a parcel that may come from another node; NULL on an
 * error, with *err and text.
 */
static const tr_handler *find_handler(tri_bus *bus, const tri_parcel *p,
                                      tr_err *err, char *text, size_t size)
{
    tri_kind *kind = kind_of(bus, p->v);
    if (kind == NULL) {
        snprintf(text, size, "its kind is not hosted here");
        *err = TR_ENOENT;
        return NULL;
    }
    const tr_handler *handler = tri_wire_type_handler(kind, p->type.name);
    if (handler == NULL) {
        snprintf(text, size, "%s has no handler for %s", kind->name,
                 p->type.name);
        *err = TR_EUNHANDLED;
        return NULL;
    }
    if (handler->flags & TR_LOCAL_ONLY) {
        snprintf(text, size, "%s is taken from its own node only",
                 p->type.name);
        *err = TR_EFOREIGN;
        return NULL;
    }
    *err = TR_ESCHEMA;
    return tri_wire_type_fits(bus, handler->type, &p->type, text, size)
               ? handler
               : NULL;
}

/* Sets the sender of a one-way message, if it is a virtual actor. */
static void set_sender(tri_bus *bus, const tri_parcel *p, tr_msg *msg)
{
    tr_err ignored;
    msg->sender = p->head->sender[0] != '\0'
                      ? tri_bus_keep_ref(bus, p->head->sender, &ignored)
                      : (tr_ref){0};
}

tr_msg *tri_incoming_decode(tri_bus *bus, tri_parcel *p, tr_err *err,
                            char *text, size_t size)
{
    TRI_CHECK(p->kind == TRI_PARCEL_PASSED && p->head != NULL);
    tri_worker *worker = tri_bus_worker(bus);
    void *value;
    const tr_handler *handler = find_handler(bus, p, err, text, size);
    if (handler == NULL) {
        return NULL;
    }
    *err = tri_wire_type_read(bus, handler->type, p->head->payload, &value,
                              text, size);
    if (*err != TR_OK) {
        if (*err == TR_ENOMEM) {
            snprintf(text, size, "out of memory");
        }
        return NULL;
    }
    bool asked = p->head->direction == TRI_REQUEST;
    tr_msg *msg = tri_msg_new(&worker->cache, handler->type, value, asked);
    tri_value_release(handler->type, value, NULL);
    free(value);
    *err = msg == NULL ? TR_ENOMEM
           : asked     ? tri_request_add(bus, p->head, p->v, p->arrived, msg)
                       : TR_OK;
    if (msg != NULL && *err != TR_OK) {
        msg->item.flags |= TRI_MSG_ANSWERED;
        tri_msg_free(&worker->cache, msg);
        msg = NULL;
    }
    if (msg == NULL) {
        snprintf(text, size, "out of memory");
        return NULL;
    }
    if (!asked) {
        set_sender(bus, p, msg);
    }
    msg->item.flags |= TRI_MSG_FOREIGN;
    // Relaxed: it never changes.
    msg->to_id = atomic_load_explicit(&p->v->cell.id, memory_order_relaxed);
    return msg;
}

/* Makes a parcel of an envelope; copies it. NULL: no memory. */
static tri_parcel *parcel_from(tri_bus *bus, tri_virtual *v, tri_node from,
                               const tri_envelope *e, const tri_wire_type *type)
{
    TRI_CHECK(type->name != NULL && type->table != NULL);
    tri_parcel *p = tri_parcel_new(bus, TRI_PARCEL_PASSED, v, from);
    if (p == NULL) {
        return NULL;
    }
    p->arrived = tri_bus_now(bus);
    p->taken_as = bus->node;
    p->head = tri_mem_calloc(&bus->sys->mem, sizeof(*p->head));
    p->bytes = tri_mem_calloc(&bus->sys->mem, e->payload.size + 1);
    p->type.schema = type->schema;
    tr_bytes name = {type->name, strlen(type->name)};
    tr_bytes table = {type->table, strlen(type->table)};
    p->type.name = tri_wire_type_copy_text(bus, name, TRI_ACTOR_ID_MAX);
    p->type.table = tri_wire_type_copy_text(bus, table, TRI_WIRE_TABLE_MAX);
    if (p->head == NULL || p->bytes == NULL || p->type.name == NULL ||
        p->type.table == NULL) {
        tri_parcel_free(bus, p);
        return NULL;
    }
    *p->head = *e;
    if (e->payload.size > 0) {
        memcpy(p->bytes, e->payload.at, e->payload.size);
    }
    p->head->payload.at = p->bytes;
    return p;
}

void tri_incoming_to_worker(tri_bus *bus, tri_parcel *p)
{
    TRI_CHECK(p->kind == TRI_PARCEL_PASSED || p->msg != NULL);
    char text[TRI_SHOWN_MAX];
    tr_err err;
    tr_msg *msg = p->kind == TRI_PARCEL_PASSED
                      ? tri_incoming_decode(bus, p, &err, text, sizeof(text))
                      : p->msg;
    if (msg == NULL) {
        tri_parcel_fail(bus, p, err, text);
        return;
    }
    p->msg = NULL;
    tri_caller who = {
        .sys = bus->sys, .worker = tri_bus_worker(bus), .sender = msg->sender};
    tri_send(&who, tri_bus_ref(bus, p->v), msg);
    tri_parcel_free(bus, p);
}

/*
 * True if all nodes that have passed the envelope on are members. Once a node
 * is known to be dead, its peers send past what they had sent through it; so
 * what comes from there after that would come too late.
 */
static bool path_is_alive(tri_bus *bus, const tri_envelope *e)
{
    for (uint32_t i = 0; i < e->forwards; i++) {
        if (bus->view == NULL || !tri_view_has(bus->view, e->path[i])) {
            return false;
        }
    }
    return true;
}

/*
 * Checks an envelope that is not a response. *type is the declared type of its
 * payload and *v its target, as far as they are known.
 * Errors: as tri_envelope_check, TR_EFOREIGN, and *why.
 */
static tr_err check(tri_bus *bus, const tri_peer *peer, const tri_envelope *e,
                    const tri_wire_type **type, tri_virtual **v,
                    const char **why)
{
    *v = NULL;
    *type = e->type > 0 && e->type <= peer->in_count
                ? &peer->in_types[e->type - 1]
                : NULL;
    TR_TRY(tri_envelope_check(e, why));
    if (peer->refused) {
        *why = "it comes from another namespace";
        return TR_EFOREIGN;
    }
    if (*type == NULL || (*type)->name == NULL || (*type)->table == NULL ||
        e->sender_node >= TRI_NODES_MAX) {
        *why = "its type was not declared";
        return TR_EINVAL;
    }
    if (!path_is_alive(bus, e)) {
        *why = "a node that has passed it on is dead";
        return TR_EUNREACHABLE;
    }
    tr_err err;
    *v = tri_bus_record(bus, e->target, &err);
    *why = err != TR_OK ? tr_strerror(err) : NULL;
    return err;
}

bool tri_incoming_message(tri_bus *bus, tri_peer *peer, tri_frame_kind frame,
                          tri_reader *reader)
{
    tri_envelope e;
    const tri_wire_type *type;
    tri_virtual *v;
    const char *why;
    if (!tri_envelope_read(reader, &e)) {
        bus->counts.refused++;
        return true;
    }
    bus->counts.received++;
    if (e.direction == TRI_RESPONSE) {
        tri_call_on_answer(bus, peer, &e);
        return true;
    }
    tr_err err = check(bus, peer, &e, &type, &v, &why);
    tri_parcel *p = err == TR_OK
                        ? parcel_from(bus, v, tri_peer_node(peer), &e, type)
                        : NULL;
    bool taken = true;
    if (p == NULL) {
        bus->counts.refused++;
        taken = tri_request_refuse(bus, &e, v, type != NULL ? type->name : NULL,
                                   err != TR_OK ? err : TR_ENOMEM,
                                   why != NULL ? why : "out of memory");
    } else {
        tri_kind *kind = kind_of(bus, v);
        p->relayed = frame != TRI_FRAME_MESSAGE;
        if (kind != NULL && kind->workers > 0) {
            tri_incoming_to_worker(bus, p);
        } else if (frame == TRI_FRAME_RELAYED) {
            tri_hosted_take(bus, tri_peer_node(peer), p);
        } else if (frame == TRI_FRAME_RETURNED) {
            tri_relay_on_returned(bus, p);
        } else {
            tri_lane_put(bus, v->shard, p);
        }
    }
    if (v != NULL) {
        tri_names_release(bus->cluster, v);
    }
    return taken;
}

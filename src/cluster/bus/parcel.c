/*
 * parcel.c - one message, marker, stop or watch on its way to a shard.
 *
 * Invariant: a parcel has one owner: the queue of a lane, a session until it
 * is acknowledged, or the function that just took it from one of these. It ends
 * by being delivered, or in tri_parcel_fail, where its message always becomes a
 * dead letter or an error for its asker.
 */
#include "cluster/bus/parcel.h"

#include <stdlib.h>

#include "base/check.h"
#include "cluster/bus/call.h"
#include "cluster/bus/peer.h"
#include "cluster/bus/request.h"
#include "cluster/transport/frame.h"
#include "cluster/virtual/names.h"
#include "core/cell/mem.h"
#include "core/mail/send.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/types.h"
#include "troupe/system.h"

void tri_parcel_free(tri_bus *bus, tri_parcel *p)
{
    TRI_CHECK(p != NULL);
    if (p->msg != NULL) {
        tri_msg_free(&tri_bus_worker(bus)->cache, p->msg);
    }
    if (p->v != NULL) {
        tri_names_release(bus->cluster, p->v);
    }
    free(p->head);
    free(p->bytes);
    free(p->type.name);
    free(p->type.table);
    free(p);
}

uint32_t tri_parcel_dead_reason(tr_err err)
{
    switch (err) {
    case TR_EUNREACHABLE:
        return TR_DEAD_UNREACHABLE;
    case TR_EUNKNOWN:
        return TR_DEAD_UNKNOWN;
    case TR_ECLOSED:
        return TR_DEAD_CLOSED;
    case TR_ENOMEM:
        return TR_DEAD_NO_MEMORY;
    case TR_ELIMIT:
    case TR_EFULL:
        return TR_DEAD_FULL;
    case TR_ETIMEDOUT:
        return TR_DEAD_EXPIRED;
    case TR_EFOREIGN:
        return TR_DEAD_FOREIGN;
    case TR_EUNHANDLED:
    case TR_ESCHEMA:
        return TR_DEAD_UNHANDLED;
    default:
        return TR_DEAD_NO_SUCH_ACTOR;
    }
}

void tri_parcel_kill_mail(tri_bus *bus, tri_virtual *v, tri_item *mail,
                          uint32_t reason)
{
    while (mail != NULL) {
        tri_item *next = mail->next;
        tri_dead(tri_bus_worker(bus), tri_bus_ref(bus, v), tri_msg_from(mail),
                 reason);
        mail = next;
    }
}

void tri_parcel_fail(tri_bus *bus, tri_parcel *p, tr_err err, const char *text)
{
    TRI_CHECK(err != TR_OK);
    TRI_CHECK(p->kind != TRI_PARCEL_PASSED || p->head != NULL);
    if (p->kind == TRI_PARCEL_MESSAGE && p->msg != NULL) {
        tri_dead(tri_bus_worker(bus), tri_bus_ref(bus, p->v), p->msg,
                 tri_parcel_dead_reason(err));
        p->msg = NULL;
    } else if (p->kind == TRI_PARCEL_PASSED) {
        tri_request_refuse_later(bus, p->head, p->v, p->type.name, err, text);
    }
    tri_parcel_free(bus, p);
}

void tri_parcel_done(tri_bus *bus, tri_parcel *p, bool received, bool sent)
{
    TRI_CHECK(!received || sent);
    if (received) {
        tri_parcel_free(bus, p);
        return;
    }
    if (!sent) {
        tri_call_undo(bus, p);
    }
    if (bus->closed) {
        tri_parcel_fail(bus, p, TR_ECLOSED, "the system is closing");
    } else if (p->call != 0) {
        tri_parcel_free(bus, p);  // tri_call_end_lost ends the call
    } else if (!sent || p->kind == TRI_PARCEL_FLUSH ||
               p->kind == TRI_PARCEL_WATCH) {
        p->next = bus->given_back;  // goes to the next owner
        bus->given_back = p;
    } else {
        tri_parcel_fail(bus, p, TR_EUNKNOWN, "the node was lost");
    }
}

tri_parcel *tri_parcel_new(tri_bus *bus, tri_parcel_kind kind, tri_virtual *v,
                           tri_node origin)
{
    TRI_CHECK(v != NULL);
    tri_parcel *p = tri_mem_calloc(&bus->sys->mem, sizeof(*p));
    if (p != NULL) {
        p->kind = (uint8_t)kind;
        p->v = v;
        p->shard = v->shard;
        p->origin = origin;
        tri_names_hold_record(bus->cluster, v);
    }
    return p;
}

tri_parcel *tri_parcel_from_mail(tri_bus *bus, tri_virtual *v, tri_item *mail)
{
    TRI_CHECK(v != NULL && mail != NULL);
    tri_parcel *list = NULL, **end = &list;
    while (mail != NULL) {
        tri_item *next = mail->next;
        mail->next = NULL;
        tri_parcel *p = tri_parcel_new(bus, TRI_PARCEL_MESSAGE, v, bus->node);
        if (p != NULL) {
            p->msg = tri_msg_from(mail);
            *end = p;
            end = &p->next;
        } else {
            tri_parcel_kill_mail(bus, v, mail, TR_DEAD_NO_MEMORY);
        }
        mail = next;
    }
    return list;
}

tri_parcel *tri_parcel_marker(tri_bus *bus, uint32_t shard, tri_node origin,
                              uint64_t token, uint8_t forwards)
{
    TRI_CHECK(token != 0);
    tri_parcel *p = tri_mem_calloc(&bus->sys->mem, sizeof(*p));
    if (p != NULL) {
        p->kind = TRI_PARCEL_FLUSH;
        p->shard = shard;
        p->origin = origin;
        p->token = token;
        p->forwards = forwards;
    }
    return p;
}

void tri_parcel_answer_marker(tri_bus *bus, tri_parcel *p)
{
    TRI_CHECK(p->kind == TRI_PARCEL_FLUSH);
    tri_writer w = tri_peer_frame(bus, TRI_FRAME_FLUSHED);
    tri_write_u32(&w, p->shard);
    tri_write_u64(&w, p->token);
    // Without memory its lane gives the mail up after TRI_LANE_WAIT.
    (void)tri_peer_put(bus, p->origin, &w, NULL);
    tri_parcel_free(bus, p);
}

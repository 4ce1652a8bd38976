/*
 * deliver.c - delivers parcels to the actors of a shard that is open here.
 *
 * Once an actor has begun, senders of this node push into its mailbox past the
 * bus. So all messages to one actor that the bus has are delivered together:
 * the first of them begins the actor with all of them in its queue.
 *
 * Invariant: tri_virtual.group is NULL outside of tri_deliver_here.
 */
#include "cluster/bus/deliver.h"

#include <stddef.h>

#include "base/check.h"
#include "cluster/bus/incoming.h"
#include "cluster/bus/parcel.h"
#include "cluster/bus/relay.h"
#include "cluster/bus/remote_stop.h"
#include "cluster/bus/remote_watch.h"
#include "cluster/virtual/catalog.h"
#include "cluster/virtual/names.h"
#include "cluster/virtual/virtual.h"
#include "core/cell/cell_path.h"
#include "core/cell/message.h"

/*
 * Returns the message of a parcel, decoded if it came from another node; NULL
 * if that has failed. Takes p. What an earlier incarnation of this node has
 * taken comes too late, as what other dead nodes have passed on (incoming.c).
 */
static tr_msg *unpack(tri_bus *bus, tri_parcel *p)
{
    char text[TRI_SHOWN_MAX];
    tr_err err = TR_OK;
    if (p->kind == TRI_PARCEL_PASSED && !tri_node_is(p->taken_as, bus->node)) {
        tri_parcel_fail(bus, p, TR_EUNREACHABLE, "its node was lost meanwhile");
        return NULL;
    }
    tr_msg *msg = p->kind == TRI_PARCEL_PASSED
                      ? tri_incoming_decode(bus, p, &err, text, sizeof(text))
                  : p->kind == TRI_PARCEL_CONTROL
                      ? tri_remote_stop_poison_message(bus)
                      : p->msg;
    if (msg == NULL) {
        tri_parcel_fail(bus, p, err != TR_OK ? err : TR_ENOMEM, text);
        return NULL;
    }
    p->msg = NULL;
    tri_parcel_free(bus, p);
    return msg;
}

/*
 * Delivers parcels of one actor; takes the list. Returns messages that a hosted
 * actor refuses because it is ending.
 */
static tri_item *deliver_list(tri_bus *bus, tri_virtual *v, tri_parcel *list)
{
    tri_item *mail = NULL, **mail_end = &mail;
    tri_parcel *rest = NULL, **rest_end = &rest, *next;
    for (tri_parcel *p = list; p != NULL; p = next) {
        next = p->next;
        p->next = NULL;
        if (p->kind == TRI_PARCEL_WATCH || tri_remote_stop_is_signal(p)) {
            *rest_end = p;
            rest_end = &p->next;
            continue;
        }
        if (p->kind == TRI_PARCEL_CONTROL && mail == NULL &&
            !tri_bus_is_active(bus, v)) {
            tri_parcel_free(bus, p);  // there is nothing to poison
            continue;
        }
        tr_msg *msg = unpack(bus, p);
        if (msg != NULL) {
            *mail_end = &msg->item;
            msg->item.next = NULL;
            mail_end = &msg->item.next;
        }
    }
    if (mail != NULL) {
        tr_err err =
            tri_catalog_deliver(bus->cluster, tri_bus_worker(bus), v, &mail);
        if (err != TR_OK && err != TR_EWOULDBLOCK) {
            tri_parcel_kill_mail(bus, v, mail, tri_parcel_dead_reason(err));
            mail = NULL;
        }
    }
    for (tri_parcel *p = rest; p != NULL; p = next) {
        next = p->next;
        if (p->kind == TRI_PARCEL_WATCH) {
            tri_remote_watch_here(bus, p);
        } else {
            tri_remote_stop_here(bus, p);
        }
    }
    return mail;
}

tri_item *tri_deliver_one(tri_bus *bus, tri_virtual *v, tri_parcel *p)
{
    TRI_CHECK(p->next == NULL);
    return deliver_list(bus, v, p);
}

void tri_deliver_here(tri_bus *bus, tri_parcel *list)
{
    tri_parcel *heads = NULL, **heads_end = &heads;
    tri_parcel *markers = NULL, **markers_end = &markers, *next;
    for (tri_parcel *p = list; p != NULL; p = next) {
        next = p->next;
        p->next = NULL;
        if (p->kind == TRI_PARCEL_FLUSH) {
            *markers_end = p;
            markers_end = &p->next;
        } else if (p->v->group == NULL) {
            p->next = p;
            p->next_head = NULL;  // a parcel may be delivered a second time
            p->v->group = p;
            *heads_end = p;
            heads_end = &p->next_head;
        } else {
            p->next = p->v->group->next;
            p->v->group->next = p;
            p->v->group = p;
        }
    }
    for (tri_parcel *p = heads; p != NULL; p = next) {
        next = p->next_head;
        tri_virtual *v = p->v;
        tri_parcel *last = v->group;
        v->group = NULL;
        tri_parcel *first = last->next;
        last->next = NULL;
        tri_names_hold_record(bus->cluster, v);
        if (tri_relay_is_needed(bus, v)) {
            tri_relay_send(bus, v, first);
        } else {
            tri_item *refused = deliver_list(bus, v, first);
            TRI_CHECK(refused == NULL);
        }
        tri_names_release(bus->cluster, v);
    }
    for (tri_parcel *p = markers; p != NULL; p = next) {
        next = p->next;
        tri_parcel_answer_marker(bus, p);
    }
}

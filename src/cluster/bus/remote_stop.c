/*
 * remote_stop.c - stops, kills and poisons actors that are on other nodes.
 *
 * A signal travels as a parcel in the lane of the actor's shard, behind the mail
 * that was sent before it.
 */
#include "cluster/bus/remote_stop.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/check.h"
#include "cluster/bus/hosted.h"
#include "cluster/bus/lane.h"
#include "cluster/bus/peer.h"
#include "cluster/virtual/actor_id.h"
#include "cluster/virtual/names.h"
#include "core/cell/cell.h"
#include "core/cell/message.h"
#include "core/life/signal.h"
#include "core/run/worker.h"
#include "system/system_log.h"
#include "troupe/message.h"
#include "troupe/observe.h"

/* Stands for tr_poison where others have a signal: stop after the mail. */
#define SIGNAL_POISON UINT64_C(0x10000)

bool tri_remote_stop_signal(tri_worker *worker, tri_cell *cell, uint32_t signal)
{
    return tri_bus_tell_remote(worker, cell, TRI_NOTE_SIGNAL, signal, NULL);
}

bool tri_remote_stop_poison(tri_worker *worker, tri_cell *cell, tr_msg *msg)
{
    TRI_CHECK(msg != NULL);
    bool taken =
        tri_bus_tell_remote(worker, cell, TRI_NOTE_SIGNAL, SIGNAL_POISON, NULL);
    if (taken) {
        tri_msg_free(&worker->cache, msg);
    }
    return taken;
}

/* Puts a signal into the lane of the actor. Returns false without memory. */
static bool put_signal(tri_bus *bus, tri_virtual *v, tri_node origin,
                       uint64_t signal, uint8_t forwards, bool relayed)
{
    tri_parcel *p = tri_parcel_new(bus, TRI_PARCEL_CONTROL, v, origin);
    if (p == NULL) {
        return false;
    }
    p->token = signal;
    p->forwards = forwards;
    p->relayed = relayed;
    if (relayed) {
        tri_hosted_take(bus, origin, p);
    } else {
        tri_lane_put(bus, v->shard, p);
    }
    return true;
}

void tri_remote_stop_note(tri_bus *bus, tri_virtual *v, uint64_t signal)
{
    TRI_CHECK(v != NULL);
    tri_lane_take_mail(bus, v);  // what was sent before it goes before it
    if (!put_signal(bus, v, bus->node, signal, 0, false)) {
        tri_logf(bus->sys, TR_LOG_ERROR, NULL, NULL,
                 "out of memory: %s is not stopped", v->text);
    }
}

bool tri_remote_stop_on_frame(tri_bus *bus, tri_peer *peer, tri_reader *reader)
{
    char text[TRI_ACTOR_ID_MAX + 1];
    tr_err err;
    (void)tri_read_u32(reader);
    (void)tri_read_u32(reader);
    (void)tri_read_u64(reader);
    uint64_t signal = tri_read_u64(reader);
    uint8_t forwards = tri_read_u8(reader);
    bool relayed = tri_read_u8(reader) != 0;
    tri_read_text(reader, text, TRI_ACTOR_ID_MAX);
    if (reader->failed ||
        (signal != TRI_SIG_STOP && signal != TRI_SIG_KILL &&
         signal != TRI_SIG_RESTART_ASKED && signal != SIGNAL_POISON)) {
        return true;
    }
    tri_virtual *v = tri_bus_record(bus, text, &err);
    bool taken = v == NULL || put_signal(bus, v, tri_peer_node(peer), signal,
                                         forwards, relayed);
    if (v != NULL) {
        tri_names_release(bus->cluster, v);
    }
    return taken;
}

bool tri_remote_stop_is_signal(const tri_parcel *p)
{
    return p->kind == TRI_PARCEL_CONTROL && p->token != SIGNAL_POISON;
}

tr_msg *tri_remote_stop_poison_message(tri_bus *bus)
{
    tr_none nothing = {};
    tr_msg *msg = tri_msg_new(&tri_bus_worker(bus)->cache, &tr_none_tr_type,
                              &nothing, false);
    if (msg != NULL) {
        msg->item.kind = TRI_ITEM_POISON;
        msg->sender = (tr_ref){0};
    }
    return msg;
}

void tri_remote_stop_here(tri_bus *bus, tri_parcel *p)
{
    TRI_CHECK(tri_remote_stop_is_signal(p));
    tri_cell *cell = &p->v->cell;
    if (tri_bus_is_active(bus, p->v)) {
        // Relaxed: the parcel holds the record, so it does not change.
        tri_signal(tri_bus_worker(bus), cell,
                   atomic_load_explicit(&cell->id, memory_order_relaxed),
                   (uint32_t)p->token);
    }
    tri_parcel_free(bus, p);
}

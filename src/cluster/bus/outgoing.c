/*
 * outgoing.c - sends parcels to other nodes: messages of our senders, messages
 * that are passed on, markers, stops and watches.
 */
#include "cluster/bus/outgoing.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/bus/call.h"
#include "cluster/bus/peer.h"
#include "cluster/bus/wire_type.h"
#include "cluster/transport/envelope.h"
#include "cluster/transport/frame.h"
#include "cluster/transport/packet.h"
#include "cluster/transport/session.h"
#include "cluster/transport/wire.h"
#include "cluster/virtual/actor_id.h"
#include "cluster/virtual/virtual.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/system.h"
#include "schema/binary_write.h"
#include "schema/codec.h"
#include "troupe/actor.h"
#include "troupe/base.h"
#include "troupe/message.h"

/* Returns the flags of the handler for this type, as far as it is known. */
static uint16_t flags_of(tri_virtual *v, const tr_type *type)
{
    const tr_handler *h =
        v->kind != NULL ? tri_wire_type_handler(v->kind, type->name) : NULL;
    uint32_t flags = h != NULL ? h->flags : 0;
    uint16_t out = 0;
    if (flags & TR_READ_ONLY) {
        out |= TRI_FLAG_READ_ONLY;
    }
    if (flags & TR_ALWAYS_INTERLEAVE) {
        out |= TRI_FLAG_READ_ONLY | TRI_FLAG_ALWAYS_INTERLEAVE;
    }
    if (flags & TR_SUPPRESS_KEEP_ALIVE) {
        out |= TRI_FLAG_SUPPRESS_KEEP_ALIVE;
    }
    if (flags & TR_LOCAL_ONLY) {
        out |= TRI_FLAG_IS_LOCAL_ONLY;
    }
    return out;
}

/*
 * Writes the payload of e into memory that the caller frees.
 * Errors: TR_ELIMIT, TR_ENOMEM.
 */
static tr_err write_payload(tri_bus *bus, const tr_msg *msg, tri_envelope *e,
                            unsigned char **bytes)
{
    tri_ref_codec refs = tri_wire_type_refs(bus);
    tri_codec codec = {.refs = &refs};
    const tr_type *type = msg->item.type;
    size_t size = tri_binary_write(type, msg->payload, NULL, 0, &codec);
    *bytes = NULL;
    if (size > TRI_PACKET_MAX / 2) {
        return TR_ELIMIT;
    }
    *bytes = tri_mem_calloc(&bus->sys->mem, size + 1);
    if (*bytes == NULL) {
        return TR_ENOMEM;
    }
    (void)tri_binary_write(type, msg->payload, *bytes, size, &codec);
    e->payload = (tr_bytes){*bytes, size};
    return TR_OK;
}

/* Writes the envelope of a message of our senders. */
static tr_err write_ours(tri_bus *bus, tri_node to, tri_parcel *p,
                         tri_peer *peer, tri_writer *w)
{
    TRI_CHECK(p->kind == TRI_PARCEL_MESSAGE && p->msg != NULL);
    tr_msg *msg = p->msg;
    const tr_type *type = msg->item.type;
    tri_envelope e = {.direction = TRI_ONE_WAY,
                      .target_node = to.slot,
                      .sender_node = bus->node.slot,
                      .flags = flags_of(p->v, type)};
    const char *why;
    if (e.flags & TRI_FLAG_IS_LOCAL_ONLY) {
        return TR_EFOREIGN;
    }
    memcpy(e.target, p->v->text, p->v->size + 1u);
    size_t at =
        tri_wire_type_ref_text(bus, msg->sender, e.sender, TRI_ACTOR_ID_MAX);
    e.sender[at <= TRI_ACTOR_ID_MAX ? at : 0] = '\0';
    e.type = tri_wire_type_declare(bus, peer, type);
    unsigned char *bytes;
    tr_err err = write_payload(bus, msg, &e, &bytes);
    if (err == TR_OK && e.type == 0) {
        err = TR_ENOMEM;
    }
    if (err == TR_OK && (msg->item.flags & TRI_MSG_ASK) &&
        !(msg->item.flags & TRI_MSG_ANSWERED)) {
        err = tri_call_begin(bus, to, p, &e);
    }
    if (err == TR_OK) {
        err = tri_envelope_check(&e, &why);
    }
    if (err == TR_OK) {
        tri_envelope_write(w, &e);
    }
    free(bytes);
    return err;
}

/* Writes the envelope of a message that this node passes on. */
static tr_err write_passed(tri_bus *bus, tri_node to, tri_parcel *p,
                           tri_peer *peer, tri_writer *w)
{
    TRI_CHECK(p->kind == TRI_PARCEL_PASSED && p->head != NULL);
    tri_envelope e = *p->head;
    const char *why;
    if (e.forwards >= TRI_FORWARDS_MAX) {
        bus->counts.too_often++;
        return TR_ELIMIT;
    }
    e.path[e.forwards++] = p->taken_as;
    e.target_node = to.slot;
    e.type = tri_wire_type_declare_as(bus, peer, p->type.name, p->type.schema,
                                      p->type.table);
    if (e.direction == TRI_REQUEST) {
        e.ttl_ms =
            tri_call_ttl_ms(bus, p->arrived + TR_MS((tr_nanos)p->head->ttl_ms));
        if (e.ttl_ms == 0) {
            return TR_ETIMEDOUT;
        }
    }
    tr_err err = e.type == 0 ? TR_ENOMEM : tri_envelope_check(&e, &why);
    if (err == TR_OK) {
        bus->counts.passed++;
        tri_envelope_write(w, &e);
    }
    return err;
}

/* Sends a marker, a stop or a watch. Returns false if there is no room. */
static bool send_short(tri_bus *bus, tri_node to, tri_parcel *p)
{
    tri_writer w =
        tri_peer_frame(bus, p->kind == TRI_PARCEL_FLUSH   ? TRI_FRAME_FLUSH
                            : p->kind == TRI_PARCEL_WATCH ? TRI_FRAME_WATCH
                                                          : TRI_FRAME_CONTROL);
    tri_write_u32(&w, p->shard);
    tri_write_u32(&w, p->origin.slot);
    tri_write_u64(&w, p->origin.incarnation);
    tri_write_u64(&w, p->token);
    tri_write_u8(&w, (uint8_t)(p->forwards + 1));
    tri_write_u8(&w, p->relayed);
    if (p->v != NULL) {
        tri_write_text(&w, p->v->text);
    }
    if (p->forwards < TRI_FORWARDS_MAX) {
        return tri_peer_put(bus, to, &w, p);
    }
    free(w.bytes);
    tri_parcel_free(bus, p);
    return true;
}

static bool send_as(tri_bus *bus, tri_node to, tri_parcel *p,
                    tri_frame_kind kind)
{
    tri_peer *peer = tri_peer_get(bus, to.slot);
    if (peer == NULL || tri_session_is_full(&peer->session)) {
        return false;  // before its type is declared
    }
    if (p->kind != TRI_PARCEL_MESSAGE && p->kind != TRI_PARCEL_PASSED) {
        return send_short(bus, to, p);
    }
    tri_writer w = tri_peer_frame(bus, kind);
    tr_err err = p->kind == TRI_PARCEL_PASSED
                     ? write_passed(bus, to, p, peer, &w)
                     : write_ours(bus, to, p, peer, &w);
    if (err == TR_OK && !tri_peer_put(bus, to, &w, p)) {
        tri_call_undo(bus, p);
        return false;
    }
    free(w.bytes);
    if (err != TR_OK) {
        tri_call_undo(bus, p);
        tri_parcel_fail(bus, p, err, tr_strerror(err));
        return true;
    }
    bus->counts.sent++;
    return true;
}

bool tri_outgoing_send(tri_bus *bus, tri_node to, tri_parcel *p)
{
    return send_as(bus, to, p,
                   p->relayed ? TRI_FRAME_RELAYED : TRI_FRAME_MESSAGE);
}

bool tri_outgoing_send_back(tri_bus *bus, tri_node owner, tri_parcel *p)
{
    TRI_CHECK(p->relayed);
    p->relayed = false;
    return send_as(bus, owner, p, TRI_FRAME_RETURNED);
}

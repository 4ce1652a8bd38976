/*
 * bus_call.c - envelopes that go out: ours, those that are passed on, marks.
 *
 * Invariant: a request is in `calls` before it is sent (BU2), and out of it
 * again where it was not sent after all: then its parcel has its message, and
 * says why.
 */
#include "cluster/bus_call.h"

#include "base/log.h"
#include "system/layers.h"

enum { WHEEL_CALL = 0 };

static uint16_t flags_of(tri_virtual *v, const tr_type *type)
{
    const tr_handler *h =
        v->kind != NULL ? tri_type_handler(v->kind, type->name) : NULL;
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

/* What is left, in whole milliseconds; 0: nothing. */
static uint32_t ttl_of(tri_bus *bus, tr_nanos deadline)
{
    tr_nanos left = deadline - tri_bus_now(bus);
    if (deadline == TR_FOREVER || left / TR_MS(1) >= TRI_TTL_MAX_MS) {
        return TRI_TTL_MAX_MS;
    }
    return left <= 0 ? 0 : (uint32_t)((left + TR_MS(1) - 1) / TR_MS(1));
}

/* The callback is there before the request is sent (BU2). */
static tr_err begin_call(tri_bus *bus, tri_route *r, tri_parcel *p,
                         tri_envelope *e)
{
    tr_nanos deadline = tri_msg_ask(p->msg)->deadline;
    e->direction = TRI_REQUEST;
    e->ttl_ms = ttl_of(bus, deadline);
    if (e->ttl_ms == 0) {
        return TR_ETIMEDOUT;
    }
    if (tri_map_count(&bus->calls) >= TRI_CALLS_MAX) {
        return TR_ELIMIT;
    }
    tri_call *call = tri_mem_calloc(&bus->sys->mem, sizeof(*call));
    if (call == NULL) {
        return TR_ENOMEM;
    }
    call->correlation = e->correlation = ++bus->next_number;
    call->msg = p->msg;
    call->v = p->v;
    call->node = r->place.node;
    call->started = tri_bus_now(bus);
    call->deadline = call->started + TR_MS((tr_nanos)e->ttl_ms);
    if (tri_map_put(&bus->calls, call->correlation, call) != TR_OK) {
        free(call);
        return TR_ENOMEM;
    }
    tri_wheel_arm(&bus->wheel, &call->timer, call->deadline, WHEEL_CALL);
    p->call = call->correlation;
    p->msg = NULL;
    return TR_OK;
}

void tri_call_undo(tri_bus *bus, tri_parcel *p)
{
    tri_call *call = p->call != 0 ? tri_map_remove(&bus->calls, p->call) : NULL;
    if (call != NULL) {
        tri_wheel_cancel(&bus->wheel, &call->timer);
        p->msg = call->msg;
        p->call = 0;
        free(call);
    }
}

bool tri_call_home(tri_bus *bus, tri_parcel *p)
{
    p->call = p->head->correlation;
    tri_call_undo(bus, p);
    p->call = 0;
    if (p->msg == NULL) {
        return false;
    }
    p->kind = TRI_PARCEL_MESSAGE;
    p->returns = p->head->returns;
    p->msg->node.flags |= TRI_MSG_FOREIGN;  // it may go the same way again
    return true;
}

static tr_err write_ours(tri_bus *bus, tri_route *r, tri_parcel *p,
                         tri_peer *peer, tri_writer *w)
{
    tr_msg *msg = p->msg;
    const tr_type *type = msg->node.type;
    tri_envelope e = {.direction = TRI_ONE_WAY,
                      .target_node = r->place.node,
                      .sender_node = bus->here,
                      .place = r->place.number,
                      .place_life = r->place.life,
                      .through = msg->node.flags & TRI_MSG_FOREIGN
                                     ? TRI_THROUGH_ALL
                                     : UINT64_C(1) << bus->here,
                      .returns = p->returns,
                      .flags = flags_of(p->v, type)};
    tri_ref_codec refs = tri_type_refs(bus);
    tri_codec codec = {.refs = &refs};
    const char *why;
    if (e.flags & TRI_FLAG_IS_LOCAL_ONLY) {
        return TR_EFOREIGN;  // MS10
    }
    memcpy(e.target, p->v->text, p->v->size + 1u);
    size_t at = tri_type_ref_text(bus, msg->sender, e.sender, TRI_ID_MAX);
    e.sender[at <= TRI_ID_MAX ? at : 0] = '\0';
    e.type = tri_type_declare(bus, peer, type);
    size_t size = tri_binary_write(type, msg->payload, NULL, 0, &codec);
    if (size > TRI_PACKET_MAX / 2) {
        return TR_ELIMIT;
    }
    unsigned char *bytes = tri_mem_calloc(&bus->sys->mem, size + 1);
    if (bytes == NULL || e.type == 0) {
        free(bytes);
        return TR_ENOMEM;
    }
    (void)tri_binary_write(type, msg->payload, bytes, size, &codec);
    e.payload = (tr_bytes){bytes, size};
    tr_err err = TR_OK;
    if ((msg->node.flags & TRI_MSG_ASK) &&
        !(msg->node.flags & TRI_MSG_ANSWERED)) {
        err = begin_call(bus, r, p, &e);
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

/* One more node passes it on; its origin hears where the actor is. */
static tr_err write_passed(tri_bus *bus, tri_route *r, tri_parcel *p,
                           tri_peer *peer, tri_writer *w)
{
    tri_envelope e = *p->head;
    const char *why;
    e.forwards++;
    e.through |= UINT64_C(1) << bus->here;
    e.target_node = r->place.node;
    e.place = r->place.number;
    e.place_life = r->place.life;
    e.type = tri_type_declare_as(bus, peer, p->type.name, p->type.schema,
                                 p->type.table);
    if (e.direction == TRI_REQUEST) {
        e.ttl_ms =
            ttl_of(bus, (tr_nanos)p->token + TR_MS((tr_nanos)p->head->ttl_ms));
        if (e.ttl_ms == 0) {
            return TR_ETIMEDOUT;
        }
    }
    tr_err err = e.type == 0 ? TR_ENOMEM : tri_envelope_check(&e, &why);
    if (err == TR_ELIMIT) {
        bus->counts.too_often++;
        p->head->forwards = e.forwards;  // its end says why
    }
    if (err == TR_OK) {
        bus->counts.passed++;
        tri_envelope_write(w, &e);
        if (r->place.node != e.sender_node) {
            (void)tri_route_tell(bus, e.sender_node, p->v->text, r->place, 0);
        }
    }
    return err;
}

static void send_mark(tri_bus *bus, tri_route *r, tri_parcel *p)
{
    tri_writer w = tri_bus_item(
        bus, p->kind == TRI_PARCEL_FLUSH ? TRI_ITEM_FLUSH : TRI_ITEM_CONTROL);
    tri_write_u32(&w, p->origin);
    tri_write_u64(&w, p->token);
    tri_write_u8(&w, (uint8_t)(p->forwards + 1));
    tri_write_text(&w, p->v->text);
    if (p->kind == TRI_PARCEL_FLUSH) {
        tri_write_u64(&w, p->number);
    }
    // A marker that is lost is waited for no longer than TRI_FLUSH_WAIT.
    if (p->forwards <= TRI_FORWARDS_MAX &&
        !tri_bus_put(bus, r->place.node, &w, NULL) &&
        p->kind == TRI_PARCEL_CONTROL) {
        tri_logf(bus->sys, TR_LOG_ERROR, NULL, NULL,
                 "out of memory: %s is not stopped", p->v->text);
    }
    free(w.bytes);
    tri_parcel_free(bus, p);
}

void tri_call_send(tri_bus *bus, tri_route *r, tri_parcel *p)
{
    tri_peer *peer = tri_bus_peer(bus, r->place.node);
    tr_err err = TR_ENOMEM;
    if (p->kind == TRI_PARCEL_FLUSH || p->kind == TRI_PARCEL_CONTROL) {
        send_mark(bus, r, p);
        return;
    }
    tri_writer w = tri_bus_item(bus, TRI_ITEM_MESSAGE);
    if (peer != NULL && tri_session_is_full(&peer->session)) {
        err = TR_EFULL;  // before its type is declared
    } else if (peer != NULL) {
        err = p->kind == TRI_PARCEL_PASSED ? write_passed(bus, r, p, peer, &w)
                                           : write_ours(bus, r, p, peer, &w);
    }
    if (err == TR_OK && !tri_bus_put_mail(bus, r->place.node, &w, p)) {
        err = tri_session_is_full(&peer->session) ? TR_EFULL : TR_ENOMEM;
    }
    free(w.bytes);
    if (err != TR_OK) {
        tri_call_undo(bus, p);
        tri_parcel_fail(bus, p, err, tr_strerror(err));
        return;
    }
    bus->counts.sent++;
}

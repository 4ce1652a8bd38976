/*
 * bus_in.c - envelopes that come: to an answer, a parcel, or a message of ours.
 *
 * Nothing that came is lost in silence: what cannot be read is counted, and
 * what cannot be taken is refused, with the reason, towards its sender. A
 * request is in `heard` before its message exists, so its answer finds whom
 * to go to.
 */
#include "cluster/bus_call.h"

#include <stdio.h>

#include "schema/value.h"
#include "system/layers.h"

/* Whom to answer, by a number that the message carries. */
static tr_err hear(tri_bus *bus, tri_parcel *p, tr_msg *msg)
{
    size_t size = strlen(p->head->sender) + 1;
    tri_heard *heard = tri_mem_calloc(&bus->sys->mem, sizeof(*heard) + size);
    if (heard == NULL) {
        return TR_ENOMEM;
    }
    heard->id = ++bus->next_number;
    heard->correlation = p->head->correlation;
    heard->node = p->head->sender_node;
    heard->v = p->v;
    heard->told = p->head->forwards > 0 ? 0 : p->head->place;
    memcpy(heard->sender, p->head->sender, size);
    if (tri_map_put(&bus->heard, heard->id, heard) != TR_OK) {
        free(heard);
        return TR_ENOMEM;
    }
    *tri_msg_ask(msg) = (tri_ask){.correlation = heard->id,
                                  .deadline = (tr_nanos)p->token +
                                              TR_MS((tr_nanos)p->head->ttl_ms),
                                  .site = "another node"};
    msg->sender = bus->self;
    return TR_OK;
}

tr_msg *tri_call_decode(tri_bus *bus, tri_parcel *p, tr_err *err, char *text,
                        size_t size)
{
    tri_virtual *v = p->v;
    tri_shard *shard = &bus->cluster->shards[v->shard];
    tri_worker *worker = tri_bus_worker(bus);
    void *value;
    tri_lock_take(&shard->lock);
    tri_kind *kind = tri_kind_of(bus->cluster, v);
    tri_lock_drop(&shard->lock);
    snprintf(text, size, "its kind is not hosted here");
    *err = TR_ENOENT;
    if (kind == NULL) {
        return NULL;
    }
    const tr_handler *handler = tri_type_handler(kind, p->type.name);
    if (handler == NULL) {
        snprintf(text, size, "%s has no handler for %s", kind->name,
                 p->type.name);
        *err = TR_EUNHANDLED;  // BU10
        return NULL;
    }
    if (handler->flags & TR_LOCAL_ONLY) {
        snprintf(text, size, "%s is taken from its own node only",
                 p->type.name);
        *err = TR_EFOREIGN;
        return NULL;
    }
    *err = TR_ESCHEMA;
    if (!tri_type_fits(bus, handler->type, &p->type, text, size)) {
        return NULL;
    }
    *err =
        tri_type_read(bus, handler->type, p->head->payload, &value, text, size);
    if (*err != TR_OK) {
        return NULL;
    }
    bool asked = p->head->direction == TRI_REQUEST;
    tr_msg *msg = tri_msg_new(&worker->cache, handler->type, value, asked);
    tri_value_release(handler->type, value, NULL);
    free(value);
    *err = msg == NULL ? TR_ENOMEM : asked ? hear(bus, p, msg) : TR_OK;
    if (msg != NULL && *err != TR_OK) {
        msg->node.flags |= TRI_MSG_ANSWERED;
        tri_msg_free(&worker->cache, msg);
        msg = NULL;
    }
    if (msg == NULL) {
        snprintf(text, size, "out of memory");
        return NULL;
    }
    if (!asked) {
        tr_err none;
        tri_virtual *sender = p->head->sender[0] != '\0'
                                  ? tri_bus_record(bus, p->head->sender, &none)
                                  : NULL;
        msg->sender = sender != NULL ? tri_bus_ref(bus, sender) : (tr_ref){0};
    }
    msg->node.flags |= TRI_MSG_FOREIGN;
    // Relaxed: it never changes.
    msg->to_id = atomic_load_explicit(&v->cell.id, memory_order_relaxed);
    return msg;
}

static tri_parcel *parcel_from(tri_bus *bus, tri_virtual *v,
                               const tri_envelope *e,
                               const tri_known_type *type)
{
    tri_parcel *p = tri_mem_calloc(&bus->sys->mem, sizeof(*p));
    if (p == NULL) {
        return NULL;
    }
    p->kind = TRI_PARCEL_PASSED;
    p->v = v;
    p->origin = e->sender_node;
    p->token = (uint64_t)tri_bus_now(bus);
    p->head = tri_mem_calloc(&bus->sys->mem, sizeof(*p->head));
    p->bytes = tri_mem_calloc(&bus->sys->mem, e->payload.size + 1);
    p->type.schema = type->schema;
    tr_bytes name = {type->name, strlen(type->name)};
    tr_bytes table = {type->table, strlen(type->table)};
    p->type.name = tri_type_text(bus, name, TRI_ID_MAX);
    p->type.table = tri_type_text(bus, table, TRI_TABLE_MAX);
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

void tri_call_to_worker(tri_bus *bus, tri_parcel *p)
{
    char text[TRI_SHOWN_MAX];
    tr_err err;
    tr_msg *msg = p->kind == TRI_PARCEL_PASSED
                      ? tri_call_decode(bus, p, &err, text, sizeof(text))
                      : p->msg;
    if (msg == NULL) {
        tri_parcel_fail(bus, p, err, text);
        return;
    }
    p->msg = NULL;
    tri_actor_from who = {
        .sys = bus->sys, .worker = tri_bus_worker(bus), .sender = msg->sender};
    tri_send(&who, tri_bus_ref(bus, p->v), msg);
    tri_parcel_free(bus, p);
}

bool tri_call_message(tri_bus *bus, tri_peer *peer, tri_reader *reader)
{
    tri_envelope e;
    const char *why = "it cannot be read";
    if (!tri_envelope_read(reader, &e)) {
        bus->counts.refused++;
        return true;
    }
    bus->counts.received++;
    if (e.direction == TRI_RESPONSE) {
        tri_call_complete(bus, peer, &e);
        return true;
    }
    tr_err err = tri_envelope_check(&e, &why);
    const tri_known_type *type = e.type > 0 && e.type <= peer->in_count
                                     ? &peer->in_types[e.type - 1]
                                     : NULL;
    if (err == TR_OK && peer->refused) {
        err = TR_EFOREIGN;
        why = "it is of another namespace";
    }
    if (err == TR_OK && (type == NULL || type->name == NULL ||
                         type->table == NULL || e.sender_node >= bus->nodes)) {
        err = TR_EINVAL;
        why = "its type was not declared";
    }
    tri_virtual *v = NULL;
    if (err == TR_OK) {
        v = tri_bus_record(bus, e.target, &err);
        why = err != TR_OK ? tr_strerror(err) : NULL;
    }
    tri_parcel *p = err == TR_OK ? parcel_from(bus, v, &e, type) : NULL;
    if (p == NULL) {
        bus->counts.refused++;
        return tri_call_refuse(bus, &e, v, type != NULL ? type->name : NULL,
                               err != TR_OK ? err : TR_ENOMEM,
                               why != NULL ? why : "out of memory");
    }
    tri_shard *shard = &bus->cluster->shards[v->shard];
    tri_lock_take(&shard->lock);
    tri_kind *kind = tri_kind_of(bus->cluster, v);
    tri_lock_drop(&shard->lock);
    tri_route *r = NULL;
    if (kind != NULL && kind->workers > 0) {
        tri_call_to_worker(bus, p);
    } else if ((r = tri_route_get(bus, v)) == NULL) {
        tri_parcel_fail(bus, p, TR_ENOMEM, "out of memory");
    } else {
        tri_route_arrived(bus, r, p);
    }
    return true;
}

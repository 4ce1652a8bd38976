/*
 * call.c - requests that this node has sent and that wait for an answer.
 *
 * Invariant: a request is in bus->calls before it is sent, and taking it out is
 * its completion: by the answer, its deadline, the loss of its node or the end
 * of the system, whichever is first. If it was not sent after all, its parcel
 * has its message again.
 */
#include "cluster/bus/call.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/map.h"
#include "cluster/bus/peer.h"
#include "cluster/bus/wire_type.h"
#include "cluster/virtual/names.h"
#include "core/ask/answer.h"
#include "core/cell/cell_path.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/types.h"
#include "schema/value.h"
#include "troupe/message.h"

enum { CALLS_MAX = 1 << 20 };

/* ---- sending ---- */

uint32_t tri_call_ttl_ms(tri_bus *bus, tr_nanos deadline)
{
    tr_nanos left = deadline - tri_bus_now(bus);
    if (deadline == TR_FOREVER || left / TR_MS(1) >= TRI_CALL_TTL_MAX_MS) {
        return TRI_CALL_TTL_MAX_MS;
    }
    return left <= 0 ? 0 : (uint32_t)((left + TR_MS(1) - 1) / TR_MS(1));
}

tr_err tri_call_begin(tri_bus *bus, tri_node to, tri_parcel *p, tri_envelope *e)
{
    TRI_CHECK(p->msg != NULL && p->call == 0);
    tr_nanos deadline = tri_msg_ask(p->msg)->deadline;
    e->direction = TRI_REQUEST;
    e->ttl_ms = tri_call_ttl_ms(bus, deadline);
    if (e->ttl_ms == 0) {
        return TR_ETIMEDOUT;
    }
    if (tri_map_count(&bus->calls) >= CALLS_MAX) {
        return TR_ELIMIT;
    }
    tri_call *call = tri_mem_calloc(&bus->sys->mem, sizeof(*call));
    if (call == NULL) {
        return TR_ENOMEM;
    }
    call->correlation = e->correlation = ++bus->next_number;
    call->msg = p->msg;
    call->v = p->v;
    call->node = to;
    call->started = tri_bus_now(bus);
    call->deadline = call->started + TR_MS((tr_nanos)e->ttl_ms);
    if (tri_map_put(&bus->calls, call->correlation, call) != TR_OK) {
        free(call);
        return TR_ENOMEM;
    }
    tri_wheel_arm(&bus->wheel, &call->timer, call->deadline, 0);
    tri_names_hold_record(bus->cluster, call->v);
    p->call = call->correlation;
    p->msg = NULL;
    return TR_OK;
}

/* Frees a call whose message was taken. */
static void call_free(tri_bus *bus, tri_call *call)
{
    tri_names_release(bus->cluster, call->v);
    free(call);
}

void tri_call_undo(tri_bus *bus, tri_parcel *p)
{
    tri_call *call = p->call != 0 ? tri_map_remove(&bus->calls, p->call) : NULL;
    if (call != NULL) {
        TRI_CHECK(p->msg == NULL && call->msg != NULL);
        tri_wheel_cancel(&bus->wheel, &call->timer);
        p->msg = call->msg;
        p->call = 0;
        call_free(bus, call);
    }
}

/* ---- answers ---- */

/* Takes a call out of the table, which completes it; NULL: it has ended. */
static tri_call *take_call(tri_bus *bus, uint64_t correlation)
{
    tri_call *call = tri_map_remove(&bus->calls, correlation);
    if (call == NULL) {
        bus->counts.unknown++;  // its time was over
        return NULL;
    }
    TRI_CHECK(call->correlation == correlation && call->msg != NULL);
    tri_wheel_cancel(&bus->wheel, &call->timer);
    return call;
}

void tri_call_complete_here(tri_bus *bus, uint64_t correlation, tri_virtual *v,
                            tr_err err, const char *text, const tr_msg *reply)
{
    TRI_CHECK(err != TR_OK || reply != NULL);
    tri_call *call = take_call(bus, correlation);
    if (call == NULL) {
        return;
    }
    const tr_type *type = call->msg->item.type->reply;
    if (err == TR_OK && (type == NULL || reply->item.type == NULL ||
                         type->schema != reply->item.type->schema)) {
        err = TR_ESCHEMA;
    }
    if (err == TR_OK) {
        tri_answer_value(tri_bus_worker(bus), call->msg, tri_bus_ref(bus, v),
                         reply->payload);
    } else {
        tri_answer_error(tri_bus_worker(bus), call->msg, err, text);
    }
    call_free(bus, call);
}

/*
 * Reads the value of an answer. On an error, the text of the answer or what is
 * wrong with it is in `text`. On TR_OK the caller releases *value.
 */
static tr_err read_answer(tri_bus *bus, const tri_peer *peer,
                          const tri_envelope *e, const tr_type *type,
                          void **value, char *text, size_t size)
{
    if (e->err != TR_OK) {
        snprintf(text, size, "%.*s", (int)e->payload.size,
                 (const char *)e->payload.at);
        return (tr_err)e->err;
    }
    if (type == NULL || e->type == 0 || e->type > peer->in_count ||
        peer->in_types[e->type - 1].table == NULL ||
        !tri_wire_type_fits(bus, type, &peer->in_types[e->type - 1], text,
                            size)) {
        return TR_ESCHEMA;
    }
    return tri_wire_type_read(bus, type, e->payload, value, text, size);
}

void tri_call_on_answer(tri_bus *bus, tri_peer *peer, const tri_envelope *e)
{
    char text[4 * TRI_SHOWN_MAX] = "";
    void *value = NULL;
    TRI_CHECK(e->direction == TRI_RESPONSE);
    tri_call *call = take_call(bus, e->correlation);
    if (call == NULL) {
        return;
    }
    const tr_type *type = call->msg->item.type->reply;
    tri_worker *worker = tri_bus_worker(bus);
    tr_err err = read_answer(bus, peer, e, type, &value, text, sizeof(text));
    if (err == TR_OK) {
        tri_answer_value(worker, call->msg, tri_bus_ref(bus, call->v), value);
        tri_value_release(type, value, NULL);
        free(value);
    } else {
        tri_answer_error(worker, call->msg, err, text[0] != '\0' ? text : NULL);
    }
    call_free(bus, call);
}

/* ---- other ends ---- */

void tri_call_timeout(tri_bus *bus, tri_call *call)
{
    void *was = tri_map_remove(&bus->calls, call->correlation);
    TRI_CHECK(was == call);
    // The asker has a timer of its own; this one frees the call.
    tri_answer_error(tri_bus_worker(bus), call->msg, TR_ETIMEDOUT, NULL);
    call_free(bus, call);
}

/* Ends all calls, or those that are marked as lost, with an error. */
static void end_calls(tri_bus *bus, bool all, tr_err err, const char *text)
{
    tri_call *call;
    for (tri_map_iter it = tri_map_iter_begin(&bus->calls);
         (call = tri_map_iter_next(&bus->calls, &it)) != NULL;) {
        if (!all && !call->lost) {
            continue;
        }
        tri_map_remove(&bus->calls, call->correlation);
        tri_wheel_cancel(&bus->wheel, &call->timer);
        tri_answer_error(tri_bus_worker(bus), call->msg, err, text);
        call_free(bus, call);
    }
}

void tri_call_node_lost(tri_bus *bus, tri_node node)
{
    tri_call *call;
    TRI_CHECK(node.slot < TRI_NODES_MAX);
    for (tri_map_iter it = tri_map_iter_begin(&bus->calls);
         (call = tri_map_iter_next(&bus->calls, &it)) != NULL;) {
        call->lost = call->lost || tri_node_is(call->node, node);
        bus->calls_lost = bus->calls_lost || call->lost;
    }
}

void tri_call_end_lost(tri_bus *bus)
{
    if (bus->calls_lost) {
        bus->calls_lost = false;
        end_calls(bus, false, TR_EUNKNOWN,
                  "its node was lost, perhaps after it ran");
    }
}

void tri_call_close(tri_bus *bus)
{
    end_calls(bus, true, TR_ECLOSED, "the system is closing");
}

void tri_call_free_all(tri_bus *bus)
{
    tri_call *call;
    TRI_CHECK(bus->closed);
    for (tri_map_iter it = tri_map_iter_begin(&bus->calls);
         (call = tri_map_iter_next(&bus->calls, &it)) != NULL;) {
        tri_msg_free(&tri_bus_worker(bus)->cache, call->msg);
        call_free(bus, call);
    }
    tri_map_fini(&bus->calls);
}

/*
 * bus_answer.c - requests are completed: ours, and those that came.
 *
 * Invariant: a request that was sent is in `calls` until it is completed, and
 * taking it out is its completion: by the answer, its time, the loss of its
 * node or the end of the system, whichever is first (BU6). A request that
 * came is in `heard` until the runtime answers it, which it always does; an
 * answer that finds no memory is owed, and sent as an error when there is.
 */
#include "cluster/bus_call.h"

#include <stdio.h>

#include "base/log.h"
#include "schema/value.h"
#include "system/layers.h"

/* ---- refusing what came ---- */

static bool respond(tri_bus *bus, const tri_envelope *e, uint32_t node)
{
    tri_writer w = tri_bus_item(bus, TRI_ITEM_MESSAGE);
    tri_envelope_write(&w, e);
    return tri_bus_put(bus, node, &w, NULL);
}

/*
 * The answer to a request that was passed on until it came back to the node
 * of its asker; nothing is sent for that. err or reply.
 */
static void complete_here(tri_bus *bus, uint64_t correlation, tri_virtual *v,
                          tr_err err, const char *text, const tr_msg *reply)
{
    tri_call *call = tri_map_remove(&bus->calls, correlation);
    if (call == NULL) {
        bus->counts.unknown++;  // BU3: its time was over
        return;
    }
    tri_wheel_cancel(&bus->wheel, &call->timer);
    const tr_type *type = call->msg->node.type->reply;
    if (err == TR_OK && (type == NULL || reply->node.type == NULL ||
                         type->schema != reply->node.type->schema)) {
        err = TR_ESCHEMA;
    }
    if (err == TR_OK) {
        tri_answer_value(tri_bus_worker(bus), call->msg, tri_bus_ref(bus, v),
                         reply->payload);
    } else {
        tri_answer_error(tri_bus_worker(bus), call->msg, err, text);
    }
    free(call);
}

static bool is_often(const tri_envelope *head)
{
    return head->forwards > TRI_FORWARDS_MAX || head->returns > TRI_RETURNS_MAX;
}

bool tri_call_refuse(tri_bus *bus, const tri_envelope *head, tri_virtual *v,
                     const char *type, tr_err err, const char *text)
{
    if (head->direction == TRI_REQUEST && head->sender_node == bus->here) {
        complete_here(bus, head->correlation, v, err, text, NULL);
        return true;
    }
    if (head->direction == TRI_REQUEST) {
        tri_envelope answer = tri_envelope_answer(head);
        answer.err = (uint32_t)err;
        answer.payload = (tr_bytes){text, strlen(text)};
        return respond(bus, &answer, head->sender_node);
    }
    tr_type shown = {.name = type != NULL ? type : "message"};
    bus->sys->up->dead_letter_lost(
        bus->sys, v != NULL ? tri_bus_ref(bus, v) : (tr_ref){0}, &shown,
        is_often(head) ? TR_DEAD_FORWARDED : tri_bus_reason(err));
    return true;
}

/* Nobody can send it again: the error is sent when there is memory. */
void tri_call_refuse_later(tri_bus *bus, const tri_envelope *head,
                           tri_virtual *v, const char *type, tr_err err,
                           const char *text)
{
    if (tri_call_refuse(bus, head, v, type, err, text)) {
        return;
    }
    tri_heard *heard = tri_mem_calloc(
        &bus->sys->mem, sizeof(*heard) + strlen(head->sender) + 1);
    if (heard == NULL) {
        tri_logf(bus->sys, TR_LOG_ERROR, NULL, NULL,
                 "out of memory: an asker on node %u is told nothing, and "
                 "waits for its time",
                 head->sender_node);
        return;
    }
    heard->correlation = head->correlation;
    heard->node = head->sender_node;
    heard->v = v;
    memcpy(heard->sender, head->sender, strlen(head->sender) + 1);
    heard->next = bus->owed;
    bus->owed = heard;
}

/* ---- the answers to what was sent ---- */

void tri_call_complete(tri_bus *bus, tri_peer *peer, const tri_envelope *e)
{
    char text[4 * TRI_SHOWN_MAX] = "";
    void *value;
    tri_call *call = tri_map_remove(&bus->calls, e->correlation);
    if (call == NULL) {
        bus->counts.unknown++;  // BU3: its time was over
        return;
    }
    tri_wheel_cancel(&bus->wheel, &call->timer);
    tri_worker *worker = tri_bus_worker(bus);
    if (e->moved != 0) {
        tri_place place = {.node = e->moved_node,
                           .number = e->moved,
                           .life = peer->session.in_life};
        tri_route_learn(bus, call->v, place);
    }
    const tr_type *type = call->msg->node.type->reply;
    tr_err err = (tr_err)e->err;
    if (err != TR_OK) {
        snprintf(text, sizeof(text), "%.*s", (int)e->payload.size,
                 (const char *)e->payload.at);
    } else if (type == NULL || e->type == 0 || e->type > peer->in_count ||
               peer->in_types[e->type - 1].table == NULL ||
               !tri_type_fits(bus, type, &peer->in_types[e->type - 1], text,
                              sizeof(text))) {
        err = TR_ESCHEMA;
    } else {
        err = tri_type_read(bus, type, e->payload, &value, text, sizeof(text));
    }
    if (err == TR_OK) {
        tri_answer_value(worker, call->msg, tri_bus_ref(bus, call->v), value);
        tri_value_release(type, value, NULL);
        free(value);
    } else {
        tri_answer_error(worker, call->msg, err, text[0] != '\0' ? text : NULL);
    }
    free(call);
}

/* ---- the answers to what came ---- */

/* In the bus's cell, between two of its turns. */
bool tri_bus_reply(tri_worker *worker, tri_cell *cell, tr_msg *reply)
{
    tri_cluster *cluster = tri_cluster_of(worker->sys);
    tri_bus *bus = cluster != NULL ? tri_bus_of(cluster) : NULL;
    if (bus == NULL || tri_ref_cell(bus->self) != cell) {
        return false;
    }
    tri_heard *heard =
        tri_map_remove(&bus->heard, tri_msg_ask(reply)->correlation);
    if (heard == NULL) {
        return false;
    }
    tr_ctx ctx = {.magic = TRI_CTX_MAGIC,
                  .sys = bus->sys,
                  .quick_tag = TRI_NO_TAG,
                  .worker = worker,
                  .cell = cell};
    bus->ctx = &ctx;
    tri_envelope e = {.direction = TRI_RESPONSE,
                      .target_node = heard->node,
                      .sender_node = bus->here,
                      .correlation = heard->correlation};
    memcpy(e.target, heard->sender, strlen(heard->sender) + 1);
    memcpy(e.sender, heard->v->text, heard->v->size + 1u);
    tri_shard *shard = &cluster->shards[heard->v->shard];
    tri_lock_take(&shard->lock);
    tri_route *r = heard->v->kind != NULL && heard->v->kind->workers > 0
                       ? NULL
                       : heard->v->route;
    uint64_t here = r != NULL ? r->here : 0;
    tri_lock_drop(&shard->lock);
    if (here != 0 && here != heard->told) {  // MS15
        e.moved = here;
        e.moved_node = bus->here;
    }
    unsigned char *bytes = NULL;
    bool sent = heard->node == bus->here;
    tri_peer *peer = tri_bus_peer(bus, heard->node);
    if (reply->node.flags & TRI_MSG_ERROR) {
        tri_error_reply *error = (tri_error_reply *)(void *)reply->payload;
        e.err = (uint32_t)error->err;
        e.payload = (tr_bytes){error->text,
                               error->text != NULL ? strlen(error->text) : 0};
    } else if (peer != NULL) {
        tri_ref_codec refs = tri_type_refs(bus);
        tri_codec codec = {.refs = &refs};
        const tr_type *type = reply->node.type;
        e.type = tri_type_declare(bus, peer, type);
        size_t size = tri_binary_write(type, reply->payload, NULL, 0, &codec);
        bytes = tri_mem_calloc(&bus->sys->mem, size + 1);
        if (bytes == NULL || e.type == 0 || size > TRI_PACKET_MAX / 2) {
            e.err = size > TRI_PACKET_MAX / 2 ? TR_ELIMIT : TR_ENOMEM;
        } else {
            (void)tri_binary_write(type, reply->payload, bytes, size, &codec);
            e.payload = (tr_bytes){bytes, size};
        }
    }
    if (heard->node == bus->here) {
        complete_here(bus, heard->correlation, heard->v, (tr_err)e.err,
                      (const char *)e.payload.at, reply);
    } else if (peer != NULL) {
        sent = respond(bus, &e, heard->node);
    }
    free(bytes);
    tri_msg_free(&worker->cache, reply);
    if (sent) {
        free(heard);
    } else {
        heard->next = bus->owed;
        bus->owed = heard;
    }
    tri_bus_note nudge = {.what = TRI_NOTE_NOTHING};
    if (tri_bus_tell(bus, worker, &nudge) != TR_OK && !bus->closed) {
        tri_bus_settle(bus);
    }
    bus->ctx = NULL;
    return true;
}

bool tri_call_owed(tri_bus *bus)
{
    static const char why[] = "there was no memory for the answer";
    while (bus->owed != NULL) {
        tri_heard *heard = bus->owed;
        tri_envelope e = {.direction = TRI_RESPONSE,
                          .target_node = heard->node,
                          .sender_node = bus->here,
                          .correlation = heard->correlation,
                          .err = TR_ENOMEM,
                          .payload = {why, sizeof(why) - 1}};
        memcpy(e.target, heard->sender, strlen(heard->sender) + 1);
        memcpy(e.sender, heard->v->text, heard->v->size + 1u);
        if (!respond(bus, &e, heard->node)) {
            return true;
        }
        bus->owed = heard->next;
        free(heard);
    }
    return false;
}

/* ---- the ends of what was sent ---- */

void tri_call_timer(tri_bus *bus, tri_call *call)
{
    (void)tri_map_remove(&bus->calls, call->correlation);
    // The asker's own timer is exact; this one only tells it what is known.
    tri_answer_error(tri_bus_worker(bus), call->msg, TR_ETIMEDOUT, NULL);
    free(call);
}

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
        free(call);
    }
}

void tri_call_lost(tri_bus *bus, uint32_t node)
{
    tri_call *call;
    for (tri_map_iter it = tri_map_iter_begin(&bus->calls);
         (call = tri_map_iter_next(&bus->calls, &it)) != NULL;) {
        call->lost = call->lost || call->node == node;
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

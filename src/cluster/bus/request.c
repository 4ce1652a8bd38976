/*
 * request.c - requests of other nodes that this node has to answer.
 *
 * Invariant: a request is in bus->requests before its message exists, and until
 * the runtime answers it, which it always does. An answer that there is no
 * memory for goes to bus->unsent_answers, and an error is sent for it when
 * there is memory.
 */
#include "cluster/bus/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/map.h"
#include "cluster/bus/call.h"
#include "cluster/bus/parcel.h"
#include "cluster/bus/peer.h"
#include "cluster/bus/wire_type.h"
#include "cluster/transport/frame.h"
#include "cluster/transport/packet.h"
#include "cluster/transport/wire.h"
#include "cluster/virtual/actor_id.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/names.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/cell/ref.h"
#include "core/run/context.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/up.h"
#include "schema/binary_write.h"
#include "schema/codec.h"
#include "system/system_log.h"
#include "troupe/message.h"
#include "troupe/observe.h"
#include "troupe/system.h"

/* ---- requests ---- */

static tri_request *request_new(tri_bus *bus, const tri_envelope *head,
                                tri_virtual *v)
{
    size_t size = strlen(head->sender) + 1;
    tri_request *request =
        tri_mem_calloc(&bus->sys->mem, sizeof(*request) + size);
    if (request != NULL) {
        request->correlation = head->correlation;
        request->node = head->sender_node;
        request->v = v;
        tri_names_hold_record(bus->cluster, v);
        memcpy(request->sender, head->sender, size);
    }
    return request;
}

static void request_free(tri_bus *bus, tri_request *request)
{
    tri_names_release(bus->cluster, request->v);
    free(request);
}

/* Keeps a request whose answer could not be sent. Takes it. */
static void keep_unsent(tri_bus *bus, tri_request *request)
{
    TRI_CHECK(request->next == NULL);
    request->next = bus->unsent_answers;
    bus->unsent_answers = request;
}

tr_err tri_request_add(tri_bus *bus, const tri_envelope *head, tri_virtual *v,
                       tr_nanos arrived, tr_msg *msg)
{
    TRI_CHECK(head->direction == TRI_REQUEST && msg != NULL);
    tri_request *request = request_new(bus, head, v);
    if (request == NULL) {
        return TR_ENOMEM;
    }
    request->id = ++bus->next_number;
    if (tri_map_put(&bus->requests, request->id, request) != TR_OK) {
        request_free(bus, request);
        return TR_ENOMEM;
    }
    *tri_msg_ask(msg) =
        (tri_ask){.correlation = request->id,
                  .deadline = arrived + TR_MS((tr_nanos)head->ttl_ms),
                  .site = "another node"};
    msg->sender = bus->self;
    return TR_OK;
}

void tri_request_free_all(tri_bus *bus)
{
    tri_request *request;
    TRI_CHECK(bus->closed);
    for (tri_map_iter it = tri_map_iter_begin(&bus->requests);
         (request = tri_map_iter_next(&bus->requests, &it)) != NULL;) {
        request_free(bus, request);
    }
    tri_map_fini(&bus->requests);
    while (bus->unsent_answers != NULL) {
        request = bus->unsent_answers;
        bus->unsent_answers = request->next;
        request_free(bus, request);
    }
}

/* ---- errors ---- */

static bool respond(tri_bus *bus, const tri_envelope *e, uint32_t node)
{
    TRI_CHECK(e->direction == TRI_RESPONSE);
    tri_writer w = tri_peer_frame(bus, TRI_FRAME_MESSAGE);
    tri_envelope_write(&w, e);
    return tri_peer_put_slot(bus, node, &w);
}

static bool is_passed_too_often(const tri_envelope *head)
{
    return head->forwards >= TRI_FORWARDS_MAX;
}

bool tri_request_refuse(tri_bus *bus, const tri_envelope *head, tri_virtual *v,
                        const char *type, tr_err err, const char *text)
{
    TRI_CHECK(err != TR_OK && text != NULL);
    if (head->direction == TRI_REQUEST && head->sender_node == bus->node.slot) {
        tri_call_complete_here(bus, head->correlation, v, err, text, NULL);
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
        is_passed_too_often(head) ? TR_DEAD_FORWARDED
                                  : tri_parcel_dead_reason(err));
    return true;
}

void tri_request_refuse_later(tri_bus *bus, const tri_envelope *head,
                              tri_virtual *v, const char *type, tr_err err,
                              const char *text)
{
    TRI_CHECK(v != NULL);
    if (tri_request_refuse(bus, head, v, type, err, text)) {
        return;
    }
    tri_request *request = request_new(bus, head, v);
    if (request == NULL) {
        tri_logf(bus->sys, TR_LOG_ERROR, NULL, NULL,
                 "out of memory: an asker on node %u gets no answer and times "
                 "out",
                 head->sender_node);
        return;
    }
    keep_unsent(bus, request);
}

/* ---- answers ---- */

static tri_envelope answer_to(tri_bus *bus, const tri_request *request)
{
    tri_envelope e = {.direction = TRI_RESPONSE,
                      .target_node = request->node,
                      .sender_node = bus->node.slot,
                      .correlation = request->correlation};
    TRI_CHECK(request->v->size <= TRI_ACTOR_ID_MAX);
    memcpy(e.target, request->sender, strlen(request->sender) + 1);
    memcpy(e.sender, request->v->text, request->v->size + 1u);
    return e;
}

/*
 * Puts the reply into the envelope. Returns memory of the payload, which the
 * caller frees, or NULL. Without memory the envelope is an error.
 */
static unsigned char *put_reply(tri_bus *bus, tri_peer *peer,
                                const tr_msg *reply, tri_envelope *e)
{
    if (reply->item.flags & TRI_MSG_ERROR) {
        const tri_error_reply *error =
            (const tri_error_reply *)(const void *)reply->payload;
        e->err = (uint32_t)error->err;
        e->payload = (tr_bytes){error->text,
                                error->text != NULL ? strlen(error->text) : 0};
        return NULL;
    }
    if (peer == NULL) {
        return NULL;
    }
    tri_ref_codec refs = tri_wire_type_refs(bus);
    tri_codec codec = {.refs = &refs};
    const tr_type *type = reply->item.type;
    e->type = tri_wire_type_declare(bus, peer, type);
    size_t size = tri_binary_write(type, reply->payload, NULL, 0, &codec);
    unsigned char *bytes = tri_mem_calloc(&bus->sys->mem, size + 1);
    if (bytes == NULL || e->type == 0 || size > TRI_PACKET_MAX / 2) {
        e->err = size > TRI_PACKET_MAX / 2 ? TR_ELIMIT : TR_ENOMEM;
    } else {
        (void)tri_binary_write(type, reply->payload, bytes, size, &codec);
        e->payload = (tr_bytes){bytes, size};
    }
    return bytes;
}

/* Sends the reply to the asker, on its node or here. False: no memory. */
static bool send_reply(tri_bus *bus, const tri_request *request,
                       const tr_msg *reply)
{
    tri_envelope e = answer_to(bus, request);
    tri_peer *peer = tri_peer_get(bus, request->node);
    unsigned char *bytes = put_reply(bus, peer, reply, &e);
    bool sent = request->node == bus->node.slot;
    if (sent) {
        tri_call_complete_here(bus, request->correlation, request->v,
                               (tr_err)e.err, (const char *)e.payload.at,
                               reply);
    } else if (peer != NULL) {
        sent = respond(bus, &e, request->node);
    }
    free(bytes);
    return sent;
}

bool tri_request_reply(tri_worker *worker, tri_cell *cell, tr_msg *reply)
{
    tri_cluster *cluster = tri_cluster_of(worker->sys);
    tri_bus *bus = cluster != NULL ? tri_bus_of(cluster) : NULL;
    if (bus == NULL || tri_ref_cell(bus->self) != cell) {
        return false;
    }
    tri_request *request =
        tri_map_remove(&bus->requests, tri_msg_ask(reply)->correlation);
    if (request == NULL) {
        return false;
    }
    TRI_CHECK(bus->ctx == NULL);
    tr_ctx ctx = {.magic = TRI_CTX_MAGIC,
                  .sys = bus->sys,
                  .fast_tag = TRI_NO_TAG,
                  .worker = worker,
                  .cell = cell};
    bus->ctx = &ctx;
    bool sent = send_reply(bus, request, reply);
    tri_msg_free(&worker->cache, reply);
    if (sent) {
        request_free(bus, request);
    } else {
        keep_unsent(bus, request);
    }
    // A turn of the bus sends it. Without memory to ask for one, it ends here.
    tri_bus_note note = {.what = TRI_NOTE_NOTHING};
    if (tri_bus_tell(bus, worker, &note) != TR_OK && !bus->closed) {
        tri_bus_end_turn(bus);
    }
    bus->ctx = NULL;
    return true;
}

bool tri_request_send_unsent(tri_bus *bus)
{
    static const char why[] = "there was no memory for the answer";
    while (bus->unsent_answers != NULL) {
        tri_request *request = bus->unsent_answers;
        tri_envelope e = answer_to(bus, request);
        e.err = TR_ENOMEM;
        e.payload = (tr_bytes){why, sizeof(why) - 1};
        if (!respond(bus, &e, request->node)) {
            return true;
        }
        bus->unsent_answers = request->next;
        request_free(bus, request);
    }
    return false;
}

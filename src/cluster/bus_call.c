/*
 * bus_call.c - envelopes out and in, types, requests and their answers.
 *
 * Invariant: a request that was sent is in `calls` until it is completed, and
 * taking it out is its completion: by the answer, its time, the loss of its
 * node or the end of the system, whichever is first (BU6). A request that
 * came is in `heard` until the runtime answers it, which it always does.
 */
#include "cluster/bus.h"

#include <stdio.h>

#include "base/log.h"
#include "schema/binary.h"
#include "schema/value.h"
#include "system/layers.h"

enum { WHEEL_CALL = 0, NEST_MAX = 8, TABLE_MAX = 64 * 1024 };

/* ---- refs cross as names ---- */

static size_t ref_to_text(void *user, tr_ref ref, char *buf, size_t size)
{
    tri_bus *bus = user;
    tri_cell *cell = tri_ref_cell(ref);
    if ((ref.cell >> 48) != bus->sys->tag || cell == NULL ||
        !tri_cell_is_virtual(cell)) {
        return 0;
    }
    tri_virtual *v = tri_virtual_of(cell);
    if (v->size <= size) {
        memcpy(buf, v->text, v->size);
    }
    return v->size;
}

static bool ref_from_text(void *user, const char *text, size_t size,
                          tr_ref *out)
{
    tri_bus *bus = user;
    char id[TRI_ID_MAX + 1];
    tr_err err;
    if (size > TRI_ID_MAX) {
        return false;
    }
    memcpy(id, text, size);
    id[size] = '\0';
    tri_virtual *v = tri_bus_record(bus, id, &err);
    *out = v != NULL ? tri_bus_ref(bus, v) : (tr_ref){0};
    return v != NULL;
}

static tri_ref_codec refs_of(tri_bus *bus)
{
    return (tri_ref_codec){.to_text = ref_to_text,
                           .from_text = ref_from_text, .user = bus};
}

/* ---- types ---- */

/* "name:kind", nested ones in braces: what must fit, and is readable. */
static void write_table(tri_writer *w, const tr_type *type, uint32_t depth)
{
    char text[32];
    for (uint32_t i = 0; i < type->field_count; i++) {
        const tr_field *f = &type->fields[i];
        unsigned char *at = tri_write_room(w, strlen(f->name));
        if (at != NULL) {
            memcpy(at, f->name, strlen(f->name));
        }
        // A field may become optional: its items stay the same.
        tr_field value = *f;
        if (f->kind == TR_KIND_OPTIONAL) {
            value = tri_field_element(f);
        }
        snprintf(text, sizeof(text), ":%u", value.kind);
        if (f->kind == TR_KIND_FIXED || f->kind == TR_KIND_ARRAY) {
            snprintf(text, sizeof(text), ":%u.%u", f->kind,
                     f->element & 0xffu);
        }
        at = tri_write_room(w, strlen(text));
        if (at != NULL) {
            memcpy(at, text, strlen(text));
        }
        if (f->type != NULL && depth < NEST_MAX) {
            tri_write_u8(w, '{');
            write_table(w, f->type, depth + 1);
            tri_write_u8(w, '}');
        }
        tri_write_u8(w, ',');
    }
}

static char *table_of(tri_bus *bus, const tr_type *type)
{
    tri_writer w = {.mem = &bus->sys->mem};
    write_table(&w, type, 0);
    tri_write_u8(&w, '\0');
    if (w.failed) {
        free(w.bytes);
        return NULL;
    }
    return (char *)w.bytes;
}

/* Fields are only appended: one table is the beginning of the other. */
static bool fits(const char *a, const char *b)
{
    size_t size = strlen(a) < strlen(b) ? strlen(a) : strlen(b);
    return memcmp(a, b, size) == 0;
}

/* Declares the type on the peer's stream if need be; 0: no memory. */
static uint32_t declare(tri_bus *bus, tri_peer *peer, const char *name,
                        uint64_t schema, const char *table)
{
    uintptr_t known = (uintptr_t)tri_map_get(&peer->out_types, schema);
    if (known != 0 && peer->session.next_number != 0) {
        return (uint32_t)known;
    }
    tri_writer w = tri_bus_item(bus, TRI_ITEM_TYPE);
    tri_write_u64(&w, schema);
    tri_write_text(&w, name);
    tri_write_text(&w, table);
    if (!tri_bus_put(bus, peer->node, &w, NULL)) {
        return 0;
    }
    // Both sides count declarations; a new stream begins at one.
    uint32_t number = ++peer->out_count;
    if (tri_map_put(&peer->out_types, schema, (void *)(uintptr_t)number) !=
        TR_OK) {
        return number;  // it will be declared again
    }
    return number;
}

static uint32_t declare_type(tri_bus *bus, tri_peer *peer,
                             const tr_type *type)
{
    if (peer->session.next_number != 0 &&
        tri_map_get(&peer->out_types, type->schema) != NULL) {
        return declare(bus, peer, type->name, type->schema, "");
    }
    char *table = table_of(bus, type);
    uint32_t number = table != NULL ? declare(bus, peer, type->name,
                                              type->schema, table)
                                    : 0;
    free(table);
    return number;
}

static char *text_of(tri_bus *bus, tr_bytes bytes, size_t max)
{
    if (bytes.size > max) {
        return NULL;
    }
    char *text = tri_mem_calloc(&bus->sys->mem, bytes.size + 1);
    if (text != NULL && bytes.size > 0) {
        memcpy(text, bytes.at, bytes.size);
    }
    return text;
}

bool tri_call_type(tri_bus *bus, tri_peer *peer, tri_reader *r)
{
    tri_known_type type = {.schema = tri_read_u64(r)};
    tr_bytes name = tri_read_bytes(r), table = tri_read_bytes(r);
    if (peer->in_count == peer->in_room &&
        peer->in_room < TRI_TYPES_MAX) {
        uint32_t room = peer->in_room * 2 + 16;
        void *types = tri_mem_should_fail(&bus->sys->mem)
                          ? NULL
                          : realloc(peer->in_types,
                                    room * sizeof(*peer->in_types));
        if (types != NULL) {
            peer->in_types = types;
            peer->in_room = room;
        }
    }
    if (peer->in_count == TRI_TYPES_MAX) {
        return true;  // what is of it is refused
    }
    if (peer->in_count == peer->in_room) {
        return false;
    }
    // Its place is counted even if it is none.
    type.name = text_of(bus, name, TRI_ID_MAX);
    type.table = text_of(bus, table, TABLE_MAX);
    if ((type.name == NULL && name.size <= TRI_ID_MAX) ||
        (type.table == NULL && table.size <= TABLE_MAX)) {
        free(type.name);
        free(type.table);
        return false;
    }
    peer->in_types[peer->in_count++] = type;
    return true;
}

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
        tri_answer_value(tri_bus_worker(bus), call->msg,
                         tri_bus_ref(bus, v), reply->payload);
    } else {
        tri_answer_error(tri_bus_worker(bus), call->msg, err, text);
    }
    free(call);
}

static bool is_often(const tri_envelope *head)
{
    return head->forwards > TRI_FORWARDS_MAX ||
           head->returns > TRI_RETURNS_MAX;
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

/* ---- into a message of ours ---- */

static const tr_handler *handler_of(const tri_kind *kind, const char *name)
{
    const tr_actor_def *def = kind->def;
    for (uint32_t i = 0; i < def->handler_count; i++) {
        if (def->handlers[i].type != NULL &&
            strcmp(def->handlers[i].type->name, name) == 0) {
            return &def->handlers[i];
        }
    }
    return NULL;
}

static bool type_fits(tri_bus *bus, const tr_type *type,
                      const tri_known_type *known, char *text, size_t size)
{
    if (type->schema == known->schema) {
        return true;
    }
    char *table = table_of(bus, type);
    bool fit = table != NULL && fits(table, known->table);
    if (!fit) {
        snprintf(text, size, "%s is {%s} here and {%s} there", type->name,
                 table != NULL ? table : "?", known->table);
    }
    free(table);
    return fit;
}

/* Reads the payload; the caller frees *out, after releasing its pieces. */
static tr_err read_value(tri_bus *bus, const tr_type *type, tr_bytes bytes,
                         void **out, char *text, size_t size)
{
    tri_ref_codec refs = refs_of(bus);
    tri_codec codec = {.refs = &refs};
    tri_codec_error error = {.text = ""};
    *out = tri_mem_calloc(&bus->sys->mem, type->size + 1u);
    if (*out == NULL) {
        return TR_ENOMEM;
    }
    tr_err err = tri_binary_read(type, *out, bytes.at, bytes.size, &codec,
                                 &error);
    if (err != TR_OK) {
        snprintf(text, size, "%s: %s", type->name, error.text);
        free(*out);
        *out = NULL;
    }
    return err == TR_EINVAL ? TR_ESCHEMA : err;
}

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
    *tri_msg_ask(msg) = (tri_ask){
        .correlation = heard->id,
        .deadline = (tr_nanos)p->token + TR_MS((tr_nanos)p->head->ttl_ms),
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
    const tr_handler *handler = handler_of(kind, p->type.name);
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
    if (!type_fits(bus, handler->type, &p->type, text, size)) {
        return NULL;
    }
    *err = read_value(bus, handler->type, p->head->payload, &value, text,
                      size);
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
        tri_virtual *sender =
            p->head->sender[0] != '\0'
                ? tri_bus_record(bus, p->head->sender, &none)
                : NULL;
        msg->sender = sender != NULL ? tri_bus_ref(bus, sender)
                                     : (tr_ref){0};
    }
    msg->node.flags |= TRI_MSG_FOREIGN;
    // Relaxed: it never changes.
    msg->to_id = atomic_load_explicit(&v->cell.id, memory_order_relaxed);
    return msg;
}

/* ---- answers ---- */

static void complete(tri_bus *bus, tri_peer *peer, const tri_envelope *e)
{
    char text[TRI_SHOWN_MAX] = "";
    void *value;
    tri_call *call = tri_map_remove(&bus->calls, e->correlation);
    if (call == NULL) {
        bus->counts.unknown++;  // BU3: its time was over
        return;
    }
    tri_wheel_cancel(&bus->wheel, &call->timer);
    tri_worker *worker = tri_bus_worker(bus);
    if (e->moved != 0) {
        tri_route_learn(bus, call->v, e->moved_node, e->moved);
    }
    const tr_type *type = call->msg->node.type->reply;
    tr_err err = (tr_err)e->err;
    if (err != TR_OK) {
        snprintf(text, sizeof(text), "%.*s", (int)e->payload.size,
                 (const char *)e->payload.at);
    } else if (type == NULL || e->type == 0 || e->type > peer->in_count ||
               peer->in_types[e->type - 1].table == NULL ||
               !type_fits(bus, type, &peer->in_types[e->type - 1], text,
                          sizeof(text))) {
        err = TR_ESCHEMA;
    } else {
        err = read_value(bus, type, e->payload, &value, text, sizeof(text));
    }
    if (err == TR_OK) {
        tri_answer_value(worker, call->msg, tri_bus_ref(bus, call->v),
                         value);
        tri_value_release(type, value, NULL);
        free(value);
    } else {
        tri_answer_error(worker, call->msg, err,
                         text[0] != '\0' ? text : NULL);
    }
    free(call);
}

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
    tr_ctx ctx = {.magic = TRI_CTX_MAGIC, .sys = bus->sys,
                  .quick_tag = TRI_NO_TAG, .worker = worker,
                  .cell = cell};
    bus->ctx = &ctx;
    tri_envelope e = {.direction = TRI_RESPONSE, .target_node = heard->node,
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
        tri_ref_codec refs = refs_of(bus);
        tri_codec codec = {.refs = &refs};
        const tr_type *type = reply->node.type;
        e.type = declare_type(bus, peer, type);
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

void tri_call_timer(tri_bus *bus, tri_call *call)
{
    (void)tri_map_remove(&bus->calls, call->correlation);
    // The asker's own timer is exact; this one only tells it what is known.
    tri_answer_error(tri_bus_worker(bus), call->msg, TR_ETIMEDOUT, NULL);
    free(call);
}

static void end_calls(tri_bus *bus, uint32_t node, bool all, tr_err err,
                      const char *text)
{
    tri_call *call;
    for (tri_map_iter it = tri_map_iter_begin(&bus->calls);
         (call = tri_map_iter_next(&bus->calls, &it)) != NULL;) {
        if (!all && call->node != node) {
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
    end_calls(bus, node, false, TR_EUNKNOWN,
              "its node was lost, perhaps after it ran");
}

void tri_call_close(tri_bus *bus)
{
    end_calls(bus, 0, true, TR_ECLOSED, "the system is closing");
}

/* ---- out ---- */

static uint16_t flags_of(tri_virtual *v, const tr_type *type)
{
    const tr_handler *h = v->kind != NULL ? handler_of(v->kind, type->name)
                                          : NULL;
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
    call->node = r->node;
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

/* It was not sent after all: the parcel has its message again. */
static void undo_call(tri_bus *bus, tri_parcel *p)
{
    tri_call *call = p->call != 0 ? tri_map_remove(&bus->calls, p->call)
                                  : NULL;
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
    undo_call(bus, p);
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
    tri_envelope e = {.direction = TRI_ONE_WAY, .target_node = r->node,
                      .sender_node = bus->here, .place = r->number,
                      .through = msg->node.flags & TRI_MSG_FOREIGN
                                     ? TRI_THROUGH_ALL
                                     : UINT64_C(1) << bus->here,
                      .returns = p->returns,
                      .flags = flags_of(p->v, type)};
    tri_ref_codec refs = refs_of(bus);
    tri_codec codec = {.refs = &refs};
    const char *why;
    if (e.flags & TRI_FLAG_IS_LOCAL_ONLY) {
        return TR_EFOREIGN;  // MS10
    }
    memcpy(e.target, p->v->text, p->v->size + 1u);
    size_t at = ref_to_text(bus, msg->sender, e.sender, TRI_ID_MAX);
    e.sender[at <= TRI_ID_MAX ? at : 0] = '\0';
    e.type = declare_type(bus, peer, type);
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
    e.target_node = r->node;
    e.place = r->number;
    e.type = declare(bus, peer, p->type.name, p->type.schema, p->type.table);
    if (e.direction == TRI_REQUEST) {
        e.ttl_ms = ttl_of(bus, (tr_nanos)p->token +
                                   TR_MS((tr_nanos)p->head->ttl_ms));
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
        if (r->node != e.sender_node) {
            tri_writer moved = tri_bus_item(bus, TRI_ITEM_MOVED);
            tri_write_u32(&moved, r->node);
            tri_write_u64(&moved, r->number);
            tri_write_u8(&moved, false);
            tri_write_text(&moved, p->v->text);
            (void)tri_bus_put(bus, e.sender_node, &moved, NULL);
        }
    }
    return err;
}

static void send_mark(tri_bus *bus, tri_route *r, tri_parcel *p)
{
    tri_writer w = tri_bus_item(bus, p->kind == TRI_PARCEL_FLUSH
                                         ? TRI_ITEM_FLUSH
                                         : TRI_ITEM_CONTROL);
    tri_write_u32(&w, p->origin);
    tri_write_u64(&w, p->token);
    tri_write_u8(&w, (uint8_t)(p->forwards + 1));
    tri_write_text(&w, p->v->text);
    if (p->kind == TRI_PARCEL_FLUSH) {
        tri_write_u64(&w, p->number);
    }
    // A marker that is lost is waited for no longer than TRI_FLUSH_WAIT.
    if (p->forwards <= TRI_FORWARDS_MAX &&
        !tri_bus_put(bus, r->node, &w, NULL) &&
        p->kind == TRI_PARCEL_CONTROL) {
        tri_logf(bus->sys, TR_LOG_ERROR, NULL, NULL,
                 "out of memory: %s is not stopped", p->v->text);
    }
    free(w.bytes);
    tri_parcel_free(bus, p);
}

void tri_call_send(tri_bus *bus, tri_route *r, tri_parcel *p)
{
    tri_peer *peer = tri_bus_peer(bus, r->node);
    tr_err err = TR_ENOMEM;
    if (p->kind == TRI_PARCEL_FLUSH || p->kind == TRI_PARCEL_CONTROL) {
        send_mark(bus, r, p);
        return;
    }
    tri_writer w = tri_bus_item(bus, TRI_ITEM_MESSAGE);
    if (peer != NULL && tri_session_is_full(&peer->session)) {
        err = TR_EFULL;  // before its type is declared
    } else if (peer != NULL) {
        err = p->kind == TRI_PARCEL_PASSED
                  ? write_passed(bus, r, p, peer, &w)
                  : write_ours(bus, r, p, peer, &w);
    }
    if (err == TR_OK && !tri_bus_put_mail(bus, r->node, &w, p)) {
        err = tri_session_is_full(&peer->session) ? TR_EFULL : TR_ENOMEM;
    }
    free(w.bytes);
    if (err != TR_OK) {
        undo_call(bus, p);
        tri_parcel_fail(bus, p, err, tr_strerror(err));
        return;
    }
    bus->counts.sent++;
}

/* ---- in ---- */

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
    p->type.name = text_of(bus, (tr_bytes){type->name, strlen(type->name)},
                           TRI_ID_MAX);
    p->type.table = text_of(bus, (tr_bytes){type->table, strlen(type->table)},
                            TABLE_MAX);
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

/* Several stateless workers stand behind the name: to one of them. */
static void to_worker(tri_bus *bus, tri_parcel *p)
{
    char text[TRI_SHOWN_MAX];
    tr_err err;
    tr_msg *msg = tri_call_decode(bus, p, &err, text, sizeof(text));
    if (msg == NULL) {
        tri_parcel_fail(bus, p, err, text);
        return;
    }
    tri_actor_from who = {.sys = bus->sys, .worker = tri_bus_worker(bus),
                          .sender = msg->sender};
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
        complete(bus, peer, &e);
        return true;
    }
    tr_err err = tri_envelope_check(&e, &why);
    const tri_known_type *type =
        e.type > 0 && e.type <= peer->in_count ? &peer->in_types[e.type - 1]
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
        to_worker(bus, p);
    } else if ((r = tri_route_get(bus, v)) == NULL) {
        tri_parcel_fail(bus, p, TR_ENOMEM, "out of memory");
    } else {
        tri_route_arrived(bus, r, p);
    }
    return true;
}

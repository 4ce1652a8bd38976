/*
 * played_peer.h - a system's bus, and node 1 played by the test.
 *
 * Node 1 is a session whose items the test writes and reads field by field, so
 * that it may say what a node of ours would not, or not at this moment.
 */
#ifndef TEST_UNIT_CLUSTER_PLAYED_PEER_H
#define TEST_UNIT_CLUSTER_PLAYED_PEER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <troupe/troupe.h>

#include "cluster/bus.h"
#include "schema/binary.h"

enum { PACKETS = 256, ANSWERS = 64 };

TR_MESSAGE(Sum, (int64_t, value));
TR_REQUEST(Plus, Sum, (int64_t, a), (int64_t, b));

static inline tr_err on_plus(tr_ctx *ctx, void *self, const Plus *q)
{
    (void)self;
    return tr_reply(ctx, q, .value = q->a + q->b);
}

TR_ACTOR(adder, void, TR_ON(Plus, on_plus));

TR_MESSAGE(Count, (int64_t, number));

static int64_t last_counted;  // there is one run at a time

static inline tr_err on_count(tr_ctx *ctx, void *self, const Count *m)
{
    (void)ctx, (void)self;
    assert_int_equal(m->number, last_counted + 1);
    last_counted = m->number;
    return TR_OK;
}

TR_ACTOR(counter, void, TR_ON(Count, on_count));

typedef struct packet {
    size_t size;
    unsigned char *bytes;
} packet;

typedef struct peer {
    tri_session session;  // first
    tri_transport base;
    tr_sim *sim;
    tr_system *sys;
    tri_bus *bus;
    const char *ns;
    tr_nanos now;
    packet packets[PACKETS];  // from the bus, not looked at yet
    uint32_t count;
    /* ---- what has come ---- */
    uint64_t correlations[ANSWERS];
    uint32_t requests, hellos;
    tri_envelope answer;  // the last
    uint32_t answers;
    char text[256];  // its payload, if it is an error
    bool stubborn;   // all that comes goes back, as if we knew better
    uint32_t sent_back;
    uint32_t questions, markers, tells;
    uint64_t question;  // token of the last
    uint64_t marker;    // token of the last,
    uint64_t heard;     // ... and the place it says it has heard of
    uint64_t placed;    // the last place that the bus gave out,
    uint64_t gone;      // ... and the last that it gave back
    uint32_t claims;
    uint64_t claimed;  // the last of them
} peer;

static inline peer *of(tri_session *s)
{
    return (peer *)(void *)s;
}

/* ---- the session's side ---- */

static inline void to_bus(tri_session *s, const tri_packet *p)
{
    tri_writer w = {.mem = &of(s)->sys->mem};
    tri_packet_write(&w, p);
    assert_false(w.failed);
    tri_bus_receive(of(s)->sys, w.bytes, w.size);
    free(w.bytes);
}

static inline void put(peer *f, tri_writer *w)
{
    assert_false(w->failed);
    assert_int_equal(
        tri_session_put(&f->session, w->bytes, w->size, NULL, f->now), TR_OK);
    free(w->bytes);
}

static inline tri_writer item(peer *f, tri_item kind)
{
    tri_writer w = {.mem = &f->sys->mem};
    tri_write_u8(&w, (uint8_t)kind);
    return w;
}

static inline bool hello(tri_session *s)
{
    tri_writer w = item(of(s), TRI_ITEM_HELLO);
    tri_write_text(&w, of(s)->ns);
    tri_write_text(&w, "localhost:7001");
    tri_write_u32(&w, 1);
    tri_write_text(&w, "far");
    tri_write_u8(&w, 0);
    put(of(s), &w);
    return true;
}

static inline void on_request(peer *f, const tri_envelope *e)
{
    // BU2, BU5: the callback is there before the request is seen by anybody.
    tri_call *call = tri_map_get(&f->bus->calls, e->correlation);
    assert_non_null(call);
    assert_int_equal(call->correlation, e->correlation);
    assert_int_equal(call->node, 1);
    assert_non_null(call->msg);
    assert_true(call->deadline > call->started);
    assert_string_equal(call->v->text, e->target);
    assert_true(f->requests < ANSWERS);
    f->correlations[f->requests++] = e->correlation;
}

/* Types and markers as they are, messages with one forward more. */
static inline void send_back(peer *f, tri_item kind, tr_bytes bytes,
                             tri_reader *r)
{
    tri_envelope e;
    tri_writer w = {.mem = &f->sys->mem};
    if (kind == TRI_ITEM_MESSAGE) {
        assert_true(tri_envelope_read(r, &e));
        e.forwards++;
        e.target_node = 0;
        f->sent_back++;
        tri_write_u8(&w, TRI_ITEM_MESSAGE);
        tri_envelope_write(&w, &e);
        put(f, &w);
    } else if (kind == TRI_ITEM_TYPE || kind == TRI_ITEM_FLUSH) {
        memcpy(tri_write_room(&w, bytes.size), bytes.at, bytes.size);
        put(f, &w);
    }
}

/* Of questions for a place, answers and markers: what they say is kept. */
static inline void take_note(peer *f, tri_item kind, tri_reader *r)
{
    char text[TRI_ID_MAX + 1];
    if (kind == TRI_ITEM_PLACE) {
        f->questions++;
        f->question = tri_read_u64(r);
    } else if (kind == TRI_ITEM_FLUSH) {
        f->markers++;
        (void)tri_read_u32(r);
        f->marker = tri_read_u64(r);
        (void)tri_read_u8(r);
        tri_read_text(r, text, TRI_ID_MAX);
        f->heard = tri_read_u64(r);
    } else if (kind == TRI_ITEM_PLACED) {
        (void)tri_read_u64(r);
        assert_int_equal(tri_read_u32(r), TR_OK);
        (void)tri_read_u8(r);
        assert_int_equal(tri_read_u32(r), 0);
        f->placed = tri_read_u64(r);
    } else if (kind == TRI_ITEM_GONE) {
        f->gone = tri_read_u64(r);
    } else if (kind == TRI_ITEM_CLAIM) {
        f->claims++;
        f->claimed = tri_read_u64(r);
    }
    assert_false(r->failed);
}

static inline bool take(tri_session *s, tr_bytes bytes)
{
    peer *f = of(s);
    tri_reader r = {.at = bytes.at,
                    .end = (const unsigned char *)bytes.at + bytes.size};
    tri_item kind = (tri_item)tri_read_u8(&r);
    tri_envelope e;
    f->hellos += kind == TRI_ITEM_HELLO;
    if (f->stubborn) {
        send_back(f, kind, bytes, &r);
        return true;
    }
    if (kind != TRI_ITEM_MESSAGE) {
        take_note(f, kind, &r);
        return true;
    }
    assert_true(tri_envelope_read(&r, &e));
    f->tells += e.direction == TRI_ONE_WAY;
    if (e.direction == TRI_REQUEST) {
        on_request(f, &e);
    } else if (e.direction == TRI_RESPONSE) {
        f->answer = e;
        f->answers++;
        snprintf(f->text, sizeof(f->text), "%.*s", (int)e.payload.size,
                 (const char *)e.payload.at);
    }
    return true;
}

static inline void done(tri_session *s, void *tag, bool received, bool sent)
{
    (void)s;
    (void)tag;
    (void)received;
    (void)sent;
}

static inline void lost(tri_session *s, bool goodbye)
{
    (void)s;
    (void)goodbye;
}

/* ---- the stage ---- */

static inline void from_bus(tri_transport *t, uint32_t from, uint32_t to,
                            const void *bytes, size_t size)
{
    peer *f = tri_container_of(t, peer, base);
    (void)from;
    if (to != 1 || f->count == PACKETS) {
        return;  // lost: it is sent again
    }
    packet *p = &f->packets[f->count++];
    *p = (packet){.size = size, .bytes = malloc(size)};
    assert_non_null(p->bytes);
    memcpy(p->bytes, bytes, size);
}

static inline void run(peer *f, int steps)
{
    while (steps-- > 0) {
        tr_sim_advance(f->sim, TR_MS(5));
        f->now += TR_MS(5);
        for (uint32_t i = 0; i < f->count; i++) {
            tri_packet p;
            assert_true(
                tri_packet_read(&p, f->packets[i].bytes, f->packets[i].size));
            tri_session_packet(&f->session, &p, f->now);
            free(f->packets[i].bytes);
        }
        f->count = 0;
        tri_session_pump(&f->session, f->now);
    }
}

/* Node 1 begins a life, and speaks. */
static inline void begin_session(peer *f, uint64_t life)
{
    static const tri_session_ops ops = {.send = to_bus,
                                        .take = take,
                                        .done = done,
                                        .lost = lost,
                                        .begin = hello};
    tri_session_fini(&f->session);
    tri_session_init(&f->session, &ops, &f->sys->mem, 1, life, 0);
    // Anything opens the stream, with the greeting in front.
    tri_writer w = item(f, TRI_ITEM_FLUSHED);
    tri_write_u64(&w, 0);
    tri_write_u64(&w, 0);
    tri_write_u8(&w, 0);
    put(f, &w);
    run(f, 20);
}

static inline void open_life(peer *f, const char *ns, uint64_t life)
{
    static const tri_transport_ops transport = {.send = from_bus};
    memset(f, 0, sizeof(*f));
    f->base.ops = &transport;
    f->ns = ns;
    assert_int_equal(tr_sim_new(&f->sim, 1), TR_OK);
    assert_int_equal(tr_system_open(&f->sys, .ns = "shop",
                                    .log_level = TR_LOG_ERROR,
                                    .world = tr_sim_world(f->sim)),
                     TR_OK);
    assert_int_equal(
        tri_bus_join(f->sys, &(tri_bus_options){.transport = &f->base,
                                                .nodes = 2,
                                                .life = life}),
        TR_OK);
    f->bus = tri_bus_of(tri_cluster_of(f->sys));
    assert_int_equal(tr_host(f->sys, adder), TR_OK);
    assert_int_equal(tr_host(f->sys, counter), TR_OK);
    begin_session(f, 1);
    assert_int_equal(f->hellos, 1);
}

static inline void open_peer(peer *f, const char *ns)
{
    open_life(f, ns, 1);
}

static inline void close_peer(peer *f)
{
    assert_int_equal(tr_system_close(f->sys, 0), TR_OK);
    for (uint32_t i = 0; i < f->count; i++) {
        free(f->packets[i].bytes);
    }
    tri_session_fini(&f->session);
    tr_sim_free(f->sim);
}

/* A name of that kind whose shard the node owns. */
static inline void name_at(uint32_t owner, const char *kind, int nth, char *out,
                           size_t size)
{
    for (int i = 0; nth >= 0; i++) {
        snprintf(out, size, "shop::%s/k%d", kind, i);
        nth -= tri_shard_of(out, strlen(out)) % 2 == owner;
    }
}

static inline void name(const char *kind, int nth, char *out, size_t size)
{
    name_at(0, kind, nth, out, size);
}

static inline void declare(peer *f, const tr_type *type, const char *table)
{
    tri_writer w = item(f, TRI_ITEM_TYPE);
    tri_write_u64(&w, type->schema);
    tri_write_text(&w, type->name);
    tri_write_text(&w, table);
    put(f, &w);
}

/* Sends a request as type 1; returns the error of its answer. */
static inline tr_err request(peer *f, const char *target, const void *payload,
                             size_t size)
{
    static uint64_t next;
    tri_envelope e = {.direction = TRI_REQUEST,
                      .sender_node = 1,
                      .correlation = ++next,
                      .ttl_ms = 5000,
                      .type = 1,
                      .through = 2,
                      .payload = {payload, size}};
    snprintf(e.target, sizeof(e.target), "%s", target);
    tri_writer w = item(f, TRI_ITEM_MESSAGE);
    tri_envelope_write(&w, &e);
    put(f, &w);
    uint32_t before = f->answers;
    run(f, 40);
    assert_int_equal(f->answers, before + 1);
    assert_int_equal(f->answer.correlation, e.correlation);
    return (tr_err)f->answer.err;
}

/* ---- as an owner ---- */

static inline int64_t place(uint32_t count)
{
    return (int64_t)(UINT64_C(1) << 32 | count);
}

static inline void answer_for_life(peer *f, uint64_t life, uint32_t node,
                                   uint32_t count)
{
    tri_writer w = item(f, TRI_ITEM_PLACED);
    tri_write_u64(&w, f->question);
    tri_write_u32(&w, TR_OK);
    tri_write_u8(&w, TRI_PLACE_ALREADY);
    tri_write_u32(&w, node);
    tri_write_u64(&w, (uint64_t)place(count));
    tri_write_u64(&w, life);
    put(f, &w);
    run(f, 20);
}

static inline void answer_question(peer *f, uint32_t node, uint32_t count)
{
    answer_for_life(f, node == 0 ? f->bus->life : f->session.life, node, count);
}

/*
 * It was in a mailbox of node 1; the actor is to begin on node 0 now, which
 * has the place in that life.
 */
static inline void hand_over_to(peer *f, uint64_t life, const char *target,
                                uint32_t count, Count told)
{
    unsigned char bytes[64];
    size_t size =
        tri_binary_write(&Count_tr_type, &told, bytes, sizeof(bytes), NULL);
    tri_envelope e = {.direction = TRI_ONE_WAY,
                      .sender_node = 1,
                      .type = 1,
                      .through = TRI_THROUGH_ALL,
                      .place = (uint64_t)place(count),
                      .place_life = life,
                      .payload = {bytes, size}};
    snprintf(e.target, sizeof(e.target), "%s", target);
    tri_writer w = item(f, TRI_ITEM_MESSAGE);
    tri_envelope_write(&w, &e);
    put(f, &w);
}

static inline void hand_over(peer *f, const char *target, uint32_t count,
                             Count told)
{
    hand_over_to(f, f->bus->life, target, count, told);
}

static inline tri_route *route_of(peer *f, const char *text)
{
    tr_ref ref = tr_virtual_named(f->sys, text);
    tri_route *r = tri_virtual_of(tri_ref_cell(ref))->route;
    assert_non_null(r);
    return r;
}

#endif

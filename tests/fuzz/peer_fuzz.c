/*
 * peer_fuzz.c - the bus of one system against a peer that sends any frames.
 *
 * The input is a program of tokens that writes frames field by field, so that
 * a fuzzer gets past the first check: numbers, names that exist, names that do
 * not, raw bytes. The packets around the frames are valid. Between the frames
 * the system runs and sends requests of its own; at the end it must close. A
 * run fails by a sanitizer or a check.
 */
#include <stdlib.h>
#include <string.h>

#include <troupe/troupe.h>

#include "base/check.h"
#include "cluster/bus/bus.h"
#include "cluster/bus/bus_join.h"
#include "cluster/transport/envelope.h"
#include "cluster/transport/frame.h"
#include "cluster/transport/session.h"

enum {
    TOKENS_MAX = 512,  // of one input
    PACKETS_MAX = 64,  // from the bus between two steps; more are lost
    STEPS_END = 40,    // after the last frame
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

TR_MESSAGE(Sum, (int64_t, value));
TR_REQUEST(Plus, Sum, (int64_t, a), (int64_t, b));

static tr_err on_plus(tr_ctx *ctx, void *self, const Plus *q)
{
    (void)self;
    return tr_reply(ctx, q, .value = q->a + q->b);
}

static tr_err on_sum(tr_ctx *ctx, void *self, const Sum *m)
{
    (void)ctx;
    (void)self;
    (void)m;
    return TR_OK;
}

TR_ACTOR(adder, void, TR_ON(Plus, on_plus), TR_ON(Sum, on_sum));

typedef struct peer {
    tri_session session;  // first
    tri_transport base;
    tr_sim *sim;
    tr_system *sys;
    tr_nanos now;
    tri_reader input;
    tr_bytes packets[PACKETS_MAX];  // owned, from the bus
    uint32_t count;
    uint64_t token;        // the last that the bus has sent
    uint64_t correlation;  // likewise
} peer;

static peer *of(tri_session *s)
{
    return (peer *)(void *)s;
}

/* ---- the session's side ---- */

static void to_bus(tri_session *s, const tri_packet *p)
{
    tri_writer w = {0};
    tri_packet_write(&w, p);
    TRI_CHECK(!w.failed);
    tri_bus_receive(of(s)->sys, w.bytes, w.size);
    free(w.bytes);
}

static void put(peer *f, tri_writer *w)
{
    TRI_CHECK(!w->failed);
    (void)!tri_session_put(&f->session, w->bytes, w->size, NULL);
    free(w->bytes);
    *w = (tri_writer){0};
}

static bool hello(tri_session *s)
{
    tri_writer w = {0};
    tri_write_u8(&w, TRI_FRAME_HELLO);
    tri_write_text(&w, "shop");
    tri_write_text(&w, "localhost:7001");
    tri_write_u32(&w, 1);
    tri_write_text(&w, "far");
    tri_write_u8(&w, 0);
    tri_write_u8(&w, 0);
    put(of(s), &w);
    return true;
}

static bool take(tri_session *s, tr_bytes bytes)
{
    peer *f = of(s);
    tri_reader r = {.at = bytes.at,
                    .end = (const unsigned char *)bytes.at + bytes.size};
    tri_frame_kind kind = (tri_frame_kind)tri_read_u8(&r);
    tri_envelope e;
    if (kind == TRI_FRAME_FLUSH) {
        (void)tri_read_u32(&r);
        (void)tri_read_u32(&r);
        (void)tri_read_u64(&r);
        f->token = tri_read_u64(&r);
    } else if (kind == TRI_FRAME_MESSAGE || kind == TRI_FRAME_RELAYED ||
               kind == TRI_FRAME_RETURNED) {
        TRI_CHECK(tri_envelope_read(&r, &e));
        f->correlation = e.correlation;
    }
    return true;
}

static void done(tri_session *s, void *tag, bool received, bool sent)
{
    (void)s;
    (void)tag;
    (void)received;
    (void)sent;
}

static void lost(tri_session *s)
{
    (void)s;
}

static void from_bus(tri_transport *t, uint32_t from, uint32_t to,
                     const void *bytes, size_t size)
{
    peer *f = tri_container_of(t, peer, base);
    (void)from;
    if (to != 1 || f->count == PACKETS_MAX) {
        return;
    }
    void *copy = malloc(size);
    TRI_CHECK(copy != NULL);
    memcpy(copy, bytes, size);
    f->packets[f->count++] = (tr_bytes){copy, size};
}

static void run(peer *f, int steps)
{
    while (steps-- > 0) {
        tr_sim_advance(f->sim, TR_MS(5));
        f->now += TR_MS(5);
        uint32_t count = f->count;
        tr_bytes packets[PACKETS_MAX];
        memcpy(packets, f->packets, sizeof(packets));
        f->count = 0;
        for (uint32_t i = 0; i < count; i++) {
            tri_packet p;
            TRI_CHECK(tri_packet_read(&p, packets[i].at, packets[i].size));
            tri_session_receive(&f->session, &p, f->now);
            free((void *)(uintptr_t)packets[i].at);
        }
        tri_session_pump(&f->session, f->now);
    }
}

/* ---- the program ---- */

static const char *some_name(peer *f)
{
    static const char *const names[] = {
        "shop::adder/a",
        "shop::adder/b",
        "shop::adder/c",
        "shop::far/a",
        "shop::far/b",
        "shop::none/a",
        "other::far/a",
        "adder",
        "far",
        "shop",
        "",
        "Plus",
        "Sum",
        "no name",
        "shop::far/",
        "localhost:1",
    };
    return names[tri_read_u8(&f->input) % TRI_COUNT_OF(names)];
}

static tr_ref some_ref(peer *f)
{
    static const char *const kinds[] = {"adder", "far"};
    static const char *const keys[] = {"a", "b", "c", "d"};
    uint8_t which = tri_read_u8(&f->input);
    return tr_virtual(f->sys, kinds[which % 2], keys[which / 2 % 4]);
}

/* Something that the system does by itself. */
static void act(peer *f)
{
    tr_ref ref = some_ref(f);
    switch (tri_read_u8(&f->input) % 4) {
    case 0:
        tr_tell(f->sys, ref, Sum, .value = 1);
        break;
    case 1:
        tr_stop(f->sys, ref);
        break;
    case 2:
        tr_kill(f->sys, ref);
        break;
    default:
        tr_tell(f->sys, ref, Plus, .a = 1, .b = 2);
        break;
    }
}

static void write_raw(peer *f, tri_writer *w)
{
    size_t size = tri_read_u8(&f->input);
    size_t left = (size_t)(f->input.end - f->input.at);
    size = size < left ? size : left;
    tri_write_bytes(w, f->input.at, size);
    f->input.at += size;
}

static void token(peer *f, tri_writer *w)
{
    switch (tri_read_u8(&f->input) % 14) {
    case 0:
        tri_write_u8(w, tri_read_u8(&f->input));
        break;
    case 1:
        tri_write_u16(w, tri_read_u8(&f->input));
        break;
    case 2:
        tri_write_u32(w, tri_read_u8(&f->input));
        break;
    case 3:
        tri_write_u64(w, tri_read_u8(&f->input));
        break;
    case 4:
        tri_write_u64(w, tri_read_u64(&f->input));
        break;
    case 5:
        tri_write_text(w, some_name(f));
        break;
    case 6:
        write_raw(f, w);
        break;
    case 7:
        tri_write_u64(w, f->token);
        break;
    case 8:
        tri_write_u64(w, f->correlation);
        break;
    case 9:
        tri_write_u64(w, tri_read_u8(&f->input) % 2 ? Plus_tr_type.schema
                                                    : Sum_tr_type.schema);
        break;
    case 10:
        act(f);
        break;
    case 11:
        run(f, 1 + tri_read_u8(&f->input) % 32);
        break;
    default:  // the frame is complete
        put(f, w);
        run(f, 1);
        break;
    }
}

static void run_program(peer *f)
{
    tri_writer w = {0};
    for (int i = 0; i < TOKENS_MAX && f->input.at < f->input.end; i++) {
        token(f, &w);
    }
    put(f, &w);
    run(f, STEPS_END);
}

static void no_log(void *user, const tr_log_record *record)
{
    (void)user;
    (void)record;
}

static void ignore_shard(void *user, uint32_t shard)
{
    (void)user, (void)shard;
}

static void ignore_epoch(void *user, uint32_t shard, uint64_t epoch)
{
    (void)user, (void)shard, (void)epoch;
}

static void ignore_revision(void *user, uint64_t revision)
{
    (void)user, (void)revision;
}

/* Both nodes are members; they own the shards in turn. */
static tri_view *some_view(void)
{
    tri_view *view = tri_view_new(1, 2);
    TRI_CHECK(view != NULL);
    view->members[0].incarnation = view->members[1].incarnation = 1;
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        view->shards[i].node = (tri_node){.slot = i % 2, .incarnation = 1};
        view->shards[i].epoch = 1;
    }
    return view;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const tri_bus_up up = {.handed_over = ignore_shard,
                                  .raise_epoch = ignore_epoch,
                                  .refresh = ignore_revision};
    static const tri_transport_ops transport = {.send = from_bus};
    static const tri_session_ops ops = {.send = to_bus,
                                        .take = take,
                                        .done = done,
                                        .lost = lost,
                                        .begin = hello};
    peer f = {.base.ops = &transport,
              .input = {.at = data, .end = data + size}};
    TRI_CHECK(tr_sim_new(&f.sim, 1) == TR_OK);
    TRI_CHECK(tr_system_open(&f.sys, .ns = "shop", .log = no_log,
                             .world = tr_sim_world(f.sim)) == TR_OK);
    TRI_CHECK(tri_bus_join(f.sys, &(tri_bus_options){
                                      .transport = &f.base,
                                      .up = &up,
                                      .node = {.incarnation = 1}}) == TR_OK);
    tri_bus_set_view(f.sys, some_view());
    TRI_CHECK(tr_host(f.sys, adder) == TR_OK);
    tri_session_init(&f.session, &ops, &f.sys->mem, 1, 1, 0);
    run_program(&f);
    TRI_CHECK(tr_system_close(f.sys, TR_SECONDS(60)) == TR_OK);
    for (uint32_t i = 0; i < f.count; i++) {
        free((void *)(uintptr_t)f.packets[i].at);
    }
    tri_session_fini(&f.session);
    tr_sim_free(f.sim);
    return 0;
}

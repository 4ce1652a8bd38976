/*
 * bus_peer_test.c - the bus of one system, and a peer that the test plays.
 *
 * The other node is a session of the test's own: it sees each item that the
 * bus sends, at the moment it comes, and sends what no honest node would.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
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

static tr_err on_plus(tr_ctx *ctx, void *self, const Plus *q)
{
    (void)self;
    return tr_reply(ctx, q, .value = q->a + q->b);
}

TR_ACTOR(adder, void, TR_ON(Plus, on_plus));

TR_MESSAGE(Count, (int64_t, number));

static int64_t last_counted;  // there is one run at a time

static tr_err on_count(tr_ctx *ctx, void *self, const Count *m)
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
    tri_session session;   // first
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
    tri_envelope answer;   // the last
    uint32_t answers;
    char text[256];        // its payload, if it is an error
    bool stubborn;         // all that comes goes back, as if we knew better
    uint32_t sent_back;
    uint32_t questions, markers, tells;
    uint64_t question;     // token of the last
    uint64_t marker;       // token of the last,
    uint64_t heard;        // ... and the place it says it has heard of
    uint64_t placed;       // the last place that the bus gave out,
    uint64_t gone;         // ... and the last that it gave back
    uint32_t claims;
    uint64_t claimed;      // the last of them
} peer;

static peer *of(tri_session *s)
{
    return (peer *)(void *)s;
}

/* ---- the session's side ---- */

static void to_bus(tri_session *s, const tri_packet *p)
{
    tri_writer w = {.mem = &of(s)->sys->mem};
    tri_packet_write(&w, p);
    assert_false(w.failed);
    tri_bus_receive(of(s)->sys, w.bytes, w.size);
    free(w.bytes);
}

static void put(peer *f, tri_writer *w)
{
    assert_false(w->failed);
    assert_int_equal(tri_session_put(&f->session, w->bytes, w->size, NULL,
                                     f->now),
                     TR_OK);
    free(w->bytes);
}

static tri_writer item(peer *f, tri_item kind)
{
    tri_writer w = {.mem = &f->sys->mem};
    tri_write_u8(&w, (uint8_t)kind);
    return w;
}

static bool hello(tri_session *s)
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

static void on_request(peer *f, const tri_envelope *e)
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
static void send_back(peer *f, tri_item kind, tr_bytes bytes, tri_reader *r)
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
static void take_note(peer *f, tri_item kind, tri_reader *r)
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

static bool take(tri_session *s, tr_bytes bytes)
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

static void done(tri_session *s, void *tag, bool received, bool sent)
{
    (void)s;
    (void)tag;
    (void)received;
    (void)sent;
}

static void lost(tri_session *s, bool goodbye)
{
    (void)s;
    (void)goodbye;
}

/* ---- the stage ---- */

static void from_bus(tri_transport *t, uint32_t from, uint32_t to,
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

static void run(peer *f, int steps)
{
    while (steps-- > 0) {
        tr_sim_advance(f->sim, TR_MS(5));
        f->now += TR_MS(5);
        for (uint32_t i = 0; i < f->count; i++) {
            tri_packet p;
            assert_true(tri_packet_read(&p, f->packets[i].bytes,
                                        f->packets[i].size));
            tri_session_packet(&f->session, &p, f->now);
            free(f->packets[i].bytes);
        }
        f->count = 0;
        tri_session_pump(&f->session, f->now);
    }
}

/* Node 1 begins a life, and speaks. */
static void begin_session(peer *f, uint64_t life)
{
    static const tri_session_ops ops = {.send = to_bus, .take = take,
                                        .done = done, .lost = lost,
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

static void open_life(peer *f, const char *ns, uint64_t life)
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
                                                .nodes = 2, .life = life}),
        TR_OK);
    f->bus = tri_bus_of(tri_cluster_of(f->sys));
    assert_int_equal(tr_host(f->sys, adder), TR_OK);
    assert_int_equal(tr_host(f->sys, counter), TR_OK);
    begin_session(f, 1);
    assert_int_equal(f->hellos, 1);
}

static void open_peer(peer *f, const char *ns)
{
    open_life(f, ns, 1);
}

static void close_peer(peer *f)
{
    assert_int_equal(tr_system_close(f->sys, 0), TR_OK);
    for (uint32_t i = 0; i < f->count; i++) {
        free(f->packets[i].bytes);
    }
    tri_session_fini(&f->session);
    tr_sim_free(f->sim);
}

/* A name of that kind whose shard the node owns. */
static void name_at(uint32_t owner, const char *kind, int nth, char *out,
                    size_t size)
{
    for (int i = 0; nth >= 0; i++) {
        snprintf(out, size, "shop::%s/k%d", kind, i);
        nth -= tri_shard_of(out, strlen(out)) % 2 == owner;
    }
}

static void name(const char *kind, int nth, char *out, size_t size)
{
    name_at(0, kind, nth, out, size);
}

static void declare(peer *f, const tr_type *type, const char *table)
{
    tri_writer w = item(f, TRI_ITEM_TYPE);
    tri_write_u64(&w, type->schema);
    tri_write_text(&w, type->name);
    tri_write_text(&w, table);
    put(f, &w);
}

/* Sends a request as type 1; returns the error of its answer. */
static tr_err request(peer *f, const char *target, const void *payload,
                      size_t size)
{
    static uint64_t next;
    tri_envelope e = {.direction = TRI_REQUEST, .sender_node = 1,
                      .correlation = ++next, .ttl_ms = 5000, .type = 1,
                      .through = 2, .payload = {payload, size}};
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

/* ---- tests ---- */

TR_MESSAGE(Begin, (tr_ref, to));

static tr_err on_begin_message(tr_ctx *ctx, void *self, const Begin *m)
{
    Sum sum;
    (void)self;
    tr_err ignored = tr_ask(ctx, m->to, &sum, TR_MS(50), Plus, .a = 1);
    (void)ignored;  // nobody answers
    return TR_OK;
}

TR_ACTOR(asker, void, TR_ON(Begin, on_begin_message));

static void test_BU1_BU2_BU5_BU9_VA13_calls_of_a_bus(void **state)
{
    enum { CALLS = 12 };
    peer f;
    char text[64];
    (void)state;
    open_peer(&f, "shop");
    tri_peer *there = f.bus->peers[1];
    assert_non_null(there);
    assert_null(f.bus->peers[2]);  // BU9: only whom it has to do with
    for (int i = 0; i < CALLS; i++) {
        name("far", i, text, sizeof(text));
        tr_tell(f.sys, tr_spawn(f.sys, asker), Begin,
                .to = tr_virtual_named(f.sys, text));
    }
    run(&f, 6);
    // BU1: the bus holds its node, its peers, what it waits for, a counter.
    assert_int_equal(f.bus->here, 0);
    assert_int_equal(tri_map_count(&f.bus->calls), CALLS);
    assert_int_equal(f.requests, CALLS);
    for (uint32_t i = 1; i < f.requests; i++) {
        assert_true(f.correlations[i] > f.correlations[i - 1]);  // VA13
    }
    assert_true(f.bus->next_number >= f.correlations[CALLS - 1]);
    run(&f, 20);  // their time is over
    assert_int_equal(tri_map_count(&f.bus->calls), 0);
    assert_ptr_equal(f.bus->peers[1], there);
    assert_int_equal(there->session.stream, 1);  // BU9: one for all of them
    close_peer(&f);
}

typedef struct Result {
    tr_err *err;
    char *text;
} Result;

TR_MESSAGE(Try, (tr_ref, to));

static tr_err on_try(tr_ctx *ctx, Result *self, const Try *m)
{
    Sum sum;
    *self->err = tr_ask(ctx, m->to, &sum, TR_SECONDS(100), Plus, .a = 1);
    snprintf(self->text, 256, "%s", tr_error_text(ctx));
    return TR_OK;
}

TR_ACTOR(trier, Result, TR_ON(Try, on_try));

/* A node that sends everything back does not make it go round for ever. */
static void test_MS7_BU6_X30_to_and_fro_has_an_end(void **state)
{
    peer f;
    char text[64], said[256] = "";
    tr_err err = TR_OK;
    tr_dead_info letters[4] = {0};
    (void)state;
    open_peer(&f, "shop");
    f.stubborn = true;
    name("far", 0, text, sizeof(text));
    Result result = {.err = &err, .text = said};
    tr_tell(f.sys, tr_spawn(f.sys, trier, .init = &result,
                            .init_size = sizeof(result)),
            Try, .to = tr_virtual_named(f.sys, text));
    run(&f, 100);
    assert_int_equal(err, TR_ELIMIT);
    assert_non_null(strstr(said, "too often"));
    assert_int_equal(f.sent_back, TRI_RETURNS_MAX + 1);
    assert_int_equal(tri_map_count(&f.bus->calls), 0);
    assert_int_equal(tr_dead_letters(f.sys, letters, 4), 0);

    name("far", 1, text, sizeof(text));
    tr_tell(f.sys, tr_virtual_named(f.sys, text), Plus, .a = 1);
    run(&f, 100);
    assert_int_equal(f.sent_back, 2 * (TRI_RETURNS_MAX + 1));
    assert_int_equal(tr_dead_letters(f.sys, letters, 4), 1);
    assert_int_equal(letters[0].reason, TR_DEAD_FORWARDED);
    assert_int_equal(tri_bus_count(f.sys).too_often, 2);
    close_peer(&f);
}

/* An owner that took the question and has given us up says nothing. */
static void test_DI6_X8_X10_a_question_is_asked_again(void **state)
{
    enum { WAIT = TRI_ASK_WAIT / TR_MS(5) };  // steps
    peer f;
    char text[64];
    tr_dead_info letters[4] = {0};
    (void)state;
    open_peer(&f, "shop");
    name_at(1, "far", 0, text, sizeof(text));
    tr_tell(f.sys, tr_virtual_named(f.sys, text), Plus, .a = 1);
    run(&f, 40);
    assert_int_equal(f.questions, 1);
    uint64_t first = f.question;
    run(&f, WAIT);
    assert_int_equal(f.questions, 2);
    assert_true(f.question > first);
    assert_int_equal(tr_dead_letters(f.sys, letters, 4), 0);
    // Not for ever: then its mail is given up, as with an owner who is lost.
    run(&f, WAIT + 40);
    assert_int_equal(f.questions, 2);
    assert_int_equal(tr_dead_letters(f.sys, letters, 4), 1);
    assert_int_equal(letters[0].reason, TR_DEAD_UNREACHABLE);
    assert_int_equal(f.tells, 0);
    close_peer(&f);
}

/* ---- markers ---- */

static int64_t place(uint32_t count)
{
    return (int64_t)(UINT64_C(1) << 32 | count);
}

static void answer_for_life(peer *f, uint64_t life, uint32_t node,
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

static void answer_question(peer *f, uint32_t node, uint32_t count)
{
    answer_for_life(f, node == 0 ? f->bus->life : f->session.life, node,
                    count);
}

/*
 * It was in a mailbox of node 1; the actor is to begin on node 0 now, which
 * has the place in that life.
 */
static void hand_over_to(peer *f, uint64_t life, const char *target,
                         uint32_t count, Count told)
{
    unsigned char bytes[64];
    size_t size = tri_binary_write(&Count_tr_type, &told, bytes,
                                   sizeof(bytes), NULL);
    tri_envelope e = {.direction = TRI_ONE_WAY, .sender_node = 1, .type = 1,
                      .through = TRI_THROUGH_ALL,
                      .place = (uint64_t)place(count),
                      .place_life = life,
                      .payload = {bytes, size}};
    snprintf(e.target, sizeof(e.target), "%s", target);
    tri_writer w = item(f, TRI_ITEM_MESSAGE);
    tri_envelope_write(&w, &e);
    put(f, &w);
}

static void hand_over(peer *f, const char *target, uint32_t count, Count told)
{
    hand_over_to(f, f->bus->life, target, count, told);
}

/*
 * A node that follows its messages and gets others that say the actor is to
 * begin there has heard of that place: it does not give way to a node that
 * knows no more. What has come to it would leave again, and those behind it
 * would be before it when it came back.
 */
static void test_X30_MS4_DI11_mail_says_where_its_actor_is(void **state)
{
    enum { JOIN = 2 };
    peer f;
    char text[64];
    (void)state;
    open_peer(&f, "shop");
    last_counted = 0;
    name_at(1, "counter", 0, text, sizeof(text));
    declare(&f, &Count_tr_type, "");
    tr_tell(f.sys, tr_virtual_named(f.sys, text), Count, .number = 3);
    run(&f, 20);
    answer_question(&f, 1, 1);
    assert_int_equal(f.tells, 1);
    // Another activation than we knew: a marker follows the first message.
    tri_writer w = item(&f, TRI_ITEM_MOVED);
    tri_write_u32(&w, 1);
    tri_write_u64(&w, (uint64_t)place(2));
    tri_write_u64(&w, f.session.life);
    tri_write_u64(&w, 0);
    tri_write_text(&w, text);
    put(&f, &w);
    run(&f, 20);
    assert_int_equal(f.markers, 1);
    assert_int_equal(f.heard, place(2));
    hand_over(&f, text, 4, (Count){.number = 1});
    // The marker is answered by one who has heard of the same place.
    w = item(&f, TRI_ITEM_FLUSHED);
    tri_write_u64(&w, f.marker);
    tri_write_u64(&w, (uint64_t)place(4));
    tri_write_u8(&w, JOIN);
    put(&f, &w);
    run(&f, 20);
    assert_int_equal(f.tells, 1);  // nothing has left again
    assert_int_equal(f.markers, 2);
    assert_int_equal(f.heard, place(4));
    hand_over(&f, text, 4, (Count){.number = 2});
    run(&f, 20);
    // Behind them comes what we had sent, and the marker.
    hand_over(&f, text, 4, (Count){.number = 3});
    w = item(&f, TRI_ITEM_FLUSH);
    tri_write_u32(&w, 0);
    tri_write_u64(&w, f.marker);
    tri_write_u8(&w, 1);
    tri_write_text(&w, text);
    tri_write_u64(&w, (uint64_t)place(4));
    put(&f, &w);
    run(&f, 20);
    answer_question(&f, 0, 4);
    assert_int_equal(last_counted, 3);
    assert_int_equal(f.tells, 1);
    close_peer(&f);
}

/* ---- places that are given back ---- */

static tri_route *route_of(peer *f, const char *text)
{
    tr_ref ref = tr_virtual_named(f->sys, text);
    tri_route *r = tri_virtual_of(tri_ref_cell(ref))->route;
    assert_non_null(r);
    return r;
}

/*
 * The owner tells another node to begin the actor here, and is asked to stop
 * it before the mail that begins it has come: nobody is there, so the place is
 * free. The mail must not begin it at that place any more, since the owner
 * knows nothing of it, and would begin it anywhere once more.
 */
static void test_DI2_DI3_VA16_an_owner_takes_a_place_back(void **state)
{
    peer f;
    char text[64];
    tri_place found;
    (void)state;
    open_peer(&f, "shop");
    last_counted = 0;
    name_at(0, "counter", 0, text, sizeof(text));
    declare(&f, &Count_tr_type, "");
    tri_writer w = item(&f, TRI_ITEM_PLACE);
    tri_write_u64(&w, 7);
    tri_write_u8(&w, false);
    tri_write_text(&w, text);
    put(&f, &w);
    run(&f, 20);
    assert_int_equal(f.placed, place(1));
    tr_stop(f.sys, tr_virtual_named(f.sys, text));
    run(&f, 20);
    tri_directory *directory = &tri_cluster_of(f.sys)->directory;
    assert_false(tri_directory_lookup(directory, text, strlen(text), &found));
    hand_over(&f, text, 1, (Count){.number = 1});
    run(&f, 20);
    assert_int_equal(last_counted, 1);  // and it is not lost
    assert_true(tri_directory_lookup(directory, text, strlen(text), &found));
    assert_int_equal(found.number, place(2));
    assert_int_equal(route_of(&f, text)->here, found.number);
    close_peer(&f);
}

/* The same on a node that is not the owner. */
static void test_DI2_DI3_VA16_a_place_given_back_is_used(void **state)
{
    peer f;
    char text[64];
    (void)state;
    open_peer(&f, "shop");
    last_counted = 0;
    name_at(1, "counter", 0, text, sizeof(text));
    declare(&f, &Count_tr_type, "");
    tr_stop(f.sys, tr_virtual_named(f.sys, text));
    run(&f, 20);
    assert_int_equal(f.questions, 1);
    answer_question(&f, 0, 1);
    assert_int_equal(f.gone, place(1));
    hand_over(&f, text, 1, (Count){.number = 1});
    run(&f, 20);
    assert_int_equal(route_of(&f, text)->here, 0);
    assert_int_equal(f.questions, 2);  // where is it now?
    answer_question(&f, 0, 2);
    assert_int_equal(last_counted, 1);
    assert_int_equal(route_of(&f, text)->here, place(2));
    close_peer(&f);
}

/* A life of a node that sends mail for the nth name, and asks where it is. */
static void ask_in_life(peer *f, uint64_t life, int nth, char *text,
                        size_t size)
{
    open_life(f, "shop", life);
    last_counted = 0;
    name_at(1, "counter", nth, text, size);
    tr_tell(f->sys, tr_virtual_named(f->sys, text), Count, .number = 1);
    run(f, 20);
    assert_int_equal(f->questions, 1);
}

static void test_VA13_DI2_an_answer_to_an_earlier_life(void **state)
{
    peer f;
    char text[64];
    (void)state;
    ask_in_life(&f, 1, 0, text, sizeof(text));
    uint64_t earlier = f.question;
    close_peer(&f);

    ask_in_life(&f, 2, 1, text, sizeof(text));
    uint64_t question = f.question;
    f.question = earlier;
    answer_question(&f, 0, 1);  // of the other one
    assert_int_equal(last_counted, 0);
    assert_int_equal(route_of(&f, text)->here, 0);
    f.question = question;
    answer_question(&f, 0, 2);
    assert_int_equal(last_counted, 1);
    assert_int_equal(route_of(&f, text)->here, place(2));
    close_peer(&f);
}

/*
 * Mail to a node that has died may come to its next life, sent by one who has
 * heard of the place late. It is no place of that life: the owner has given
 * the actor to another node since.
 */
static void test_DI2_VA15_X34_a_place_of_an_earlier_life(void **state)
{
    peer f;
    char text[64];
    (void)state;
    open_life(&f, "shop", 2);
    last_counted = 0;
    name_at(1, "counter", 0, text, sizeof(text));
    declare(&f, &Count_tr_type, "");
    hand_over_to(&f, 1, text, 1, (Count){.number = 1});
    run(&f, 20);
    assert_int_equal(f.questions, 1);  // where is it now?
    assert_int_equal(last_counted, 0);
    assert_int_equal(route_of(&f, text)->here, 0);
    // An owner who has not heard of this life either is told.
    answer_for_life(&f, 1, 0, 1);
    assert_int_equal(f.gone, place(1));
    assert_int_equal(last_counted, 0);
    run(&f, 20);
    assert_int_equal(f.questions, 2);
    answer_question(&f, 0, 2);
    assert_int_equal(last_counted, 1);
    assert_int_equal(route_of(&f, text)->here, place(2));
    close_peer(&f);
}

static uint32_t found_on(peer *f, const char *text, tri_place *found)
{
    tri_directory *directory = &tri_cluster_of(f->sys)->directory;
    return tri_directory_lookup(directory, text, strlen(text), found)
               ? found->node
               : UINT32_MAX;
}

/* A node greets in its next life: it has nothing of the one before. */
static void test_DI9_X34_the_next_life_of_a_node_has_no_places(void **state)
{
    peer f;
    char text[64];
    tri_place found;
    (void)state;
    open_peer(&f, "shop");
    name_at(0, "far", 0, text, sizeof(text));
    tr_tell(f.sys, tr_virtual_named(f.sys, text), Plus, .a = 1);
    run(&f, 20);
    assert_int_equal(f.tells, 1);
    assert_int_equal(found_on(&f, text, &found), 1);
    assert_int_equal(found.life, 1);
    begin_session(&f, 2);
    assert_int_equal(found_on(&f, text, &found), UINT32_MAX);
    tr_tell(f.sys, tr_virtual_named(f.sys, text), Plus, .a = 1);
    run(&f, 20);
    assert_int_equal(f.tells, 2);
    assert_int_equal(found_on(&f, text, &found), 1);
    assert_int_equal(found.life, 2);
    close_peer(&f);
}

/* What is active here of an owner's shards is told to its next life, too. */
static void test_DI8_X34_the_next_life_of_an_owner_gets_claims(void **state)
{
    peer f;
    char text[64];
    (void)state;
    open_peer(&f, "shop");
    last_counted = 0;
    name_at(1, "counter", 0, text, sizeof(text));
    tr_tell(f.sys, tr_virtual_named(f.sys, text), Count, .number = 1);
    run(&f, 20);
    answer_question(&f, 0, 1);
    assert_int_equal(last_counted, 1);
    assert_int_equal(f.claims, 0);
    begin_session(&f, 2);
    assert_int_equal(f.claims, 1);
    assert_int_equal(f.claimed, place(1));
    close_peer(&f);
}

/* ---- watches, stops, and what waits ---- */

TR_MESSAGE(Guard, (tr_ref, actor), (bool, on));

static tr_err on_guard(tr_ctx *ctx, void *self, const Guard *m)
{
    (void)self;
    if (m->on) {
        tr_watch(ctx, m->actor);
    } else {
        tr_unwatch(ctx, m->actor);
    }
    return TR_OK;
}

static tr_err on_end(tr_ctx *ctx, void *self, const tr_terminated *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}

TR_ACTOR(guardian, void, TR_ON(Guard, on_guard), TR_ON(tr_terminated, on_end));

/* The owner cannot say yet. */
static void answer_later(peer *f)
{
    tri_writer w = item(f, TRI_ITEM_PLACED);
    tri_write_u64(&w, f->question);
    tri_write_u32(&w, TR_EWOULDBLOCK);
    tri_write_u8(&w, 0);
    tri_write_u32(&w, 0);
    tri_write_u64(&w, 0);
    tri_write_u64(&w, 0);
    put(f, &w);
}

/* How long one has asked in vain counts for those who wait, not for others. */
static void test_X8_X30_each_question_has_its_own_time(void **state)
{
    enum { HOLD = TRI_ROUTE_HOLD / TR_MS(5) };  // steps
    peer f;
    char text[64];
    tr_dead_info letters[4] = {0};
    (void)state;
    open_peer(&f, "shop");
    last_counted = 0;
    name_at(1, "counter", 0, text, sizeof(text));
    tr_ref actor = tr_virtual_named(f.sys, text);
    tr_ref who = tr_spawn(f.sys, guardian);
    tr_tell(f.sys, who, Guard, .actor = actor, .on = true);
    run(&f, 4);
    assert_int_equal(f.questions, 1);
    answer_later(&f);
    run(&f, 2);
    tr_tell(f.sys, who, Guard, .actor = actor, .on = false);
    run(&f, HOLD + 40);
    assert_int_equal(f.questions, 1);  // nobody wants to know any more
    tr_tell(f.sys, actor, Count, .number = 1);
    run(&f, 4);
    assert_int_equal(f.questions, 2);
    answer_later(&f);
    run(&f, 40);
    assert_int_equal(tr_dead_letters(f.sys, letters, 4), 0);
    assert_int_equal(f.questions, 3);
    answer_question(&f, 0, 1);
    assert_int_equal(last_counted, 1);
    close_peer(&f);
}

/* Who is told to end behind a message ends, also if that began it. */
static void test_X10_AC7_a_stop_behind_the_first_message(void **state)
{
    peer f;
    char text[64];
    (void)state;
    open_peer(&f, "shop");
    last_counted = 0;
    name_at(1, "counter", 0, text, sizeof(text));
    tr_ref actor = tr_virtual_named(f.sys, text);
    tr_tell(f.sys, actor, Count, .number = 1);
    tr_poison(f.sys, actor);
    run(&f, 20);
    answer_question(&f, 0, 1);
    assert_int_equal(last_counted, 1);
    assert_int_equal(f.gone, place(1));
    assert_int_equal(route_of(&f, text)->here, 0);
    close_peer(&f);
}

static void moved_from(peer *f, const char *text, uint32_t count,
                       uint64_t loser)
{
    tri_writer w = item(f, TRI_ITEM_MOVED);
    tri_write_u32(&w, 1);
    tri_write_u64(&w, (uint64_t)place(count));
    tri_write_u64(&w, f->session.life);
    tri_write_u64(&w, loser);
    tri_write_text(&w, text);
    put(f, &w);
}

static void moved(peer *f, const char *text, uint32_t count)
{
    moved_from(f, text, count, 0);
}

/* That a claim has lost is said of one activation; the next is not meant. */
static void test_DI8_DI10_only_the_loser_ends(void **state)
{
    peer f;
    char text[64];
    (void)state;
    open_peer(&f, "shop");
    last_counted = 0;
    name_at(1, "counter", 0, text, sizeof(text));
    tr_tell(f.sys, tr_virtual_named(f.sys, text), Count, .number = 1);
    run(&f, 20);
    answer_question(&f, 0, 3);
    assert_int_equal(route_of(&f, text)->here, place(3));
    moved_from(&f, text, 1, (uint64_t)place(2));  // it has ended since
    run(&f, 20);
    assert_int_equal(route_of(&f, text)->here, place(3));
    moved_from(&f, text, 4, (uint64_t)place(3));
    run(&f, 20);
    assert_int_equal(route_of(&f, text)->here, 0);
    assert_int_equal(f.gone, place(3));
    close_peer(&f);
}

/*
 * A message of this node's earlier life comes home, and is held while a marker
 * follows what this life has sent, which is nothing. News of another place do
 * not end that, or what is held would stay for ever.
 */
static void test_X30_X34_news_while_gathering(void **state)
{
    enum { ALL = 0 };
    peer f;
    char text[64];
    unsigned char bytes[64];
    Count told = {.number = 1};
    (void)state;
    open_life(&f, "shop", 2);
    name_at(1, "far", 0, text, sizeof(text));
    tr_ref actor = tr_virtual_named(f.sys, text);
    tr_tell(f.sys, tr_spawn(f.sys, guardian), Guard, .actor = actor,
            .on = true);
    run(&f, 20);
    answer_question(&f, 1, 1);
    declare(&f, &Count_tr_type, "");
    size_t size = tri_binary_write(&Count_tr_type, &told, bytes,
                                   sizeof(bytes), NULL);
    tri_envelope e = {.direction = TRI_ONE_WAY, .type = 1, .forwards = 1,
                      .through = 3, .payload = {bytes, size}};
    snprintf(e.target, sizeof(e.target), "%s", text);
    tri_writer w = item(&f, TRI_ITEM_MESSAGE);
    tri_envelope_write(&w, &e);
    put(&f, &w);
    run(&f, 20);
    assert_int_equal(f.markers, 1);
    tr_tell(f.sys, actor, Count, .number = 2);
    moved(&f, text, 2);
    run(&f, 20);
    w = item(&f, TRI_ITEM_FLUSHED);
    tri_write_u64(&w, f.marker);
    tri_write_u64(&w, (uint64_t)place(2));
    tri_write_u8(&w, ALL);
    put(&f, &w);
    run(&f, 40);
    assert_int_equal(f.tells, 2);
    close_peer(&f);
}

TR_ACTOR(pool, void, TR_ON(Count, on_count));

/* Mail that waits for a host of its kind, which is this node then. */
static void test_AC14_X30_workers_are_hosted_here_at_last(void **state)
{
    peer f;
    char text[64];
    tr_dead_info letters[4] = {0};
    (void)state;
    open_peer(&f, "shop");
    last_counted = 0;
    f.bus->peers[1]->greeted = false;  // it may still host something
    name_at(0, "pool", 0, text, sizeof(text));
    tr_ref actor = tr_virtual_named(f.sys, text);
    tr_tell(f.sys, actor, Count, .number = 1);
    run(&f, 20);
    assert_int_equal(tr_host(f.sys, pool, .workers = 2), TR_OK);
    run(&f, 40);
    assert_int_equal(tr_dead_letters(f.sys, letters, 4), 0);
    assert_int_equal(last_counted, 1);
    close_peer(&f);
}

static void test_MS12_a_payload_must_be_of_its_type(void **state)
{
    peer f;
    char text[64];
    unsigned char bytes[64];
    Plus plus = {.a = 2, .b = 3};
    (void)state;
    open_peer(&f, "shop");
    name("adder", 0, text, sizeof(text));
    declare(&f, &Plus_tr_type, "");
    size_t size = tri_binary_write(&Plus_tr_type, &plus, bytes,
                                   sizeof(bytes), NULL);
    assert_true(size > 1 && size <= sizeof(bytes));
    assert_int_equal(request(&f, text, bytes, size), TR_OK);
    for (size_t cut = 1; cut < size; cut++) {
        tr_err err = request(&f, text, bytes, cut);
        assert_true(err == TR_ESCHEMA || err == TR_OK);
        if (err == TR_ESCHEMA) {
            assert_non_null(strstr(f.text, "Plus"));
        }
    }
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(request(&f, text, bytes, sizeof(bytes)), TR_ESCHEMA);
    assert_non_null(strstr(f.text, "Plus"));
    // The actor is not hurt by any of it.
    size = tri_binary_write(&Plus_tr_type, &plus, bytes, sizeof(bytes), NULL);
    assert_int_equal(request(&f, text, bytes, size), TR_OK);
    close_peer(&f);
}

static void test_MS12_what_was_not_declared_is_refused(void **state)
{
    peer f;
    char text[64];
    (void)state;
    open_peer(&f, "shop");
    name("adder", 0, text, sizeof(text));
    assert_int_equal(request(&f, text, "", 0), TR_EINVAL);
    assert_non_null(strstr(f.text, "declared"));
    close_peer(&f);
}

static void test_VA8_VA9_another_namespace_is_kept_out(void **state)
{
    peer f;
    char text[64];
    (void)state;
    open_peer(&f, "stage");
    name("adder", 0, text, sizeof(text));
    declare(&f, &Plus_tr_type, "");
    assert_int_equal(request(&f, text, "", 0), TR_EFOREIGN);
    // Its kinds are not ours either.
    uint64_t nodes;
    bool stateless;
    assert_false(tri_bus_kind_of(f.bus, "far", 3, &nodes, &stateless) &&
                 nodes != 0);
    close_peer(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_BU1_BU2_BU5_BU9_VA13_calls_of_a_bus),
        cmocka_unit_test(test_MS7_BU6_X30_to_and_fro_has_an_end),
        cmocka_unit_test(test_DI6_X8_X10_a_question_is_asked_again),
        cmocka_unit_test(test_X30_MS4_DI11_mail_says_where_its_actor_is),
        cmocka_unit_test(test_DI2_DI3_VA16_an_owner_takes_a_place_back),
        cmocka_unit_test(test_DI2_DI3_VA16_a_place_given_back_is_used),
        cmocka_unit_test(test_VA13_DI2_an_answer_to_an_earlier_life),
        cmocka_unit_test(test_DI2_VA15_X34_a_place_of_an_earlier_life),
        cmocka_unit_test(test_DI9_X34_the_next_life_of_a_node_has_no_places),
        cmocka_unit_test(test_DI8_X34_the_next_life_of_an_owner_gets_claims),
        cmocka_unit_test(test_DI8_DI10_only_the_loser_ends),
        cmocka_unit_test(test_X8_X30_each_question_has_its_own_time),
        cmocka_unit_test(test_X10_AC7_a_stop_behind_the_first_message),
        cmocka_unit_test(test_X30_X34_news_while_gathering),
        cmocka_unit_test(test_AC14_X30_workers_are_hosted_here_at_last),
        cmocka_unit_test(test_MS12_a_payload_must_be_of_its_type),
        cmocka_unit_test(test_MS12_what_was_not_declared_is_refused),
        cmocka_unit_test(test_VA8_VA9_another_namespace_is_kept_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * wire_test.c - names of nodes, packets, envelopes, and the session.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/rand.h"
#include "cluster/node.h"
#include "cluster/session.h"

/* ---- nodes ---- */

static void test_VA10_VA11_nodes_are_read_and_written(void **state)
{
    static const char *const good[] = {
        "localhost:1", "10.0.0.255:65535", "a-b.c_d.example:80", "[::1]:7000",
        "[::]:7000",   "[fe80::1:2]:9",    "[1:2:3:4:5:6:7:8]:9"};
    static const char *const bad[] = {"",
                                      "host",
                                      "host:",
                                      "host:0",
                                      "host:65536",
                                      "host:+1",
                                      "host:1x",
                                      ":80",
                                      "10.0.0:1",
                                      "256.0.0.1:1",
                                      "1.2.3.4.:1",
                                      "-a:1",
                                      "a-:1",
                                      "a..b:1",
                                      "a b:1",
                                      "::1:80",
                                      "[::1:80",
                                      "[]:1",
                                      "[1:2]:1",
                                      "[1::2::3]:1",
                                      "[12345::]:1",
                                      "[g::]:1",
                                      "[:1::]:1",
                                      "[1:2:3:4:5:6:7::8:9]:1",
                                      "host:00080"};
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        tri_node_id id;
        const char *why;
        char text[TRI_NODE_TEXT];
        assert_int_equal(tri_node_parse(&id, good[i], &why), TR_OK);
        assert_int_equal(tri_node_write(&id, text), strlen(good[i]));
        assert_string_equal(text, good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        tri_node_id id;
        const char *why = NULL;
        assert_int_equal(tri_node_parse(&id, bad[i], &why), TR_EINVAL);
        assert_non_null(why);
        assert_int_equal(id.port, 0);
    }
}

static void test_VA12_a_place_has_one_name(void **state)
{
    tri_node_id a, b;
    const char *why;
    (void)state;
    assert_int_equal(tri_node_parse(&a, "Host.Example:80", &why), TR_OK);
    assert_int_equal(tri_node_parse(&b, "host.example:80", &why), TR_OK);
    assert_true(tri_node_same(&a, &b));
    assert_int_equal(tri_node_parse(&b, "host.example:81", &why), TR_OK);
    assert_false(tri_node_same(&a, &b));
    char longest[TRI_HOST_MAX + 8];
    memset(longest, 'a', sizeof(longest));
    strcpy(longest + TRI_HOST_MAX + 1, ":1");
    assert_int_equal(tri_node_parse(&b, longest, &why), TR_EINVAL);
}

/* ---- envelopes ---- */

static tri_envelope request(void)
{
    return (tri_envelope){.direction = TRI_REQUEST,
                          .correlation = 7,
                          .ttl_ms = 1000,
                          .target_node = 2,
                          .sender_node = 1,
                          .target = "shop::cart/a",
                          .sender = "shop::user/b",
                          .payload = {"abc", 3},
                          .type = 4,
                          .place = 9,
                          .through = 5,
                          .forwards = 1,
                          .returns = 2,
                          .flags = TRI_FLAG_SUPPRESS_KEEP_ALIVE};
}

static void test_MS1_MS14_X32_X33_an_envelope_crosses_whole(void **state)
{
    tri_envelope sent = request(), got;
    tri_writer w = {0};
    (void)state;
    tri_envelope_write(&w, &sent);
    for (size_t size = 0; size < w.size; size++) {
        tri_reader cut = {.at = w.bytes, .end = w.bytes + size};
        assert_false(tri_envelope_read(&cut, &got));
    }
    tri_reader r = {.at = w.bytes, .end = w.bytes + w.size};
    assert_true(tri_envelope_read(&r, &got));
    assert_int_equal(got.direction, sent.direction);
    assert_int_equal(got.correlation, 7);
    assert_int_equal(got.ttl_ms, 1000);
    assert_int_equal(got.type, 4);
    assert_int_equal(got.place, 9);
    assert_int_equal(got.through, sent.through);
    assert_int_equal(got.forwards, 1);
    assert_int_equal(got.returns, 2);
    assert_int_equal(got.flags, sent.flags);
    assert_string_equal(got.target, sent.target);
    assert_string_equal(got.sender, sent.sender);
    assert_memory_equal(got.payload.at, "abc", 3);
    free(w.bytes);
}

static void refused(tri_envelope e, tr_err err)
{
    const char *why;
    assert_int_equal(tri_envelope_check(&e, &why), err);
    assert_non_null(why);
}

static void test_MS5_MS7_MS8_MS9_MS10_MS13_bad_envelopes_are_refused(
    void **state)
{
    tri_envelope e = request();
    const char *why;
    (void)state;
    assert_int_equal(tri_envelope_check(&e, &why), TR_OK);
    e.ttl_ms = 0;  // MS5
    refused(e, TR_EINVAL);
    e = request();
    e.forwards = TRI_FORWARDS_MAX;
    assert_int_equal(tri_envelope_check(&e, &why), TR_OK);
    e.forwards++;  // MS7
    refused(e, TR_ELIMIT);
    e = request();
    e.returns = TRI_RETURNS_MAX;
    assert_int_equal(tri_envelope_check(&e, &why), TR_OK);
    e.returns++;
    refused(e, TR_ELIMIT);
    e = request();
    e.flags = TRI_FLAG_ALWAYS_INTERLEAVE;  // MS9
    refused(e, TR_EINVAL);
    e.flags |= TRI_FLAG_READ_ONLY;
    assert_int_equal(tri_envelope_check(&e, &why), TR_OK);
    e.flags = TRI_FLAG_IS_LOCAL_ONLY;  // MS10
    e.forwards = 0;
    assert_int_equal(tri_envelope_check(&e, &why), TR_OK);
    e.forwards = 1;
    refused(e, TR_EINVAL);
    e = request();
    e.flags = TRI_FLAGS_ALL + 1;  // MS8
    refused(e, TR_EINVAL);
    e = request();
    strcpy(e.target, "cart/a");  // MS13
    refused(e, TR_EINVAL);
    e = request();
    e.correlation = 0;
    refused(e, TR_EINVAL);
    e.direction = 0;
    refused(e, TR_EINVAL);
}

static void test_MS2_MS3_MS4_MS6_directions(void **state)
{
    tri_envelope e = request(), answer = tri_envelope_answer(&e);
    const char *why;
    (void)state;
    assert_int_equal(answer.direction, TRI_RESPONSE);
    assert_int_equal(answer.correlation, e.correlation);
    assert_string_equal(answer.target, e.sender);
    assert_string_equal(answer.sender, e.target);
    assert_int_equal(answer.target_node, e.sender_node);
    assert_int_equal(answer.sender_node, e.target_node);
    assert_int_equal(answer.ttl_ms, 0);  // no time of its own
    assert_int_equal(tri_envelope_check(&answer, &why), TR_OK);
    tri_envelope told = request();
    told.direction = TRI_ONE_WAY;
    refused(told, TR_EINVAL);  // a correlation, and nobody waits
    told.correlation = 0;
    told.ttl_ms = 0;
    assert_int_equal(tri_envelope_check(&told, &why), TR_OK);
}

static void test_X34_packets_carry_lives_and_damage_is_found(void **state)
{
    tri_packet sent = {.kind = TRI_PACKET_DATA,
                       .from = 1,
                       .to = 2,
                       .life = 11,
                       .to_life = 12,
                       .stream = 3,
                       .number = 4,
                       .ack_stream = 5,
                       .ack = 6,
                       .item = {"hello", 5}},
               got;
    tri_writer w = {0};
    (void)state;
    tri_packet_write(&w, &sent);
    assert_int_equal(w.size, TRI_PACKET_HEAD + 5);
    assert_int_equal(w.bytes[2], TRI_WIRE_VERSION);
    assert_true(tri_packet_read(&got, w.bytes, w.size));
    assert_int_equal(got.life, 11);
    assert_int_equal(got.to_life, 12);
    assert_int_equal(got.stream, 3);
    assert_int_equal(got.ack_stream, 5);
    assert_int_equal(got.number, 4);
    assert_int_equal(got.ack, 6);
    assert_memory_equal(got.item.at, "hello", 5);
    for (size_t bit = 0; bit < w.size * 8; bit++) {
        w.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_false(tri_packet_read(&got, w.bytes, w.size));
        w.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (size_t size = 0; size < w.size; size++) {
        assert_false(tri_packet_read(&got, w.bytes, size));
    }
    free(w.bytes);
}

/* ---- sessions: two of them and a bad link between ---- */

enum { NODES = 2, LINK = 4096, ITEMS = 300 };

typedef struct end {
    tri_session session;  // first
    tri_mem mem;
    uint32_t taken;  // the last number that was taken
    uint32_t wrong, begun, lost, goodbyes;
    uint32_t received, maybe, never;  // what became of our items
} end;

static struct {
    end ends[NODES];
    struct {
        uint32_t to;
        size_t size;
        unsigned char bytes[512];
    } link[LINK];
    uint32_t count;
    uint32_t bad;  // of 100: lost, and doubled, and out of order
    tri_rand rand;
} world;

static void on_send(tri_session *s, const tri_packet *packet)
{
    tri_writer w = {0};
    (void)s;
    tri_packet_write(&w, packet);
    uint64_t copies = tri_rand_below(&world.rand, 100) < world.bad ? 0 : 1;
    copies += tri_rand_below(&world.rand, 100) < world.bad;
    for (; copies > 0 && world.count < LINK; copies--) {
        uint32_t at = world.count++;
        if (tri_rand_below(&world.rand, 100) < world.bad) {
            at = (uint32_t)tri_rand_below(&world.rand, world.count);
            world.link[world.count - 1] = world.link[at];
        }
        world.link[at].to = packet->to;
        world.link[at].size = w.size;
        memcpy(world.link[at].bytes, w.bytes, w.size);
    }
    free(w.bytes);
}

static bool on_take(tri_session *s, tr_bytes item)
{
    end *e = (end *)(void *)s;
    uint32_t number;
    assert_int_equal(item.size, sizeof(number));
    memcpy(&number, item.at, sizeof(number));
    e->wrong += number != e->taken + 1;
    e->taken = number;
    return true;
}

static void on_done(tri_session *s, void *tag, bool received, bool sent)
{
    end *e = (end *)(void *)s;
    (void)tag;
    e->received += received;
    e->maybe += !received && sent;
    e->never += !received && !sent;
}

/* As a request that is given back: its asker, on that node, is told. */
static void answers(tri_session *s, void *tag, bool received, bool sent)
{
    uint32_t number = 2;
    on_done(s, tag, received, sent);
    if (tag != NULL) {
        assert_int_equal(tri_session_put(s, &number, sizeof(number), NULL, 1),
                         TR_OK);
    }
}

static void on_lost(tri_session *s, bool goodbye)
{
    end *e = (end *)(void *)s;
    e->lost++;
    e->goodbyes += goodbye;
}

static bool on_begin(tri_session *s)
{
    ((end *)(void *)s)->begun++;
    return true;
}

static const tri_session_ops session_ops = {.send = on_send,
                                            .take = on_take,
                                            .done = on_done,
                                            .lost = on_lost,
                                            .begin = on_begin};

static void set_up(uint64_t seed, uint32_t bad)
{
    memset(&world, 0, sizeof(world));
    tri_rand_init(&world.rand, seed);
    world.bad = bad;
    for (uint32_t i = 0; i < NODES; i++) {
        tri_mem_init(&world.ends[i].mem, 0);
        tri_session_init(&world.ends[i].session, &session_ops,
                         &world.ends[i].mem, i, 100 + i, 1 - i);
    }
}

static void tear_down(void)
{
    for (uint32_t i = 0; i < NODES; i++) {
        tri_session_fini(&world.ends[i].session);
        tri_mem_fini(&world.ends[i].mem);
    }
}

static void put(uint32_t from, uint32_t number, tr_nanos now)
{
    assert_int_equal(tri_session_put(&world.ends[from].session, &number,
                                     sizeof(number), NULL, now),
                     TR_OK);
}

static void step(tr_nanos now)
{
    uint32_t count = world.count;
    for (uint32_t i = 0; i < count; i++) {
        tri_packet packet;
        assert_true(
            tri_packet_read(&packet, world.link[i].bytes, world.link[i].size));
        tri_session_packet(&world.ends[packet.to].session, &packet, now);
    }
    memmove(world.link, world.link + count,
            (world.count - count) * sizeof(*world.link));
    world.count -= count;
    for (uint32_t i = 0; i < NODES; i++) {
        tri_session_pump(&world.ends[i].session, now);
    }
}

static void test_X53_each_item_once_and_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        set_up(seed, (uint32_t)(seed % 3) * 15);
        tr_nanos now = TR_SECONDS(1);
        for (uint32_t n = 1; n <= ITEMS; n++) {
            put(0, n, now);
            if (n % 3 == 0) {
                put(1, n / 3, now);
            }
            if (n % 7 == 0) {
                step(now += TR_MS(1));
            }
        }
        for (uint32_t i = 0; i < 4000 && (world.ends[0].session.count > 0 ||
                                          world.ends[1].session.count > 0);
             i++) {
            step(now += TR_MS(5));
        }
        for (uint32_t i = 0; i < NODES; i++) {
            end *e = &world.ends[i];
            assert_int_equal(e->wrong, 0);
            assert_int_equal(e->begun, 1);
            assert_int_equal(e->lost, 0);
            assert_int_equal(e->received, i == 0 ? ITEMS : ITEMS / 3);
        }
        assert_int_equal(world.ends[1].taken, ITEMS);
        assert_int_equal(world.ends[0].taken, ITEMS / 3);
        tear_down();
    }
}

static void test_X53_the_end_tells_maybe_from_never(void **state)
{
    (void)state;
    set_up(1, 0);
    tr_nanos now = TR_SECONDS(1);
    put(0, 1, now);
    for (uint32_t i = 0; i < 6; i++) {
        step(now += TR_MS(1));
    }
    assert_int_equal(world.ends[0].received, 1);
    world.bad = 100;  // all is lost, and comes twice: nothing twice is one
    for (uint32_t n = 2; n <= TRI_SESSION_WINDOW + 11; n++) {
        put(0, n, now);
    }
    step(now += TR_MS(1));
    world.count = 0;
    for (; world.ends[0].lost == 0 && now < TR_SECONDS(60); now += TR_MS(50)) {
        tri_session_pump(&world.ends[0].session, now);
        world.count = 0;
    }
    assert_int_equal(world.ends[0].lost, 1);
    assert_true(now >= TRI_SESSION_LOST);
    assert_int_equal(world.ends[0].maybe, TRI_SESSION_WINDOW);
    assert_int_equal(world.ends[0].never, 10);
    tear_down();
}

static void test_X34_X53_another_life_takes_nothing_twice(void **state)
{
    (void)state;
    set_up(1, 0);
    tr_nanos now = TR_SECONDS(1);
    put(0, 1, now);
    step(now += TR_MS(1));  // SYN
    step(now += TR_MS(1));  // is asked who it is
    step(now += TR_MS(1));  // and says so
    step(now += TR_MS(1));  // the item, taken
    assert_int_equal(world.ends[1].taken, 1);
    world.count = 0;  // its acknowledgement is lost, with its life
    tri_session_init(&world.ends[1].session, &session_ops, &world.ends[1].mem,
                     1, 200, 0);
    world.ends[1].taken = 0;
    for (uint32_t i = 0; i < 20; i++) {
        step(now += TR_MS(20));
    }
    assert_int_equal(world.ends[1].taken, 0);
    assert_int_equal(world.ends[0].lost, 1);
    assert_int_equal(world.ends[0].maybe, 1);
    put(0, 1, now);  // a stream to the new life
    for (uint32_t i = 0; i < 20; i++) {
        step(now += TR_MS(20));
    }
    assert_int_equal(world.ends[1].taken, 1);
    assert_int_equal(world.ends[0].begun, 2);
    tri_session_bye(&world.ends[1].session);
    step(now += TR_MS(1));
    assert_int_equal(world.ends[0].goodbyes, 1);
    tear_down();
}

/* ---- lives that are over ---- */

/* From node 1 in that life, with the number as item; none: 0. */
static void comes(tri_packet_kind kind, uint64_t life, uint32_t number)
{
    tri_packet packet = {.kind = kind,
                         .from = 1,
                         .life = life,
                         .to_life = 100,
                         .stream = 1,
                         .number = number,
                         .item = {&number, number > 0 ? sizeof(number) : 0}};
    tri_session_packet(&world.ends[0].session, &packet, TR_SECONDS(1));
}

/* What was under way when it said goodbye may come after that. */
static void test_X34_X53_nothing_is_taken_of_who_has_left(void **state)
{
    (void)state;
    set_up(1, 0);
    end *e = &world.ends[0];
    comes(TRI_PACKET_DATA, 101, 1);
    assert_int_equal(e->taken, 1);
    comes(TRI_PACKET_BYE, 101, 0);
    assert_int_equal(e->goodbyes, 1);
    comes(TRI_PACKET_DATA, 101, 2);
    assert_int_equal(e->taken, 1);
    // Nor does it get what waits for the next one, who does.
    put(0, 1, TR_SECONDS(1));
    comes(TRI_PACKET_ACK, 101, 0);
    comes(TRI_PACKET_BYE, 101, 0);
    assert_int_equal(e->session.peer, 0);
    assert_int_equal(e->never, 0);
    comes(TRI_PACKET_ACK, 102, 0);
    assert_int_equal(e->session.peer, 102);
    assert_int_equal(e->lost, 1);
    tear_down();
}

static void test_X34_an_earlier_life_is_not_who_is_there(void **state)
{
    (void)state;
    set_up(1, 0);
    end *e = &world.ends[0];
    comes(TRI_PACKET_DATA, 102, 1);
    put(0, 1, TR_SECONDS(1));
    comes(TRI_PACKET_ACK, 101, 0);
    assert_int_equal(e->session.peer, 0);
    comes(TRI_PACKET_ACK, 102, 0);
    assert_int_equal(e->session.peer, 102);
    assert_int_equal(e->lost, 0);
    // The next life is only heard of when it leaves: this one is over, too.
    comes(TRI_PACKET_BYE, 103, 0);
    assert_int_equal(e->goodbyes, 1);
    assert_int_equal(e->session.peer, 0);
    // Of one that has received, and sent nothing yet.
    put(0, 2, TR_SECONDS(1));
    comes(TRI_PACKET_ACK, 104, 0);
    comes(TRI_PACKET_DATA, 103, 1);
    comes(TRI_PACKET_DATA, 102, 2);
    assert_int_equal(e->taken, 1);
    assert_int_equal(e->session.peer, 104);
    tear_down();
}

static void test_X53_an_answer_to_what_is_given_back_is_not_left(void **state)
{
    static const tri_session_ops ops = {.send = on_send,
                                        .take = on_take,
                                        .done = answers,
                                        .lost = on_lost,
                                        .begin = on_begin};
    (void)state;
    for (uint32_t items = 1; items <= 3; items++) {
        set_up(1, 0);
        tri_session *s = &world.ends[0].session;
        s->ops = &ops;
        for (uint32_t i = 1; i <= items; i++) {
            assert_int_equal(tri_session_put(s, &i, sizeof(i), s, 1), TR_OK);
        }
        tri_session_fini(s);
        assert_null(s->first);
        assert_int_equal(world.ends[0].never, 2 * items);
        tear_down();
    }
}

static void test_X53_queues_are_limited_and_memory_may_end(void **state)
{
    (void)state;
    set_up(1, 0);
    uint32_t number = 1;
    tri_mem_fail_after(&world.ends[0].mem, 0);
    assert_int_equal(
        tri_session_put(&world.ends[0].session, &number, 4, NULL, 1),
        TR_ENOMEM);
    tri_mem_fail_after(&world.ends[0].mem, -1);
    for (uint32_t i = 0; i < TRI_SESSION_QUEUE; i++) {
        put(0, 1, 1);
    }
    assert_int_equal(
        tri_session_put(&world.ends[0].session, &number, 4, NULL, 1),
        TR_ELIMIT);
    tear_down();
    assert_int_equal(world.ends[0].never, TRI_SESSION_QUEUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_VA10_VA11_nodes_are_read_and_written),
        cmocka_unit_test(test_VA12_a_place_has_one_name),
        cmocka_unit_test(test_MS1_MS14_X32_X33_an_envelope_crosses_whole),
        cmocka_unit_test(
            test_MS5_MS7_MS8_MS9_MS10_MS13_bad_envelopes_are_refused),
        cmocka_unit_test(test_MS2_MS3_MS4_MS6_directions),
        cmocka_unit_test(test_X34_packets_carry_lives_and_damage_is_found),
        cmocka_unit_test(test_X53_each_item_once_and_in_order),
        cmocka_unit_test(test_X53_the_end_tells_maybe_from_never),
        cmocka_unit_test(test_X34_X53_another_life_takes_nothing_twice),
        cmocka_unit_test(test_X34_X53_nothing_is_taken_of_who_has_left),
        cmocka_unit_test(test_X34_an_earlier_life_is_not_who_is_there),
        cmocka_unit_test(test_X53_an_answer_to_what_is_given_back_is_not_left),
        cmocka_unit_test(test_X53_queues_are_limited_and_memory_may_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

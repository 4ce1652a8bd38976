/*
 * session_test.c - two sessions with a bad link between them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "cluster/transport/session.h"

enum { NODES = 2, LINK = 4096, ITEMS = 300 };

typedef struct end {
    tri_session session;  // first
    tri_mem mem;
    uint32_t taken;  // the last number that was taken
    uint32_t wrong, begun, lost;
    uint32_t received, maybe, never;  // what became of our frames
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

static bool on_take(tri_session *s, tr_bytes frame)
{
    end *e = (end *)(void *)s;
    uint32_t number;
    assert_int_equal(frame.size, sizeof(number));
    memcpy(&number, frame.at, sizeof(number));
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

/* Puts another frame when one is given back, as an error to an asker is. */
static void answers(tri_session *s, void *tag, bool received, bool sent)
{
    uint32_t number = 2;
    on_done(s, tag, received, sent);
    if (tag != NULL) {
        assert_int_equal(tri_session_put(s, &number, sizeof(number), NULL),
                         TR_OK);
    }
}

static void on_lost(tri_session *s)
{
    ((end *)(void *)s)->lost++;
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

static void put(uint32_t from, uint32_t number)
{
    assert_int_equal(tri_session_put(&world.ends[from].session, &number,
                                     sizeof(number), NULL),
                     TR_OK);
}

static void step(tr_nanos now)
{
    uint32_t count = world.count;
    for (uint32_t i = 0; i < count; i++) {
        tri_packet packet;
        assert_true(
            tri_packet_read(&packet, world.link[i].bytes, world.link[i].size));
        tri_session_receive(&world.ends[packet.to].session, &packet, now);
    }
    memmove(world.link, world.link + count,
            (world.count - count) * sizeof(*world.link));
    world.count -= count;
    for (uint32_t i = 0; i < NODES; i++) {
        tri_session_pump(&world.ends[i].session, now);
    }
}

static void test_X53_each_frame_is_taken_once_and_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        set_up(seed, (uint32_t)(seed % 3) * 15);
        tr_nanos now = TR_SECONDS(1);
        for (uint32_t n = 1; n <= ITEMS; n++) {
            put(0, n);
            if (n % 3 == 0) {
                put(1, n / 3);
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

static void test_X53_the_end_of_a_node_says_what_was_sent_and_what_never(
    void **state)
{
    (void)state;
    set_up(1, 0);
    tr_nanos now = TR_SECONDS(1);
    put(0, 1);
    for (uint32_t i = 0; i < 6; i++) {
        step(now += TR_MS(1));
    }
    assert_int_equal(world.ends[0].received, 1);
    for (uint32_t n = 2; n <= TRI_SESSION_WINDOW + 11; n++) {
        put(0, n);
    }
    world.bad = 100;  // each frame is lost, for as long as one likes
    for (uint32_t i = 0; i < 1000; i++) {
        tri_session_pump(&world.ends[0].session, now += TR_SECONDS(1));
        world.count = 0;
    }
    assert_int_equal(world.ends[0].lost, 0);
    tri_session_peer_gone(&world.ends[0].session, 101);
    assert_int_equal(world.ends[0].lost, 1);
    assert_int_equal(world.ends[0].maybe, TRI_SESSION_WINDOW);
    assert_int_equal(world.ends[0].never, 10);
    tear_down();
}

static void test_X53_a_cut_loses_nothing(void **state)
{
    (void)state;
    set_up(1, 0);
    tr_nanos now = TR_SECONDS(1);
    for (uint32_t n = 1; n <= ITEMS; n++) {
        put(0, n);
    }
    world.bad = 100;
    for (uint32_t i = 0; i < 100; i++) {
        tri_session_pump(&world.ends[0].session, now += TR_SECONDS(1));
        world.count = 0;
    }
    world.bad = 0;
    for (uint32_t i = 0; i < 100; i++) {
        step(now += TR_MS(500));
    }
    assert_int_equal(world.ends[1].taken, ITEMS);
    assert_int_equal(world.ends[1].wrong, 0);
    assert_int_equal(world.ends[0].received, ITEMS);
    assert_int_equal(world.ends[0].lost, 0);
    tear_down();
}

static void test_X34_X53_no_frame_is_taken_by_two_incarnations(void **state)
{
    (void)state;
    set_up(1, 0);
    tr_nanos now = TR_SECONDS(1);
    put(0, 1);
    step(now += TR_MS(1));  // SYN
    step(now += TR_MS(1));  // the answer says the incarnation
    step(now += TR_MS(1));  // the frame is sent
    step(now += TR_MS(1));  // the frame is taken
    assert_int_equal(world.ends[1].taken, 1);
    world.count = 0;  // its acknowledgement is lost, with its incarnation
    tri_session_init(&world.ends[1].session, &session_ops, &world.ends[1].mem,
                     1, 200, 0);
    world.ends[1].taken = 0;
    for (uint32_t i = 0; i < 20; i++) {
        step(now += TR_MS(20));
    }
    assert_int_equal(world.ends[1].taken, 0);
    assert_int_equal(world.ends[0].lost, 1);
    assert_int_equal(world.ends[0].maybe, 1);
    put(0, 1);  // a stream to the new incarnation
    for (uint32_t i = 0; i < 20; i++) {
        step(now += TR_MS(20));
    }
    assert_int_equal(world.ends[1].taken, 1);
    assert_int_equal(world.ends[0].begun, 2);
    tear_down();
}

/* ---- incarnations that are over ---- */

/* Receives a packet of node 1 in that incarnation; number 0: no frame. */
static void comes(tri_packet_kind kind, uint64_t incarnation, uint32_t number)
{
    tri_packet packet = {.kind = kind,
                         .from = 1,
                         .incarnation = incarnation,
                         .to_incarnation = 100,
                         .stream = 1,
                         .number = number,
                         .frame = {&number, number > 0 ? sizeof(number) : 0}};
    tri_session_receive(&world.ends[0].session, &packet, TR_SECONDS(1));
}

/* Packets that were under way may come after the death. */
static void test_X34_X53_nothing_is_taken_from_a_node_that_is_dead(void **state)
{
    (void)state;
    set_up(1, 0);
    end *e = &world.ends[0];
    comes(TRI_PACKET_DATA, 101, 1);
    assert_int_equal(e->taken, 1);
    tri_session_peer_gone(&e->session, 101);
    comes(TRI_PACKET_DATA, 101, 2);
    assert_int_equal(e->taken, 1);
    // Frames that wait for the next incarnation do not go to this one.
    put(0, 1);
    comes(TRI_PACKET_ACK, 101, 0);
    assert_int_equal(e->session.peer, 0);
    assert_int_equal(e->never, 0);
    comes(TRI_PACKET_ACK, 102, 0);
    assert_int_equal(e->session.peer, 102);
    assert_int_equal(e->lost, 1);
    tear_down();
}

static void test_X34_a_restarted_node_begins_another_stream(void **state)
{
    (void)state;
    set_up(1, 0);
    end *e = &world.ends[0];
    put(0, 1);
    comes(TRI_PACKET_ACK, 101, 0);
    assert_int_equal(e->session.peer, 101);
    tri_session_restart(&e->session, e->session.here, 300);
    assert_int_equal(e->lost, 1);
    assert_int_equal(e->never, 1);
    assert_int_equal(e->session.incarnation, 300);
    put(0, 1);
    assert_int_equal(e->begun, 2);
    tear_down();
}

static void test_X34_packets_of_an_earlier_incarnation_are_ignored(void **state)
{
    (void)state;
    set_up(1, 0);
    end *e = &world.ends[0];
    comes(TRI_PACKET_DATA, 102, 1);
    put(0, 1);
    comes(TRI_PACKET_ACK, 101, 0);
    assert_int_equal(e->session.peer, 0);
    comes(TRI_PACKET_ACK, 102, 0);
    assert_int_equal(e->session.peer, 102);
    assert_int_equal(e->lost, 0);
    // The death of the next incarnation ends this one, too.
    tri_session_peer_gone(&e->session, 103);
    assert_int_equal(e->session.peer, 0);
    // The other node has received, and sent nothing yet.
    put(0, 2);
    comes(TRI_PACKET_ACK, 104, 0);
    comes(TRI_PACKET_DATA, 103, 1);
    comes(TRI_PACKET_DATA, 102, 2);
    assert_int_equal(e->taken, 1);
    assert_int_equal(e->session.peer, 104);
    tear_down();
}

/* A handshake that was delayed on the link arrives after frames. */
static void test_X53_a_repeated_handshake_does_not_reset_the_stream(
    void **state)
{
    (void)state;
    set_up(7, 0);
    put(0, 1);
    tri_session_pump(&world.ends[0].session, 1);
    assert_int_equal(world.count, 1);
    tri_packet syn;
    assert_true(tri_packet_read(&syn, world.link[0].bytes, world.link[0].size));
    assert_int_equal(syn.kind, TRI_PACKET_SYN);
    for (tr_nanos now = 2; now < 10; now++) {
        step(now);
    }
    assert_int_equal(world.ends[1].taken, 1);
    tri_session_receive(&world.ends[1].session, &syn, 10);
    put(0, 2);
    for (tr_nanos now = 11; now < 20; now++) {
        step(now);
    }
    assert_int_equal(world.ends[1].taken, 2);
    assert_int_equal(world.ends[1].wrong, 0);
    assert_int_equal(world.ends[0].received, 2);
    tear_down();
}

static void test_X53_frames_put_while_a_session_ends_are_given_back(
    void **state)
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
            assert_int_equal(tri_session_put(s, &i, sizeof(i), s), TR_OK);
        }
        tri_session_fini(s);
        assert_null(s->first);
        assert_int_equal(world.ends[0].never, 2 * items);
        tear_down();
    }
}

static void test_X53_a_full_queue_or_no_memory_refuses_a_frame(void **state)
{
    (void)state;
    set_up(1, 0);
    uint32_t number = 1;
    tri_mem_fail_after(&world.ends[0].mem, 0);
    assert_int_equal(tri_session_put(&world.ends[0].session, &number, 4, NULL),
                     TR_ENOMEM);
    tri_mem_fail_after(&world.ends[0].mem, -1);
    for (uint32_t i = 0; i < TRI_SESSION_QUEUE; i++) {
        put(0, 1);
    }
    assert_int_equal(tri_session_put(&world.ends[0].session, &number, 4, NULL),
                     TR_ELIMIT);
    tear_down();
    assert_int_equal(world.ends[0].never, TRI_SESSION_QUEUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_X53_each_frame_is_taken_once_and_in_order),
        cmocka_unit_test(
            test_X53_the_end_of_a_node_says_what_was_sent_and_what_never),
        cmocka_unit_test(test_X53_a_cut_loses_nothing),
        cmocka_unit_test(test_X34_a_restarted_node_begins_another_stream),
        cmocka_unit_test(test_X34_X53_no_frame_is_taken_by_two_incarnations),
        cmocka_unit_test(
            test_X34_X53_nothing_is_taken_from_a_node_that_is_dead),
        cmocka_unit_test(
            test_X34_packets_of_an_earlier_incarnation_are_ignored),
        cmocka_unit_test(
            test_X53_a_repeated_handshake_does_not_reset_the_stream),
        cmocka_unit_test(
            test_X53_frames_put_while_a_session_ends_are_given_back),
        cmocka_unit_test(test_X53_a_full_queue_or_no_memory_refuses_a_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

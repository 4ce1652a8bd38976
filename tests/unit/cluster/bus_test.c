/*
 * bus_test.c - three systems, one namespace.
 *
 * Most tests run on virtual time with several seeds, over the in-memory link
 * and over the simulated network, and once on threads.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "support/mesh.h"

enum { NODES = 3, SEEDS = 4, KEYS = 24 };

#define PATIENCE TR_SECONDS(20)

TR_MESSAGE(Where, (uint32_t, node), (int64_t, count), (const char *, key),
           (tr_ref, self), (const char *, memo));
TR_REQUEST(Find, Where);
TR_REQUEST(Nap, Where, (int64_t, span));
TR_REQUEST(Refuse, Where);
TR_REQUEST(Ask, Where, (tr_ref, to));
TR_REQUEST(Private, Where);
TR_REQUEST(Strange, Where);
TR_MESSAGE(Add, (int64_t, number), (const char *, memo));
TR_MESSAGE(Ping, (tr_ref, to));
TR_MESSAGE(Pong);

typedef struct Counter {
    int64_t count, last;
    bool wrong;
    tr_ref pinged;
} Counter;

static mesh cloud;

static uint32_t node_of(tr_ctx *ctx)
{
    uint32_t i = 0;
    while (cloud.systems[i] != tr_system_of(ctx)) {
        i++;
    }
    return i;
}

static tr_err on_find(tr_ctx *ctx, Counter *self, const Find *q)
{
    return tr_reply(ctx, q, .node = node_of(ctx),
                    .count = self->wrong ? -1 : self->count,
                    .key = tr_key(ctx), .self = tr_self(ctx), .memo = "text");
}

static tr_err on_nap(tr_ctx *ctx, Counter *self, const Nap *q)
{
    (void)self;
    TR_TRY(tr_sleep(ctx, q->span));
    return tr_reply(ctx, q, .node = node_of(ctx));
}

static tr_err on_refuse(tr_ctx *ctx, Counter *self, const Refuse *q)
{
    (void)self;
    return tr_refuse(ctx, q, TR_EUSER, "not today, says %s", tr_key(ctx));
}

static tr_err on_ask(tr_ctx *ctx, Counter *self, const Ask *q)
{
    Where where;
    (void)self;
    TR_OR_REFUSE(ctx, q, tr_ask(ctx, q->to, &where, 0, Find));
    return tr_reply(ctx, q, .node = where.node, .count = where.count,
                    .key = where.key, .self = where.self);
}

static tr_err on_private(tr_ctx *ctx, Counter *self, const Private *q)
{
    (void)self;
    return tr_reply(ctx, q, .node = node_of(ctx));
}

static tr_err on_add(tr_ctx *ctx, Counter *self, const Add *add)
{
    (void)ctx;
    self->wrong |= add->number != self->last + 1 ||
                   strcmp(add->memo, "so long") != 0;
    self->last = add->number;
    self->count++;
    return TR_OK;
}

static tr_err on_ping(tr_ctx *ctx, Counter *self, const Ping *ping)
{
    (void)self;
    if (tr_ref_eq(ping->to, TR_NOBODY)) {
        tr_tell(ctx, tr_sender(ctx), Pong);  // a virtual sender is known
    } else {
        tr_tell(ctx, ping->to, Ping);
    }
    return TR_OK;
}

static tr_err on_pong(tr_ctx *ctx, Counter *self, const Pong *pong)
{
    (void)pong;
    self->pinged = tr_sender(ctx);
    self->count += 1000;
    return TR_OK;
}

TR_ACTOR(counter, Counter, TR_ON(Find, on_find), TR_ON(Nap, on_nap),
         TR_ON(Refuse, on_refuse), TR_ON(Ask, on_ask), TR_ON(Add, on_add),
         TR_ON_LOCAL(Private, on_private), TR_ON(Ping, on_ping),
         TR_ON(Pong, on_pong));

/* ---- the stage ---- */

static void everywhere(void (*scenario)(void))
{
    for (uint64_t seed = 0; seed <= SEEDS; seed++) {
        mesh_open(&cloud, seed, NODES, seed > SEEDS / 2);
        for (uint32_t i = 0; i < NODES; i++) {
            assert_int_equal(tr_host(cloud.systems[i], counter), TR_OK);
        }
        scenario();
        mesh_close(&cloud);
    }
}

static tr_ref named(uint32_t node, uint32_t key)
{
    char text[16];
    snprintf(text, sizeof(text), "k%u", key);
    return tr_virtual(cloud.systems[node], "counter", text);
}

static Where find(uint32_t node, uint32_t key)
{
    Where where;
    tr_err err = tr_ask(cloud.systems[node], named(node, key), &where, PATIENCE,
                        Find);
    if (err != TR_OK) {
        print_error("%s: %s\n", tr_errname(err),
                    tr_error_text(cloud.systems[node]));
    }
    assert_int_equal(err, TR_OK);
    assert_string_equal(where.memo, "text");
    Where kept = where;
    tr_drop(Where, &where);
    return kept;
}

/* A key that is active on another node than `node`. */
static uint32_t remote_key(uint32_t node)
{
    for (uint32_t key = 0; key < KEYS; key++) {
        if (find(node, key).node != node) {
            return key;
        }
    }
    fail();
    return 0;
}

/* ---- the whole way ---- */

static void one_place_for_all(void)
{
    uint32_t used = 0;
    for (uint32_t key = 0; key < KEYS; key++) {
        Where first = find(key % NODES, key);
        for (uint32_t node = 0; node < NODES; node++) {
            Where again = find(node, key);
            assert_int_equal(again.node, first.node);  // VA16, DI6
            // Refs cross as names: it is the one of this node.
            assert_true(tr_ref_eq(again.self, named(node, key)));
        }
        used |= 1u << first.node;
    }
    assert_int_equal(used, (1u << NODES) - 1);  // DI9: load is spread
}

static void test_BU8_BU11_VA16_DI6_DI9_one_place_for_all(void **state)
{
    (void)state;
    everywhere(one_place_for_all);
}

static void in_order(void)
{
    enum { MANY = 300 };
    for (uint32_t key = 0; key < 4; key++) {
        for (int64_t n = 1; n <= MANY; n++) {
            tr_tell(cloud.systems[0], named(0, key), Add, .number = n,
                    .memo = "so long");
        }
    }
    for (uint32_t key = 0; key < 4; key++) {
        assert_int_equal(find(0, key).count, MANY);
    }
}

static void test_BU11_MS4_X53_order_from_the_first_message_on(void **state)
{
    (void)state;
    everywhere(in_order);
}

static void errors_come_back(void)
{
    Where where;
    uint32_t key = remote_key(0);
    assert_int_equal(tr_ask(cloud.systems[0], named(0, key), &where, PATIENCE,
                            Refuse),
                     TR_EUSER);
    assert_non_null(strstr(tr_error_text(cloud.systems[0]), "not today, says k"));
    // BU10: no handler of that name.
    assert_int_equal(tr_ask(cloud.systems[0], named(0, key), &where, PATIENCE,
                            Strange),
                     TR_EUNHANDLED);
    // MS10: not from another node.
    assert_int_equal(tr_ask(cloud.systems[0], named(0, key), &where, PATIENCE,
                            Private),
                     TR_EFOREIGN);
    assert_int_equal(tr_ask(cloud.systems[0],
                            tr_virtual(cloud.systems[0], "nosuch", "k"), &where,
                            PATIENCE, Find),
                     TR_ENOENT);
}

static void test_BU10_BU12_MS10_errors_come_back(void **state)
{
    (void)state;
    everywhere(errors_come_back);
}

static void time_is_over(void)
{
    Where where;
    uint32_t key = remote_key(0);
    assert_int_equal(tr_ask(cloud.systems[0], named(0, key), &where, TR_MS(200),
                            Nap, .span = TR_MS(400)),
                     TR_ETIMEDOUT);
    assert_int_equal(tr_ask(cloud.systems[0], named(0, key), &where, PATIENCE,
                            Nap, .span = TR_MS(400)),
                     TR_OK);
    (void)find(0, key);
    // BU3, BU4: the late answer met nobody.
    assert_int_equal(tri_bus_count(cloud.systems[0]).unknown, 1);
}

static void test_BU3_BU4_BU7_MS5_time_is_over(void **state)
{
    (void)state;
    everywhere(time_is_over);
}

static void actors_ask_actors(void)
{
    for (uint32_t key = 0; key < 8; key++) {
        Where where;
        assert_int_equal(tr_ask(cloud.systems[1], named(1, key), &where, PATIENCE,
                                Ask, .to = named(1, key + 1)),
                         TR_OK);
        assert_true(tr_ref_eq(where.self, named(1, key + 1)));
        assert_int_equal(where.node, find(2, key + 1).node);
        tr_drop(Where, &where);
    }
    tr_tell(cloud.systems[0], named(0, 1), Ping, .to = named(0, 2));
    for (int i = 0; i < 200 && find(0, 1).count < 1000; i++) {
        if (cloud.sim != NULL) {
            tr_sim_advance(cloud.sim, TR_MS(10));
        }
    }
    assert_int_equal(find(0, 1).count, 1000);
}

static void test_BU11_T14_actors_ask_and_know_each_other(void **state)
{
    (void)state;
    everywhere(actors_ask_actors);
}

/* ---- coming and going ---- */

static void stop_and_watch(void)
{
    uint32_t key = remote_key(0);
    tr_ref ref = named(0, key);
    tr_probe *probe;
    assert_int_equal(tr_probe_new(&probe, cloud.systems[0]), TR_OK);
    tr_probe_watch(probe, ref);
    tr_tell(cloud.systems[0], ref, Add, .number = 1, .memo = "so long");
    tr_poison(cloud.systems[0], ref);
    const tr_terminated *end = tr_expect(probe, PATIENCE, tr_terminated);
    assert_true(tr_ref_eq(end->actor, ref));
    assert_true(end->reason == TR_STOPPED || end->reason == TR_NO_SUCH_ACTOR);
    assert_int_equal(find(0, key).count, 0);  // another activation
    // Nobody is there: told at once, and nothing is activated.
    tr_ref never = named(0, 1000);
    tr_probe_watch(probe, never);
    end = tr_expect(probe, PATIENCE, tr_terminated);
    assert_int_equal(end->reason, TR_NO_SUCH_ACTOR);
    tr_stop(cloud.systems[0], never);
    tr_probe_free(probe);
}

static void test_X10_AC7_stop_and_watch_from_another_node(void **state)
{
    (void)state;
    everywhere(stop_and_watch);
}

static void caches_are_corrected(void)
{
    uint32_t key = remote_key(0);
    for (int round = 0; round < 6; round++) {
        tr_ref ref = named(0, key);
        // Node 0 believes in a place; another ends that activation.
        (void)find(0, key);
        tr_stop(cloud.systems[1], named(1, key));
        for (int64_t n = 1; n <= 20; n++) {
            tr_tell(cloud.systems[0], ref, Add, .number = n, .memo = "so long");
        }
        // Some may be handled before the end: the rest is in order.
        assert_true(find(0, key).count <= 20);
        (void)find(1, key);  // behind its stop: that has come by now
        assert_int_equal(find(0, key).node, find(2, key).node);
        tr_stop(cloud.systems[0], ref);
        (void)find(1, key);
    }
}

static void test_MS7_MS15_DI7_DI11_X30_caches_are_corrected(void **state)
{
    (void)state;
    everywhere(caches_are_corrected);
}

/* ---- a node is lost ---- */

static void test_X8_BU6_a_lost_node_answers_unknown(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        Where where;
        mesh_open(&cloud, seed, NODES, true);
        for (uint32_t i = 0; i < NODES; i++) {
            assert_int_equal(tr_host(cloud.systems[i], counter), TR_OK);
        }
        uint32_t key = remote_key(0);
        uint32_t node = find(0, key).node;
        tr_probe *probe;
        assert_int_equal(tr_probe_new(&probe, cloud.systems[0]), TR_OK);
        tr_probe_watch(probe, named(0, key));
        tr_sim_advance(cloud.sim, TR_SECONDS(1));
        tri_sim_net_partition(cloud.net, UINT64_C(1) << node, TR_SECONDS(30));
        tr_err err = tr_ask(cloud.systems[0], named(0, key), &where,
                            TR_SECONDS(25), Find);
        assert_int_equal(err, TR_EUNKNOWN);
        assert_false(tr_undelivered(err));
        const tr_terminated *end = tr_expect(probe, PATIENCE, tr_terminated);
        assert_int_equal(end->reason, TR_NODE_DOWN);
        tr_probe_free(probe);
        tr_sim_advance(cloud.sim, TR_SECONDS(40));
        (void)find(0, key);  // it can be reached again
        mesh_close(&cloud);
    }
}

static void test_SH_a_node_that_leaves_gives_its_actors_up(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed <= SEEDS; seed++) {
        mesh_open(&cloud, seed, NODES, seed > 2);
        for (uint32_t i = 0; i < NODES; i++) {
            assert_int_equal(tr_host(cloud.systems[i], counter), TR_OK);
        }
        for (uint32_t key = 0; key < KEYS; key++) {
            (void)find(0, key);
        }
        tr_system *leaving = cloud.systems[2];
        mesh_leave(&cloud, 2);
        assert_int_equal(tr_system_close(leaving, 0), TR_OK);
        if (cloud.sim != NULL) {
            tr_sim_advance(cloud.sim, TR_SECONDS(1));
        }
        for (uint32_t i = 0; i < 2; i++) {
            for (uint32_t shard = 2; shard < TRI_SHARDS; shard += NODES) {
                tri_bus_shard(cloud.systems[i], shard, shard % 2, 2);
            }
        }
        for (uint32_t key = 0; key < KEYS; key++) {
            assert_true(find(key % 2, key).node < 2);
        }
        mesh_close(&cloud);
    }
}

/* ---- joining ---- */

static void test_VA17_joining_checks_what_it_is_given(void **state)
{
    tr_system *sys;
    tri_transport *link;
    (void)state;
    assert_int_equal(tri_link_new(&link), TR_OK);
    assert_int_equal(tr_system_open(&sys, .ns = "shop"), TR_OK);
    tri_bus_options o = {.transport = link, .nodes = 2, .life = 1};
    tri_bus_options bad = o;
    bad.life = 0;
    assert_int_equal(tri_bus_join(sys, &bad), TR_EINVAL);
    bad = o;
    bad.node = 2;
    assert_int_equal(tri_bus_join(sys, &bad), TR_EINVAL);
    bad = o;
    bad.address = "nowhere";
    assert_int_equal(tri_bus_join(sys, &bad), TR_EINVAL);
    assert_non_null(strstr(tr_error_text(sys), "port"));
    assert_int_equal(tri_bus_join(sys, &o), TR_OK);
    assert_int_equal(tri_bus_join(sys, &o), TR_EEXIST);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    tri_link_free(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_BU8_BU11_VA16_DI6_DI9_one_place_for_all),
        cmocka_unit_test(test_BU11_MS4_X53_order_from_the_first_message_on),
        cmocka_unit_test(test_BU10_BU12_MS10_errors_come_back),
        cmocka_unit_test(test_BU3_BU4_BU7_MS5_time_is_over),
        cmocka_unit_test(test_BU11_T14_actors_ask_and_know_each_other),
        cmocka_unit_test(test_X10_AC7_stop_and_watch_from_another_node),
        cmocka_unit_test(test_MS7_MS15_DI7_DI11_X30_caches_are_corrected),
        cmocka_unit_test(test_X8_BU6_a_lost_node_answers_unknown),
        cmocka_unit_test(test_SH_a_node_that_leaves_gives_its_actors_up),
        cmocka_unit_test(test_VA17_joining_checks_what_it_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

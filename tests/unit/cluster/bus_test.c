/*
 * bus_test.c - three systems, one namespace.
 *
 * Most tests run on virtual time with several seeds, over the in-memory link
 * and over the simulated network, and once on threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "cluster/bus/lane.h"
#include "cluster/virtual/activation.h"
#include "cluster/virtual/activation_state.h"
#include "support/core.h"
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
TR_MESSAGE(Slow);

typedef struct Counter {
    int64_t count, last;
    bool wrong, inside;
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
                    .count = self->wrong ? -1 : self->count, .key = tr_key(ctx),
                    .self = tr_self(ctx), .memo = "text");
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
    self->wrong |=
        add->number != self->last + 1 || strcmp(add->memo, "so long") != 0;
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

/* No other handler of this actor runs, even while this one waits. */
static tr_err on_slow(tr_ctx *ctx, Counter *self, const Slow *m)
{
    (void)m;
    self->wrong |= self->inside;
    self->inside = true;
    TR_TRY(tr_sleep(ctx, TR_MS(1)));
    self->inside = false;
    self->count++;
    return TR_OK;
}

TR_ACTOR(counter, Counter, TR_ON(Slow, on_slow), TR_ON(Find, on_find),
         TR_ON(Nap, on_nap), TR_ON(Refuse, on_refuse), TR_ON(Ask, on_ask),
         TR_ON(Add, on_add), TR_ON_LOCAL(Private, on_private),
         TR_ON(Ping, on_ping), TR_ON(Pong, on_pong));

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
    tr_err err =
        tr_ask(cloud.systems[node], named(node, key), &where, PATIENCE, Find);
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
            // A ref arrives as the ref of this node.
            assert_true(tr_ref_eq(again.self, named(node, key)));
        }
        used |= 1u << first.node;
    }
    assert_int_equal(used, (1u << NODES) - 1);  // DI9: load is spread
}

static void test_BU8_BU11_VA16_DI6_DI9_one_placement_for_all_nodes(void **state)
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
    assert_int_equal(
        tr_ask(cloud.systems[0], named(0, key), &where, PATIENCE, Refuse),
        TR_EUSER);
    assert_non_null(
        strstr(tr_error_text(cloud.systems[0]), "not today, says k"));
    // BU10: no handler of that name.
    assert_int_equal(
        tr_ask(cloud.systems[0], named(0, key), &where, PATIENCE, Strange),
        TR_EUNHANDLED);
    // MS10: not from another node.
    assert_int_equal(
        tr_ask(cloud.systems[0], named(0, key), &where, PATIENCE, Private),
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
    // BU3, BU4: the late answer found no call.
    assert_int_equal(tri_bus_count(cloud.systems[0]).unknown, 1);
}

static void test_BU3_BU4_BU7_MS5_a_request_times_out(void **state)
{
    (void)state;
    everywhere(time_is_over);
}

static void actors_ask_actors(void)
{
    for (uint32_t key = 0; key < 8; key++) {
        Where where;
        assert_int_equal(tr_ask(cloud.systems[1], named(1, key), &where,
                                PATIENCE, Ask, .to = named(1, key + 1)),
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

static void test_BU11_T14_DP9_PA4_actors_ask_and_know_each_other(void **state)
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
    // It is not active: the notice comes at once, nothing is activated.
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

static void ends_between_sends(void)
{
    uint32_t key = remote_key(0);
    for (int round = 0; round < 6; round++) {
        tr_ref ref = named(0, key);
        // Another node ends the activation.
        (void)find(0, key);
        tr_stop(cloud.systems[1], named(1, key));
        for (int64_t n = 1; n <= 20; n++) {
            tr_tell(cloud.systems[0], ref, Add, .number = n, .memo = "so long");
        }
        // Some may be handled before the end: the rest is in order.
        assert_true(find(0, key).count <= 20);
        (void)find(1, key);  // behind its stop, which has come by now
        assert_int_equal(find(0, key).node, find(2, key).node);
        tr_stop(cloud.systems[0], ref);
        (void)find(1, key);
    }
}

static void test_MS7_MS15_DI7_DI11_X30_order_through_ends_of_activations(
    void **state)
{
    (void)state;
    everywhere(ends_between_sends);
}

/* ---- activations ---- */

/* Returns the activation of a key on that node, which has the shard's lock. */
static tri_activation *activation_of(uint32_t node, uint32_t key)
{
    tri_virtual *v = tri_virtual_of(tri_ref_cell(named(node, key)));
    assert_non_null(v->activation);
    return v->activation;
}

/* The owner of a shard hosts its actors; each activation has a number. */
static void addresses_grow(void)
{
    enum { ROUNDS = 5 };
    for (uint32_t key = 0; key < 4; key++) {
        uint64_t last = 0;
        for (int round = 0; round < ROUNDS; round++) {
            uint32_t node = find(0, key).node;
            tri_activation *a = activation_of(node, key);
            assert_int_equal(a->v->shard % NODES, node);  // VA14
            assert_true(a->order + 1 > last);             // VA15
            last = a->order + 1;
            tr_probe *probe;
            assert_int_equal(tr_probe_new(&probe, cloud.systems[node]), TR_OK);
            tr_probe_watch(probe, named(node, key));
            tr_stop(cloud.systems[0], named(0, key));
            (void)tr_expect(probe, PATIENCE, tr_terminated);
            tr_probe_free(probe);
        }
    }
}

static void test_VA14_VA15_X32_numbers_of_activations_grow(void **state)
{
    (void)state;
    everywhere(addresses_grow);
}

static void what_it_holds(void)
{
    for (uint32_t key = 0; key < 6; key++) {
        uint32_t node = find(0, key).node;
        tri_cluster *cluster = tri_cluster_of(cloud.systems[node]);
        tri_virtual *v = tri_virtual_of(tri_ref_cell(named(node, key)));
        tri_shard *shard = &cluster->shards[v->shard];
        char text[32];
        snprintf(text, sizeof(text), "shop::counter/k%u", key);
        tri_lock_take(&shard->lock);
        assert_string_equal(v->text, text);
        assert_int_equal(tri_activation_state_of(v), TRI_ACTIVATION_VALID);
        assert_string_equal(v->kind->name, "counter");
        assert_non_null(v->activation);
        assert_int_equal(v->activation->epoch, shard->epoch);
        assert_true(shard->is_open);
        assert_null(v->pending_last);
        tri_lock_drop(&shard->lock);
    }
}

static void test_AC4_what_an_activation_holds(void **state)
{
    (void)state;
    everywhere(what_it_holds);
}

static void one_loop(void)
{
    enum { EACH = 20 };
    for (uint32_t key = 0; key < 2; key++) {
        for (uint32_t n = 0; n < EACH * NODES; n++) {
            tr_tell(cloud.systems[n % NODES], named(n % NODES, key), Slow);
        }
    }
    for (uint32_t key = 0; key < 2; key++) {
        int64_t count = 0;
        for (uint32_t node = 0; node < NODES; node++) {
            count = find(node, key).count;  // behind all of that node's
        }
        assert_int_equal(count, EACH * NODES);
    }
}

/* On threads and in simulation, through the same calls. */
static void test_AC14_AC15_X29_one_loop_per_activation(void **state)
{
    (void)state;
    everywhere(one_loop);
}

/* ---- two views ---- */

TR_MESSAGE(Total, (int64_t, value));
TR_REQUEST(Store, Total, (int64_t, value));
TR_REQUEST(Read, Total);
TR_STATE(Ledger, (int64_t, value));

static tr_err on_store(tr_ctx *ctx, Ledger *self, const Store *q)
{
    Ledger next = {.value = q->value};
    TR_OR_REFUSE(ctx, q, tr_persist(ctx, self, &next));
    return tr_reply(ctx, q, .value = self->value);
}

static tr_err on_read(tr_ctx *ctx, Ledger *self, const Read *q)
{
    return tr_reply(ctx, q, .value = self->value);
}

TR_ACTOR(ledger, Ledger, TR_ON(Store, on_store), TR_ON(Read, on_read));

static tr_err store(uint32_t node, int64_t value)
{
    Total total;
    tr_system *sys = cloud.systems[node];
    return tr_ask(sys, tr_virtual(sys, "ledger", "main"), &total, PATIENCE,
                  Store, .value = value);
}

/*
 * A node with an activation is cut off; the others are told that it is dead,
 * and another node owns the shard. The activations of both run, but only one of
 * them can save.
 */
static void test_X31_DI8_DI10_two_views_one_writer(void **state)
{
    const char *text = "shop::ledger/main";
    uint32_t shard = tri_shard_of(text, strlen(text));
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        tr_storage *memory;
        Total total;
        assert_int_equal(tr_storage_memory(&memory), TR_OK);
        mesh_open(&cloud, seed, NODES, true);
        uint32_t old = shard % NODES, other = (old + 1) % NODES;
        for (uint32_t i = 0; i < NODES; i++) {
            assert_int_equal(
                tr_host(cloud.systems[i], ledger, .storage = memory), TR_OK);
        }
        assert_int_equal(store(other, 1), TR_OK);
        cloud.quiet = true;
        tri_sim_net_partition(cloud.net, UINT64_C(1) << old, TR_SECONDS(60));
        mesh_dead(&cloud, old);
        mesh_move(&cloud, shard, other);
        for (uint32_t i = 0; i < NODES; i++) {
            if (i != old) {
                mesh_tell(&cloud, i);
            }
        }
        assert_int_equal(store(other, 2), TR_OK);
        tr_err err = store(old, 3);  // it was told nothing
        assert_int_equal(err, TR_EFENCED);
        cloud.quiet = false;
        tr_sim_advance(cloud.sim, TR_SECONDS(70));
        mesh_rejoin(&cloud, old);
        tr_sim_advance(cloud.sim, TR_SECONDS(5));
        for (uint32_t i = 0; i < NODES; i++) {
            tr_system *sys = cloud.systems[i];
            assert_int_equal(tr_ask(sys, tr_virtual(sys, "ledger", "main"),
                                    &total, PATIENCE, Read),
                             TR_OK);
            assert_int_equal(total.value, 2);  // one activation again
        }
        mesh_close(&cloud);
        tr_storage_close(memory);
    }
}

/* ---- a node is lost ---- */

static tr_err asked;  // there is one run at a time
TR_MESSAGE(Go, (tr_ref, to));

static tr_err on_go(tr_ctx *ctx, void *self, const Go *m)
{
    Where where;
    (void)self;
    asked = tr_ask(ctx, m->to, &where, TR_SECONDS(25), Find);
    return TR_OK;
}

TR_ACTOR(asker, void, TR_ON(Go, on_go));

static void ask_later(uint32_t key)
{
    tr_system *sys = cloud.systems[0];
    asked = TR_OK;
    tr_tell(sys, tr_spawn(sys, asker), Go, .to = named(0, key));
    tr_sim_advance(cloud.sim, TR_SECONDS(2));
}

static void test_X8_BU6_a_lost_node_answers_unknown(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
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
        ask_later(key);
        mesh_dead(&cloud, node);
        tr_sim_advance(cloud.sim, TR_SECONDS(1));
        assert_int_equal(asked, TR_EUNKNOWN);
        assert_false(tr_undelivered(asked));
        const tr_terminated *end = tr_expect(probe, PATIENCE, tr_terminated);
        assert_int_equal(end->reason, TR_NODE_DOWN);
        tr_probe_free(probe);
        // Mail for a shard without an owner waits for the next one.
        ask_later(key);
        assert_int_equal(asked, TR_OK);
        tr_sim_advance(cloud.sim, TR_SECONDS(30));
        mesh_rejoin(&cloud, node);
        for (uint32_t i = 0; i < TRI_SHARDS; i++) {
            mesh_move(&cloud, i, i % NODES);
        }
        (void)find(0, key);
        mesh_close(&cloud);
    }
}

/* A cut between two members loses nothing: mail waits until it is over. */
static void test_X8_BU11_a_cut_between_members_loses_nothing(void **state)
{
    enum { MANY = 50 };
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mesh_open(&cloud, seed, NODES, true);
        for (uint32_t i = 0; i < NODES; i++) {
            assert_int_equal(tr_host(cloud.systems[i], counter), TR_OK);
        }
        uint32_t key = remote_key(0);
        uint32_t node = find(0, key).node;
        tri_sim_net_partition(cloud.net, UINT64_C(1) << node, TR_SECONDS(60));
        for (int64_t n = 1; n <= MANY; n++) {
            tr_tell(cloud.systems[0], named(0, key), Add, .number = n,
                    .memo = "so long");
        }
        tr_sim_advance(cloud.sim, TR_SECONDS(70));
        assert_int_equal(find(0, key).count, MANY);
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
        cloud.quiet = true;
        mesh_dead(&cloud, 2);
        for (uint32_t shard = 2; shard < TRI_SHARDS; shard += NODES) {
            mesh_move(&cloud, shard, shard % 2);
        }
        cloud.quiet = false;
        mesh_tell_all(&cloud);
        for (uint32_t key = 0; key < KEYS; key++) {
            assert_true(find(key % 2, key).node < 2);
        }
        mesh_close(&cloud);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_BU8_BU11_VA16_DI6_DI9_one_placement_for_all_nodes),
        cmocka_unit_test(test_BU11_MS4_X53_order_from_the_first_message_on),
        cmocka_unit_test(test_BU10_BU12_MS10_errors_come_back),
        cmocka_unit_test(test_BU3_BU4_BU7_MS5_a_request_times_out),
        cmocka_unit_test(test_BU11_T14_DP9_PA4_actors_ask_and_know_each_other),
        cmocka_unit_test(test_X10_AC7_stop_and_watch_from_another_node),
        cmocka_unit_test(
            test_MS7_MS15_DI7_DI11_X30_order_through_ends_of_activations),
        cmocka_unit_test(test_VA14_VA15_X32_numbers_of_activations_grow),
        cmocka_unit_test(test_AC4_what_an_activation_holds),
        cmocka_unit_test(test_AC14_AC15_X29_one_loop_per_activation),
        cmocka_unit_test(test_X31_DI8_DI10_two_views_one_writer),
        cmocka_unit_test(test_X8_BU6_a_lost_node_answers_unknown),
        cmocka_unit_test(test_X8_BU11_a_cut_between_members_loses_nothing),
        cmocka_unit_test(test_SH_a_node_that_leaves_gives_its_actors_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

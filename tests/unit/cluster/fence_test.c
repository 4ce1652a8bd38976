/*
 * fence_test.c - at most one activation of an actor can store its state, and
 * none reads an older state than one that was acknowledged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "cluster/virtual/activation.h"
#include "support/mesh.h"
#include "unit/storage/each_store.h"

enum { NODES = 3 };

#define LONG TR_SECONDS(60)

TR_MESSAGE(Value, (int64_t, number), (uint64_t, epoch), (uint32_t, node));
TR_REQUEST(Get, Value);
TR_REQUEST(Put, Value, (int64_t, number));
TR_REQUEST(PutWithoutLease, Value, (int64_t, number));
TR_MESSAGE(PutLater, (int64_t, number));  // after LONG

TR_STATE(Account, (int64_t, number));

static mesh cloud;
static tr_storage *store;
static tr_err late_err;  // of PutLater; TR_ENOREPLY: it has not come so far

static uint32_t node_of(tr_ctx *ctx)
{
    uint32_t i = 0;
    while (i < NODES && cloud.systems[i] != tr_system_of(ctx)) {
        i++;
    }
    return i;
}

static tr_err answer(tr_ctx *ctx, const Account *self, const void *m)
{
    return (tr_reply)(ctx, m,
                      &(Value){.number = self->number,
                               .epoch = tr_epoch(ctx),
                               .node = node_of(ctx)});
}

static tr_err on_get(tr_ctx *ctx, Account *self, const Get *m)
{
    return answer(ctx, self, m);
}

static tr_err on_put(tr_ctx *ctx, Account *self, const Put *m)
{
    Account next = {.number = m->number};
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return answer(ctx, self, m);
}

static tr_err on_put_without_lease(tr_ctx *ctx, Account *self,
                                   const PutWithoutLease *m)
{
    Account next = {.number = m->number};
    cloud.each[node_of(ctx)].has_no_lease = true;
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return answer(ctx, self, m);
}

static tr_err on_put_later(tr_ctx *ctx, Account *self, const PutLater *m)
{
    Account next = {.number = m->number};
    (void)!tr_sleep(ctx, LONG);
    late_err = tr_persist(ctx, self, &next);
    return TR_OK;
}

TR_ACTOR(account, Account, TR_ON(Get, on_get), TR_ON(Put, on_put),
         TR_ON(PutWithoutLease, on_put_without_lease),
         TR_ON(PutLater, on_put_later));

/* ---- the stage ---- */

static void host_on(uint32_t nodes)
{
    for (uint32_t i = 0; i < NODES; i++) {
        if (nodes >> i & 1) {
            assert_int_equal(
                tr_host(cloud.systems[i], account, .storage = store), TR_OK);
        }
    }
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
}

static void set_up(uint32_t nodes, uint32_t broken)
{
    late_err = TR_ENOREPLY;
    TR_MUST(tr_storage_memory(&store));
    mesh_open(&cloud, 1, NODES, true);
    for (uint32_t i = 0; i < NODES; i++) {
        tri_fence_break_set(&tri_cluster_of(cloud.systems[i])->fence_break,
                            broken);
    }
    host_on(nodes);
}

static void tear_down(void)
{
    mesh_close(&cloud);
    tr_storage_close(store);
}

static uint32_t shard_of(const char *name)
{
    char text[64];
    snprintf(text, sizeof(text), "shop::account/%s", name);
    return tri_shard_of(text, strlen(text));
}

/* Writes the nth name whose shard node 0 owns. */
static const char *name_of_node_0(char out[16])
{
    uint32_t nth = 0;
    do {
        snprintf(out, 16, "k%u", nth++);
    } while (shard_of(out) % NODES != 0);
    return out;
}

static tr_ref key(uint32_t node, const char *name)
{
    return tr_virtual(cloud.systems[node], "account", name);
}

static Value get(uint32_t from, const char *name)
{
    Value value = {0};
    assert_int_equal(
        tr_ask(cloud.systems[from], key(from, name), &value, LONG, Get), TR_OK);
    return value;
}

static tr_err put(uint32_t from, const char *name, int64_t number)
{
    Value value;
    return tr_ask(cloud.systems[from], key(from, name), &value, LONG, Put,
                  .number = number);
}

/*
 * Cuts off the node, which has the actor and is about to store once more, and
 * takes it for dead. Returns what the next activation has read.
 */
static int64_t take_over(uint32_t from, const char *name, uint32_t dead,
                         uint32_t heir)
{
    tr_tell(cloud.systems[from], key(from, name), PutLater, .number = 2);
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
    tri_sim_net_partition(cloud.net, UINT64_C(1) << dead, 3 * LONG);
    mesh_dead(&cloud, dead);
    mesh_move(&cloud, shard_of(name), heir);  // if the owner is dead
    Value value = get(heir, name);
    assert_int_not_equal(value.node, dead);
    tr_sim_advance(cloud.sim, 2 * LONG);
    return value.number;
}

static void ends_well(const char *name, uint32_t heir)
{
    assert_int_equal(late_err, TR_EFENCED);
    assert_int_equal(get(heir, name).number, 1);
    assert_int_equal(put(heir, name, 3), TR_OK);
    assert_int_equal(get(heir, name).number, 3);
}

/* The activation that was replaced has stored: its heir has an older state. */
static void ends_badly(const char *name, uint32_t heir)
{
    assert_int_equal(late_err, TR_OK);
    assert_int_equal(get(heir, name).number, 1);
    assert_int_equal(put(heir, name, 3), TR_EFENCED);
}

/* ---- takeovers ---- */

static void play_owner_dead(uint32_t broken)
{
    char name[16];
    set_up(7, broken);
    name_of_node_0(name);
    assert_int_equal(put(1, name, 1), TR_OK);
    assert_int_equal(take_over(1, name, 0, 1), 1);
    (broken ? ends_badly : ends_well)(name, 1);
    tear_down();
}

static void test_X31_stale_read_after_a_takeover_of_a_dead_owner(void **state)
{
    (void)state;
    play_owner_dead(0);
}

static void test_a_load_without_the_fence_shows_the_stale_read(void **state)
{
    (void)state;
    play_owner_dead(TRI_FENCE_BREAK_LOAD);
}

static void play_host_dead(uint32_t broken)
{
    char name[16];
    set_up(6, broken);
    name_of_node_0(name);
    assert_int_equal(put(0, name, 1), TR_OK);
    uint32_t host = get(0, name).node;
    assert_true(host == 1 || host == 2);
    assert_int_equal(take_over(0, name, host, 0), 1);
    (broken ? ends_badly : ends_well)(name, 0);
    tear_down();
}

static void test_X31_stale_read_after_a_takeover_of_a_dead_host(void **state)
{
    (void)state;
    play_host_dead(0);
}

static void test_a_replaced_host_without_the_fence_shows_the_stale_read(
    void **state)
{
    (void)state;
    play_host_dead(TRI_FENCE_BREAK_LOAD);
}

/* ---- epochs ---- */

/* Raises the epoch of a shard, as its owner does when some host is dead. */
static uint64_t raise_epoch(uint32_t shard)
{
    tri_lock_take(&cloud.lock);
    cloud.revision++;
    uint64_t epoch = ++cloud.shards[shard].epoch;
    tri_lock_drop(&cloud.lock);
    return epoch;
}

static void test_X31_epochs_that_stay(void **state)
{
    char name[16];
    (void)state;
    set_up(6, 0);
    name_of_node_0(name);
    assert_int_equal(put(0, name, 1), TR_OK);
    Value before = get(0, name);
    uint64_t raised = raise_epoch(shard_of(name));
    assert_int_equal(raised, before.epoch + 1);
    // The host has the view; its owner has not confirmed the activation.
    mesh_tell(&cloud, before.node);
    tri_shard *records =
        &tri_cluster_of(cloud.systems[before.node])->shards[shard_of(name)];
    tr_sim_advance(cloud.sim, TR_MS(1));
    assert_int_equal(records->epoch, raised);
    TRI_LIST_EACH_ITEM (a, &records->activations, tri_activation, link) {
        assert_int_equal(a->epoch, before.epoch);
    }
    mesh_tell_all(&cloud);
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
    Value after = get(0, name);
    assert_int_equal(after.node, before.node);
    assert_int_equal(after.epoch, raised);
    assert_int_equal(put(0, name, 2), TR_OK);
    tear_down();
}

static void test_a_view_that_raises_the_epoch_shows_the_mistake(void **state)
{
    char name[16];
    (void)state;
    set_up(6, TRI_FENCE_BREAK_EPOCH);
    name_of_node_0(name);
    Value before = get(0, name);
    uint64_t raised = raise_epoch(shard_of(name));
    mesh_tell(&cloud, before.node);
    tr_sim_advance(cloud.sim, TR_MS(1));
    tri_shard *records =
        &tri_cluster_of(cloud.systems[before.node])->shards[shard_of(name)];
    TRI_LIST_EACH_ITEM (a, &records->activations, tri_activation, link) {
        assert_int_equal(a->epoch, raised);
    }
    mesh_tell_all(&cloud);
    tear_down();
}

/*
 * Another host has died, so the epoch was raised; before the owner knows that,
 * this host is dead, too. It may have known the raised epoch.
 */
static void test_X31_a_dead_host_is_replaced_above_all_it_has_known(
    void **state)
{
    char name[16];
    (void)state;
    set_up(6, 0);
    name_of_node_0(name);
    uint32_t host = get(0, name).node;
    uint64_t raised = raise_epoch(shard_of(name));
    cloud.quiet = true;
    mesh_dead(&cloud, host);
    cloud.quiet = false;
    mesh_tell_all(&cloud);
    Value after = get(0, name);
    assert_int_not_equal(after.node, host);
    assert_true(after.epoch > raised);
    tear_down();
}

/* ---- leases ---- */

static void test_X31_a_node_without_a_lease_hands_nothing_over(void **state)
{
    char name[16];
    Value value;
    (void)state;
    set_up(7, 0);
    name_of_node_0(name);
    assert_int_equal(put(0, name, 1), TR_OK);
    cloud.each[0].has_no_lease = true;
    assert_int_equal(
        tr_ask(cloud.systems[0], key(0, name), &value, TR_SECONDS(1), Get),
        TR_ETIMEDOUT);
    assert_int_equal(
        tr_ask(cloud.systems[1], key(1, name), &value, TR_SECONDS(1), Get),
        TR_ETIMEDOUT);
    assert_int_equal(tri_cluster_of(cloud.systems[0])->active, 0);
    cloud.each[0].has_no_lease = false;  // its renewal was only late
    assert_int_equal(get(0, name).number, 1);
    assert_int_equal(get(1, name).number, 1);
    tear_down();
}

static void test_X31_a_write_without_a_lease_is_refused(void **state)
{
    char name[16];
    Value value;
    (void)state;
    set_up(7, 0);
    name_of_node_0(name);
    assert_int_equal(put(0, name, 1), TR_OK);
    assert_int_equal(tr_ask(cloud.systems[0], key(0, name), &value, LONG,
                            PutWithoutLease, .number = 2),
                     TR_EFENCED);
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
    assert_int_equal(tri_cluster_of(cloud.systems[0])->active, 0);
    cloud.each[0].has_no_lease = false;
    assert_int_equal(get(0, name).number, 1);
    tear_down();
}

static void test_without_the_lease_check_messages_are_handled(void **state)
{
    char name[16];
    (void)state;
    set_up(7, TRI_FENCE_BREAK_LEASE);
    name_of_node_0(name);
    cloud.each[0].has_no_lease = true;
    assert_int_equal(put(0, name, 1), TR_OK);
    tear_down();
}

/* ---- the fence comes before the load, in each store ---- */

static each_store inner;

static int open_inner(void **state, each_kind kind)
{
    (void)state;
    each_new(&inner, kind);
    return 0;
}

static int close_inner(void **state)
{
    (void)state;
    return each_free(&inner);
}

EACH_OPEN(open_inner)

static uint32_t count_calls(tr_store_call call)
{
    tr_captured it;
    uint32_t count = 0;
    for (size_t i = 0; tr_storage_captured(store, i, &it); i++) {
        count += it.call == call && it.err == TR_OK;
    }
    return count;
}

static void test_X31_the_fence_is_raised_before_the_load(void **state)
{
    char name[16], other[16];
    tr_captured first;
    (void)state;
    TR_MUST(tr_storage_capture(&store, inner.store));
    mesh_open(&cloud, 0, 2, false);
    for (uint32_t i = 0; i < 2; i++) {
        TR_MUST(tr_host(cloud.systems[i], account, .storage = store));
    }
    assert_int_equal(put(0, "a", 1), TR_OK);
    assert_true(tr_storage_captured(store, 0, &first));
    assert_int_equal(first.call, TR_STORE_FENCE);
    assert_int_equal(count_calls(TR_STORE_FENCE), 1);
    // Once for a shard and an epoch: not for each load.
    uint32_t found = 0;
    snprintf(name, sizeof(name), "a");
    for (uint32_t i = 0; found < 2; i++) {
        snprintf(other, sizeof(other), "x%u", i);
        if (shard_of(other) == shard_of(name)) {
            assert_int_equal(put(1, other, 1), TR_OK);
            found++;
        }
    }
    assert_int_equal(count_calls(TR_STORE_LOAD), 3);
    assert_int_equal(count_calls(TR_STORE_FENCE), 1);
    mesh_close(&cloud);
    tr_storage_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_X31_stale_read_after_a_takeover_of_a_dead_owner),
        cmocka_unit_test(test_a_load_without_the_fence_shows_the_stale_read),
        cmocka_unit_test(test_X31_stale_read_after_a_takeover_of_a_dead_host),
        cmocka_unit_test(
            test_a_replaced_host_without_the_fence_shows_the_stale_read),
        cmocka_unit_test(test_X31_epochs_that_stay),
        cmocka_unit_test(test_a_view_that_raises_the_epoch_shows_the_mistake),
        cmocka_unit_test(
            test_X31_a_dead_host_is_replaced_above_all_it_has_known),
        cmocka_unit_test(test_X31_a_node_without_a_lease_hands_nothing_over),
        cmocka_unit_test(test_X31_a_write_without_a_lease_is_refused),
        cmocka_unit_test(test_without_the_lease_check_messages_are_handled),
        IN_EACH(test_X31_the_fence_is_raised_before_the_load, open_inner,
                close_inner),
    };
    return cmocka_run_group_tests(tests, each_start, each_end);
}

/*
 * cluster_join_test.c - systems become nodes of a cluster by tr_cluster_join:
 * what they share, what is refused, and how they leave and come back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <troupe/troupe.h>

#define LEASE TR_SECONDS(3)

static void assert_says(const char *part)
{
    const char *text = tr_error_text((tr_system *)NULL);
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", text, part);
    }
}

/* ---- a shared counter ---- */

TR_STATE(Counter, (int64_t, count));
TR_MESSAGE(Count, (int64_t, count));
TR_REQUEST(Add, Count);

static _Atomic(int) started;

static tr_err counter_start(tr_ctx *ctx, Counter *self)
{
    (void)ctx, (void)self;
    // Relaxed: read after the answers.
    atomic_fetch_add_explicit(&started, 1, memory_order_relaxed);
    return TR_OK;
}

static tr_err on_add(tr_ctx *ctx, Counter *self, const Add *m)
{
    Counter next = {.count = self->count + 1};
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return tr_reply(ctx, m, .count = self->count);
}

TR_ACTOR(counter, Counter, TR_HOOK(pre_start, counter_start),
         TR_ON(Add, on_add));

static tr_err on_join(tr_ctx *ctx, Counter *self, const Add *m)
{
    (void)self;
    tr_err err = tr_cluster_join(tr_system_of(ctx));
    return tr_reply(ctx, m, .count = err);
}

TR_ACTOR(joiner, Counter, TR_ON(Add, on_join));

static tr_err add(tr_system *sys, const char *key, int64_t *count)
{
    Count c = {0};
    tr_err err = tr_ask_virtual(sys, "counter", key, &c, TR_SECONDS(60), Add);
    *count = c.count;
    return err;
}

/* ---- the stage ---- */

typedef struct stage {
    tr_engine *engine;
    tr_storage *store;
} stage;

static int set_up(void **state)
{
    stage *s = calloc(1, sizeof(*s));
    assert_int_equal(tr_engine_memory(&s->engine, "join", NULL), TR_OK);
    assert_int_equal(tr_storage_memory(&s->store), TR_OK);
    atomic_store_explicit(&started, 0, memory_order_relaxed);
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    stage *s = *state;
    tr_engine_close(s->engine);
    tr_storage_close(s->store);
    free(s);
    return 0;
}

static tr_system *open_system(stage *s)
{
    tr_system *sys;
    assert_int_equal(tr_system_open(&sys, .workers = 1, .ns = "shop"), TR_OK);
    assert_int_equal(tr_host(sys, counter, .storage = s->store), TR_OK);
    return sys;
}

static tr_system *open_node(stage *s, const char *listen)
{
    tr_system *sys = open_system(s);
    tr_err err = tr_cluster_join(sys, .engine = s->engine, .lease = LEASE,
                                 .listen = listen, .timeout = TR_SECONDS(60));
    if (err != TR_OK) {
        fail_msg("%s", tr_error_text((tr_system *)NULL));
    }
    return sys;
}

static void close_node(tr_system *sys)
{
    assert_int_equal(tr_system_close(sys, TR_SECONDS(60)), TR_OK);
}

/* Waits until the system sees that many members; asks in between. */
static void await_members(tr_system *sys, size_t wanted, tr_member *out)
{
    int64_t ignored;
    while (tr_cluster_members(sys, out, 4) != wanted) {
        assert_int_equal(add(sys, "between", &ignored), TR_OK);
    }
}

/* ---- tests ---- */

static void test_two_systems_of_a_process_share_one_activation(void **state)
{
    stage *s = *state;
    tr_system *a = open_node(s, NULL), *b = open_node(s, NULL);
    int64_t count;

    for (int64_t i = 0; i < 20; i++) {
        assert_int_equal(add(i % 2 == 0 ? a : b, "x", &count), TR_OK);
        assert_int_equal(count, i + 1);
    }
    // More than one if its shard moved to the second node meanwhile.
    int times = atomic_load_explicit(&started, memory_order_relaxed);
    assert_in_range(times, 1, 2);
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(a, &m);
    assert_true(m.bus_turns > 0 && m.bus_turn_max > 0);
    close_node(a);
    assert_int_equal(add(b, "x", &count), TR_OK);  // it was handed over
    assert_int_equal(count, 21);
    close_node(b);
}

static void test_members_are_listed(void **state)
{
    stage *s = *state;
    tr_system *a = open_node(s, NULL), *b = open_node(s, NULL);
    tr_member members[4];

    await_members(a, 2, members);
    assert_true(members[0].node.slot < members[1].node.slot);
    assert_true(members[0].is_self != members[1].is_self);
    tr_node self = tr_cluster_self(a);
    const tr_member *own = &members[members[0].is_self ? 0 : 1];
    assert_int_equal(own->node.slot, self.slot);
    assert_int_equal(own->node.incarnation, self.incarnation);
    assert_non_null(strchr(own->address, ':'));
    close_node(b);
    await_members(a, 1, members);
    assert_true(members[0].is_self);
    close_node(a);
}

static void test_a_system_that_has_not_joined_has_no_members(void **state)
{
    tr_system *sys = open_system(*state);
    assert_int_equal(tr_cluster_members(sys, NULL, 0), 0);
    assert_int_equal(tr_cluster_self(sys).incarnation, 0);
    close_node(sys);
}

static void test_a_node_comes_back_at_its_address(void **state)
{
    stage *s = *state;
    tr_system *a = open_node(s, NULL);
    tr_member members[4];
    char address[sizeof(members[0].address)];
    int64_t count;

    await_members(a, 1, members);
    memcpy(address, members[0].address, sizeof(address));
    tr_node before = tr_cluster_self(a);
    assert_int_equal(add(a, "x", &count), TR_OK);
    close_node(a);
    a = open_node(s, address);
    assert_true(tr_cluster_self(a).incarnation > before.incarnation);
    await_members(a, 1, members);
    assert_string_equal(members[0].address, address);
    assert_int_equal(add(a, "x", &count), TR_OK);
    assert_int_equal(count, 2);
    close_node(a);
}

/* The default engine is in a folder that a reboot empties. */
static void test_a_store_outlives_the_engine(void **state)
{
    stage *s = *state;
    int64_t count = 0;
    // Each life of the node gets the shards in a later epoch.
    for (int i = 0; i < 3; i++) {
        tr_system *sys = open_node(s, NULL);
        assert_int_equal(add(sys, "kept", &count), TR_OK);
        close_node(sys);
    }
    tr_engine_close(s->engine);
    assert_int_equal(tr_engine_memory(&s->engine, "join", NULL), TR_OK);
    tr_system *sys = open_node(s, NULL);
    assert_int_equal(add(sys, "kept", &count), TR_OK);
    assert_int_equal(count, 4);
    close_node(sys);
}

/* Actors whose owner did not host their kind are on the other node. */
static void test_a_kind_that_is_hosted_later_moves_nobody(void **state)
{
    stage *s = *state;
    enum { KEYS = 20 };
    tr_member members[4];
    char key[16];
    int64_t count = 0;
    tr_system *a, *b = open_node(s, NULL);
    assert_int_equal(tr_system_open(&a, .workers = 1, .ns = "shop"), TR_OK);
    assert_int_equal(tr_cluster_join(a, .engine = s->engine, .lease = LEASE,
                                     .timeout = TR_SECONDS(60)),
                     TR_OK);
    do {  // until no shard moves any more
        await_members(a, 2, members);
    } while (members[0].shards != members[1].shards);
    // Relaxed: await_members may have asked another one.
    atomic_store_explicit(&started, 0, memory_order_relaxed);
    for (int64_t i = 1; i <= 3; i++) {
        for (int k = 0; k < KEYS; k++) {
            snprintf(key, sizeof(key), "key%d", k);
            assert_int_equal(add(a, key, &count), TR_OK);
            assert_int_equal(count, i);
        }
        if (i == 1) {
            assert_int_equal(tr_host(a, counter, .storage = s->store), TR_OK);
        }
    }
    assert_int_equal(atomic_load_explicit(&started, memory_order_relaxed),
                     KEYS);
    close_node(a);
    close_node(b);
}

static void test_a_client_owns_nothing_and_calls_the_others(void **state)
{
    stage *s = *state;
    tr_system *a = open_node(s, NULL), *client = open_system(s);
    tr_member members[4];
    int64_t count;

    assert_int_equal(tr_cluster_join(client, .engine = s->engine,
                                     .lease = LEASE, .client = true),
                     TR_OK);
    assert_int_equal(add(client, "x", &count), TR_OK);
    assert_int_equal(count, 1);
    await_members(client, 2, members);
    const tr_member *own = &members[members[0].is_self ? 0 : 1];
    assert_true(own->is_client);
    assert_int_equal(own->shards, 0);
    close_node(client);
    close_node(a);
}

static void test_joins_that_make_no_sense_are_refused(void **state)
{
    stage *s = *state;
    tr_system *sys = open_system(s);

    assert_int_equal(
        tr_cluster_join(sys, .engine = s->engine, .listen = "192.0.2.1:7000"),
        TR_EINVAL);
    assert_says("loopback");
    assert_int_equal(
        tr_cluster_join(sys, .engine = s->engine, .listen = "nowhere"),
        TR_EINVAL);
    assert_says("host:port");
    assert_int_equal(tr_cluster_join(sys, .engine = s->engine, .lease = 1),
                     TR_EINVAL);
    assert_says("lease");
    assert_int_equal(tr_cluster_join(sys, .engine = s->engine, .timeout = -1),
                     TR_EINVAL);
    assert_says("timeout");
    assert_int_equal(setenv("TROUPE_ENGINE", "paper:notes", 1), 0);
    assert_int_equal(tr_cluster_join(sys), TR_EINVAL);
    assert_says("TROUPE_ENGINE");
    assert_int_equal(unsetenv("TROUPE_ENGINE"), 0);
    assert_int_equal(tr_cluster_join(sys, .engine = s->engine), TR_OK);
    assert_int_equal(tr_cluster_join(sys, .engine = s->engine), TR_EEXIST);
    assert_says("already");
    close_node(sys);
}

static void test_a_handler_cannot_join(void **state)
{
    tr_system *sys = open_system(*state);
    Count c = {0};
    tr_ref ref = tr_spawn(sys, joiner);
    assert_int_equal(tr_ask(sys, ref, &c, 0, Add), TR_OK);
    assert_int_equal(c.count, TR_EWOULDBLOCK);
    close_node(sys);
}

static void test_a_port_in_use_is_named(void **state)
{
    stage *s = *state;
    tr_system *a = open_node(s, NULL), *b = open_system(s);
    tr_member members[4];

    await_members(a, 1, members);
    assert_int_equal(
        tr_cluster_join(b, .engine = s->engine, .listen = members[0].address),
        TR_EEXIST);
    assert_says("in use");
    close_node(b);
    close_node(a);
}

/* Writes bytes to the node, and waits until it has closed the connection. */
static void write_and_await_close(tr_system *sys, const char *address,
                                  const void *bytes, size_t size)
{
    char to[sizeof(((tr_member *)0)->address) + 8], got[64];
    tr_stream *stream;
    size_t count;

    (void)snprintf(to, sizeof(to), "tcp://%s", address);
    assert_int_equal(tr_connect(sys, &stream, to, TR_SECONDS(60)), TR_OK);
    tr_err err = tr_write(sys, stream, TR_SECONDS(60), {bytes, size});
    assert_true(err == TR_OK || err == TR_ERESET);
    err = tr_read(sys, stream, got, sizeof(got), TR_SECONDS(60), &count);
    assert_true(err == TR_ERESET || (err == TR_OK && count == 0));
    tr_stream_close(sys, stream);
}

static void test_strangers_on_the_port_are_refused(void **state)
{
    // A length of 24, then a greeting with the right head and nothing else.
    static const unsigned char half[] = {24, 0, 0, 0, 'T', 'R', 'P', 'E', 4, 0,
                                         0,  0, 0, 1, 0,   0,   0,   0,   0, 0,
                                         0,  0, 0, 0, 0,   0,   0,   0};
    static const unsigned char huge[] = {255, 255, 255, 255, 0};
    stage *s = *state;
    tr_system *node = open_node(s, NULL), *stranger;
    tr_member members[4];
    int64_t count;

    assert_int_equal(tr_system_open(&stranger, .workers = 1), TR_OK);
    await_members(node, 1, members);
    const char *address = members[0].address;
    for (int i = 0; i < 50; i++) {
        write_and_await_close(stranger, address, "GET / HTTP/1.1\r\n\r\n", 18);
        write_and_await_close(stranger, address, half, sizeof(half));
        write_and_await_close(stranger, address, huge, sizeof(huge));
    }
    assert_int_equal(add(node, "x", &count), TR_OK);
    close_node(stranger);
    close_node(node);
}

/* ---- in a simulation ---- */

enum { NODES = 6 };

typedef struct dead_entries {
    bool last_may_join;
    tr_nanos asked, joined;  // when the last node began to join, and was up
    uint32_t quick;          // runs in which that took less than two seconds
} dead_entries;

static tr_sim *the_sim;

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    dead_entries *it = user;
    bool is_last = index == NODES - 1;
    if (is_last && !it->last_may_join) {
        return TR_OK;
    }
    it->asked = is_last ? tr_sim_now(the_sim) : it->asked;
    TR_TRY(tr_cluster_join(sys, .lease = TR_SECONDS(6)));
    it->joined = is_last ? tr_sim_now(the_sim) : it->joined;
    return TR_OK;
}

static void begin(tr_sim *sim, void *user)
{
    dead_entries *it = user;
    *it = (dead_entries){.quick = it->quick};
    the_sim = sim;
}

static tr_err workload(tr_sim *sim, void *user)
{
    dead_entries *it = user;
    tr_sim_advance(sim, TR_SECONDS(10));
    for (uint32_t i = 0; i < NODES - 1; i++) {
        tr_sim_kill(sim, i, TR_SECONDS(3000));
    }
    it->last_may_join = true;
    tr_sim_kill(sim, NODES - 1, TR_MS(10));
    tr_sim_advance(sim, TR_SECONDS(30));
    it->quick += it->joined - it->asked < TR_SECONDS(2);
    return it->joined != 0 ? TR_OK : tr_sim_fail(sim, "it has not joined");
}

/*
 * The seed may put the engine out of reach for some seconds. If dead entries
 * held up a join, they would do so with every seed, for ten seconds.
 */
static void test_five_dead_entries_hold_up_nobody(void **state)
{
    enum { SEEDS = 5 };
    dead_entries it = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        tr_err err = tr_sim_run(TR_OPTIONS(
            tr_sim_options, .seed = seed, .nodes = NODES, .node = node,
            .begin = begin, .workload = workload, .user = &it));
        assert_int_equal(err, TR_OK);
    }
    assert_true(it.quick > SEEDS / 2);
}

int main(void)
{
#define STAGED(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STAGED(test_two_systems_of_a_process_share_one_activation),
        STAGED(test_members_are_listed),
        STAGED(test_a_system_that_has_not_joined_has_no_members),
        STAGED(test_a_node_comes_back_at_its_address),
        STAGED(test_a_store_outlives_the_engine),
        STAGED(test_a_kind_that_is_hosted_later_moves_nobody),
        STAGED(test_a_client_owns_nothing_and_calls_the_others),
        STAGED(test_joins_that_make_no_sense_are_refused),
        STAGED(test_a_handler_cannot_join),
        STAGED(test_a_port_in_use_is_named),
        STAGED(test_strangers_on_the_port_are_refused),
        cmocka_unit_test(test_five_dead_entries_hold_up_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

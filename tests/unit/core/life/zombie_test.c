/*
 * zombie_test.c - an actor that was ended by force while its handler runs:
 * what becomes of mail that is queued, and of calls that come later.
 *
 * The handler waits at a gate on a thread of its own, so that the test can
 * fill its mailbox and force it as the monitor does. What parents, watchers
 * and joiners see of a forced end is tested in force_test.c.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "support/core.h"

/* ---- mail on its way ---- */

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool in, open;
} gate;

static void gate_init(gate *g)
{
    *g = (gate){.in = false};
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
}

/* Called by the handler: waits until the gate is open. */
static void gate_stop_at(gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->in = true;
    pthread_cond_broadcast(&g->changed);
    while (!g->open) {
        pthread_cond_wait(&g->changed, &g->lock);
    }
    pthread_mutex_unlock(&g->lock);
}

/* Called by the test: waits until the handler is at the gate. */
static void gate_await(gate *g)
{
    pthread_mutex_lock(&g->lock);
    while (!g->in) {
        pthread_cond_wait(&g->changed, &g->lock);
    }
    pthread_mutex_unlock(&g->lock);
}

static void gate_open(gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->open = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void open_stage(stage *it)
{
    tr_system_options options = {.size = sizeof(options), .workers = 4};
    stage_open_real(it, &options);
}

static uint64_t zombies(stage *it)
{
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(it->sys, &m);
    return m.zombies;
}

static void until_zombies(stage *it, uint64_t count)
{
    while (zombies(it) != count) {
        tri_lock_yield();
    }
}

static bool force(stage *it, tr_ref ref, tr_nanos waited)
{
    return tri_force_stuck(it->sys, tri_ref_cell(ref), ref.id, waited, false);
}

/* Counts system items; the owner is at the gate and takes none of them. */
static uint32_t system_items(tr_ref ref)
{
    uint32_t count = 0;
    uintptr_t seen = atomic_load(&tri_ref_cell(ref)->sys_mail);
    for (const tri_item *item = (const tri_item *)(seen & ~TRI_SYS_BITS);
         item != NULL; item = item->next) {
        count++;
    }
    return count;
}

static void until_items(tr_ref ref, uint32_t count)
{
    while (system_items(ref) < count) {
        tri_lock_yield();
    }
}

static uint32_t queued_mail(tr_ref ref)
{
    return tri_depth(tri_ref_cell(ref));
}

typedef struct outcome {
    tr_ref ref;
    tr_err joined, started;
    tr_result result;
    _Atomic(bool) done;
} outcome;

static tr_err act_join(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    outcome *o = arg;
    (void)self;
    (void)m;
    o->joined = tr_join(ctx, o->ref, TR_SECONDS(60), &o->result, NULL);
    atomic_store(&o->done, true);
    return TR_OK;
}

static tr_err act_started(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    outcome *o = arg;
    (void)self;
    (void)m;
    o->started = tr_started(ctx, o->ref, TR_SECONDS(60));
    atomic_store(&o->done, true);
    return TR_OK;
}

static void until_done(outcome *o)
{
    while (!atomic_load(&o->done)) {
        tri_lock_yield();
    }
}

static tr_err act_watch_not(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    const tr_ref *ref = arg;
    (void)self;
    tr_watch(ctx, *ref);
    tr_unwatch(ctx, *ref);
    return tr_reply(ctx, m, .value = 1);
}

/* Asks, lets the answer come as mail, then waits at the gate. */
static tr_err act_pipe_and_gate(tr_ctx *ctx, puppet *self, const Act *m,
                                void *arg)
{
    (void)m;
    tr_ask_pipe(ctx, self->stage->two, TR_SECONDS(60), Act,
                .fn = (uint64_t)(uintptr_t)act_nothing);
    gate_stop_at(arg);
    return TR_OK;
}

/* Expects the notice of the watch and the TERMINATED event, in any order. */
static void expect_forced_end(stage *it, tr_ref ref)
{
    bool notified = false, published = false;
    while (!notified || !published) {
        const void *m = tr_expect_any(it->probe, TR_SECONDS(60));
        if (tr_msg_type(m)->schema == tr_lifecycle_tr_type.schema) {
            const tr_lifecycle *e = tr_msg_payload(m);
            published |=
                tr_ref_eq(e->actor, ref) && e->state == TR_STATE_TERMINATED;
        } else {
            const tr_terminated *t = tr_msg_payload(m);
            assert_true(tr_ref_eq(t->actor, ref));
            assert_int_equal(t->reason, TR_FORCED);
            notified = true;
        }
    }
}

static void test_X15_DW10_what_waits_for_a_stuck_actor_is_answered(void **state)
{
    static stage it;
    static gate g;
    outcome join = {0}, start = {0};
    (void)state;
    open_stage(&it);
    gate_init(&g);
    tr_ref v = stage_spawn(&it, .name = "v");
    tr_ref friend = stage_spawn(&it, .name = "friend", .joinable = true);
    tr_ref other = stage_spawn(&it, .name = "other");
    join.ref = start.ref = v;
    // A turn of v is parked in a join of `friend`, which ends later.
    outcome inner = {.ref = friend};
    tr_tell(it.sys, v, ActBeside, .fn = (uint64_t)(uintptr_t)act_join,
            .arg = (uint64_t)(uintptr_t)&inner);
    tr_tell(it.sys, v, ActBeside, .fn = (uint64_t)(uintptr_t)act_pipe_and_gate,
            .arg = (uint64_t)(uintptr_t)&g);
    gate_await(&g);
    tr_stop(it.sys, friend);
    until_items(v, 1);
    // A watch and its unwatch, a watch, a join, and a wait for the start.
    expect_ok(stage_ask(&it, it.one, act_watch_not, &v));
    tr_probe_watch(it.probe, v);
    until_items(v, 4);
    stage_tell(&it, it.three, act_join, &join);
    until_items(v, 5);
    stage_tell(&it, other, act_started, &start);
    until_items(v, 6);
    // Two messages, a poison, and the answer of `two`.
    tr_tell(it.sys, v, Note, .value = 1);
    tr_poison(it.sys, v);
    tr_tell(it.sys, v, Note, .value = 2);
    while (queued_mail(v) < 4) {
        tri_lock_yield();
    }
    tr_probe_subscribe(it.probe, tr_lifecycle);

    assert_false(force(&it, v, TR_MS(1)));  // its stop timeout is longer
    assert_int_equal(zombies(&it), 0);
    assert_true(force(&it, v, TR_FOREVER));
    assert_false(force(&it, v, TR_FOREVER));
    assert_int_equal(zombies(&it), 1);
    until_done(&join);
    until_done(&start);
    expect_ok(join.joined);
    assert_int_equal(join.result.reason, TR_FORCED);
    expect_err(start.started, TR_ESTOPPED);
    expect_forced_end(&it, v);
    while (stage_dead(&it, TR_DEAD_DRAINED) < 2) {
        tri_lock_yield();
    }
    assert_false(atomic_load(&inner.done));  // its parked turn still waits
    gate_open(&g);
    until_done(&inner);
    until_zombies(&it, 0);
    assert_int_equal(atomic_load(&it.note_count), 0);  // `one` has unwatched it
    stage_close(&it);
}

/* ---- callers that come later ---- */

static tr_err act_gate(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)ctx;
    (void)self;
    (void)m;
    gate_stop_at(arg);
    return TR_OK;
}

static void test_X15_later_callers_find_no_actor(void **state)
{
    static stage it;
    static gate g;
    outcome join = {0}, start = {0};
    (void)state;
    open_stage(&it);
    gate_init(&g);
    tr_ref v =
        stage_spawn(&it, .name = "v", .joinable = true, .mailbox_limit = 100);
    stage_tell(&it, v, act_gate, &g);
    gate_await(&g);
    assert_true(force(&it, v, TR_FOREVER));
    join.ref = start.ref = v;
    // The result is kept for one join; there is no final state.
    stage_tell(&it, it.three, act_join, &join);
    until_done(&join);
    expect_ok(join.joined);
    assert_int_equal(join.result.reason, TR_FORCED);
    expect_err(tr_join(it.sys, v, TR_SECONDS(60), NULL, NULL), TR_ENOENT);
    stage_tell(&it, it.three, act_started, &start);
    until_done(&start);
    expect_err(start.started, TR_ENOENT);
    expect_err(tr_try_tell(it.sys, v, Note, .value = 1), TR_EGONE);
    assert_int_equal(tr_state_of(it.sys, v), TR_STATE_TERMINATED);
    tr_stop(it.sys, v);
    tr_kill(it.sys, v);
    gate_open(&g);
    until_zombies(&it, 0);
    stage_close(&it);
}

/*
 * A sender may read the state of the actor before the force and push after
 * it. Then the sender itself clears the lane (tri_zombie_answer).
 */
static void test_X15_DW10_a_watch_that_overlaps_with_the_force(void **state)
{
    static stage it;
    static gate g;
    (void)state;
    open_stage(&it);
    gate_init(&g);
    tr_ref v = stage_spawn(&it, .name = "v");
    tri_cell *cell = tri_ref_cell(v);
    stage_tell(&it, v, act_gate, &g);
    gate_await(&g);
    tri_caller who = tri_enter((tr_from){.sys = it.sys});
    assert_false(tri_zombie_answer(who.worker, cell, v.id));
    tri_leave(&who);
    // As in tr_watch, with the force between its check and its push.
    tr_ref one = it.one;
    tri_watch *watch = calloc(1, sizeof(*watch));
    *watch = (tri_watch){.item = {.kind = TRI_ITEM_WATCH},
                         .watcher = one,
                         .target = v,
                         .key = v.id};
    assert_true(force(&it, v, TR_FOREVER));
    who = tri_enter((tr_from){.sys = it.sys});
    assert_true(tri_push_system(who.worker, cell, &watch->item));
    assert_int_equal(system_items(v), 1);
    // With the id of another actor nothing is cleared.
    assert_true(tri_zombie_answer(who.worker, cell, v.id + 1));
    assert_int_equal(system_items(v), 1);
    assert_true(tri_zombie_answer(who.worker, cell, v.id));
    tri_leave(&who);
    // `one` has no such watch and drops it.
    assert_int_equal(system_items(v), 0);
    gate_open(&g);
    until_zombies(&it, 0);
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    stage_close(&it);
}

/* ---- many zombies ---- */

static void test_X15_K7_zombies_end_in_any_order(void **state)
{
    enum { COUNT = 4 };
    static const int order[COUNT] = {1, 3, 0, 2};
    static stage it;
    static gate gates[COUNT];
    tr_ref all[COUNT];
    (void)state;
    open_stage(&it);
    for (int i = 0; i < COUNT; i++) {
        gate_init(&gates[i]);
        all[i] = stage_spawn(&it, .dispatcher = "pinned");
        stage_tell(&it, all[i], act_gate, &gates[i]);
        gate_await(&gates[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_true(force(&it, all[i], TR_FOREVER));
        assert_int_equal(zombies(&it), i + 1);
    }
    for (int i = 0; i < COUNT; i++) {
        gate_open(&gates[order[i]]);
        until_zombies(&it, COUNT - 1 - (uint64_t)i);
    }
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    stage_close(&it);
}

/* More stuck children than a parent forces in one step. */
typedef struct brood {
    tr_ref *refs;
    gate *gates;
    int count;
} brood;

static tr_err act_brood(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    brood *b = arg;
    for (int i = 0; i < b->count; i++) {
        b->refs[i] = tr_spawn(ctx, puppets, .dispatcher = "pinned",
                              .stop_timeout = TR_SECONDS(1000),
                              TR_INIT(puppets, .stage = self->stage));
        TR_ASSERT(ctx, tr_ref_err(b->refs[i]) == TR_OK);
    }
    return tr_reply(ctx, m, .value = 1);
}

static void test_X15_K7_a_parent_of_many_stuck_children_ends(void **state)
{
    enum { COUNT = TRI_FORCE_BATCH + 2 };
    static stage it;
    static gate gates[COUNT];
    static tr_ref refs[COUNT];
    brood b = {.refs = refs, .gates = gates, .count = COUNT};
    (void)state;
    open_stage(&it);
    tr_ref parent =
        stage_spawn(&it, .name = "parent", .stop_timeout = TR_MS(20));
    expect_ok(stage_ask(&it, parent, act_brood, &b));
    for (int i = 0; i < COUNT; i++) {
        gate_init(&gates[i]);
        stage_tell(&it, refs[i], act_gate, &gates[i]);
        gate_await(&gates[i]);
    }
    tr_probe_watch(it.probe, parent);
    tr_stop(it.sys, parent);
    const tr_terminated *t = tr_expect(it.probe, TR_SECONDS(60), tr_terminated);
    assert_true(tr_ref_eq(t->actor, parent));
    assert_int_equal(t->reason, TR_STOPPED);
    assert_int_equal(zombies(&it), COUNT);
    for (int i = 0; i < COUNT; i++) {
        gate_open(&gates[i]);
    }
    until_zombies(&it, 0);
    stage_close(&it);
}

/* ---- actors that cannot be forced ---- */

static void test_X15_GD14_guardians_and_stale_refs_are_not_forced(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref user = tr_lookup(it.sys, "/user");
    assert_false(force(&it, user, TR_FOREVER));
    tr_ref root = tri_cell_ref(it.sys, it.sys->root);
    assert_false(force(&it, root, TR_FOREVER));
    tr_ref older = it.one;
    older.id--;
    assert_false(force(&it, older, TR_FOREVER));
    assert_int_equal(zombies(&it), 0);
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    stage_close(&it);
}

static uint32_t dead_notes(stage *it)
{
    enum { MANY = 16 };
    tr_dead_info all[MANY];
    size_t have = tr_dead_letters(it->sys, all, MANY);
    uint32_t count = 0;
    for (size_t i = 0; i < have && i < MANY; i++) {
        count += strcmp(all[i].type, "Note") == 0;
    }
    return count;
}

/* A force that finds no memory changes nothing and can be repeated. */
static void test_X15_rule_27_forcing_without_memory_can_be_repeated(
    void **state)
{
    stage it;
    (void)state;
    if (!TRI_FAULTS) {  // allocations cannot be made to fail
        skip();
    }
    for (int64_t n = 0; n < 4; n++) {
        stage_open(&it);
        tr_ref v = stage_spawn(&it, .name = "v", .joinable = true);
        stage_tell(&it, v, act_sleep, (void *)TR_SECONDS(100));
        stage_run_ready(&it);
        tr_tell(it.sys, v, Note, .value = 1);
        tri_mem_fail_after(&it.sys->mem, n);
        bool forced = force(&it, v, TR_FOREVER);
        tri_mem_fail_after(&it.sys->mem, -1);
        assert_true(forced || force(&it, v, TR_FOREVER));
        stage_pass(&it, TR_SECONDS(1));
        assert_int_equal(zombies(&it), 0);
        // Published or not, the ring has it.
        assert_int_equal(dead_notes(&it), 1);
        stage_close(&it);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_X15_DW10_what_waits_for_a_stuck_actor_is_answered),
        cmocka_unit_test(test_X15_later_callers_find_no_actor),
        cmocka_unit_test(test_X15_DW10_a_watch_that_overlaps_with_the_force),
        cmocka_unit_test(test_X15_K7_zombies_end_in_any_order),
        cmocka_unit_test(test_X15_K7_a_parent_of_many_stuck_children_ends),
        cmocka_unit_test(test_X15_GD14_guardians_and_stale_refs_are_not_forced),
        cmocka_unit_test(
            test_X15_rule_27_forcing_without_memory_can_be_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

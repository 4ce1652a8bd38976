/*
 * 11_watches_survive_a_restart.c - a watcher that restarts is still told of
 * what it watches; only the watches of children that the restart stops end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

enum { SEEDS = 20 };

TR_MESSAGE(Watch, (tr_ref, ref), (bool, in_order));
TR_MESSAGE(Break);
TR_MESSAGE(Told, (tr_ref, ref), (uint32_t, incarnation));
TR_MESSAGE(Born, (tr_ref, ref));
TR_REQUEST(Bear, Born);

static tr_err on_nothing(tr_ctx *ctx, void *self, const Break *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}

TR_ACTOR(target, void, TR_ON(Break, on_nothing));

typedef struct Watcher {
    tr_ref probe;
} Watcher;

static tr_err on_watch(tr_ctx *ctx, Watcher *self, const Watch *m)
{
    (void)self;
    if (m->in_order) {
        tr_watch_in_order(ctx, m->ref);
    } else {
        tr_watch(ctx, m->ref);
    }
    return TR_OK;
}

static tr_err on_break(tr_ctx *ctx, Watcher *self, const Break *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EUSER, "asked to fail");
}

static tr_err on_bear(tr_ctx *ctx, Watcher *self, const Bear *m)
{
    (void)self;
    return tr_reply(ctx, m, tr_spawn(ctx, target, .watch = true));
}

static tr_err on_terminated(tr_ctx *ctx, Watcher *self, const tr_terminated *m)
{
    tr_tell(ctx, self->probe, Told, .ref = m->actor,
            .incarnation = tr_incarnation(ctx));
    return TR_OK;
}

TR_ACTOR(watcher, Watcher, TR_ON(Watch, on_watch), TR_ON(Break, on_break),
         TR_ON(Bear, on_bear), TR_ON(tr_terminated, on_terminated));

typedef struct world {
    tr_sim *sim;
    tr_system *sys;
    tr_probe *probe;
} world;

static void open_world(world *w, uint64_t seed)
{
    assert_int_equal(tr_sim_new(&w->sim, seed), TR_OK);
    assert_int_equal(tr_system_open(&w->sys, .world = tr_sim_world(w->sim),
                                    .log_level = TR_LOG_ERROR),
                     TR_OK);
    assert_int_equal(tr_probe_new(&w->probe, w->sys), TR_OK);
}

static void close_world(world *w)
{
    tr_expect_nothing(w->probe, TR_SECONDS(1));
    tr_probe_free(w->probe);
    assert_int_equal(tr_system_close(w->sys, 0), TR_OK);
    tr_sim_free(w->sim);
}

static tr_ref spawn_watcher(world *w, bool clears, bool keeps)
{
    return tr_spawn(w->sys, watcher,
                    TR_INIT(watcher, .probe = tr_probe_ref(w->probe)),
                    .supervision = TR_SUPERVISE(.clear_mailbox = clears,
                                                .keep_children = keeps));
}

static void expect_told(world *w, tr_ref ref, uint32_t incarnation)
{
    const Told *told = tr_expect(w->probe, TR_SECONDS(5), Told);
    assert_true(tr_ref_eq(told->ref, ref));
    assert_int_equal(told->incarnation, incarnation);
}

/* The target ends after the restart, or before it so that a notice waits. */
static void kept(uint64_t seed, bool in_order, bool clears, bool early)
{
    world w;
    open_world(&w, seed);
    tr_ref t = tr_spawn(w.sys, target);
    tr_ref a = spawn_watcher(&w, clears, false);
    tr_tell(w.sys, a, Watch, .ref = t, .in_order = in_order);
    tr_sim_advance(w.sim, TR_MS(1));
    tr_tell(w.sys, a, Break);
    if (!early) {
        tr_sim_advance(w.sim, TR_SECONDS(1));
    }
    tr_stop(w.sys, t);
    if (early) {  // told before or after the restart, but once
        const Told *told = tr_expect(w.probe, TR_SECONDS(5), Told);
        assert_true(tr_ref_eq(told->ref, t));
    } else {
        expect_told(&w, t, 2);
    }
    close_world(&w);
}

static void test_first_week_11_a_watch_survives_a_restart(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (int way = 0; way < 8; way++) {
            kept(seed, way & 1, way & 2, way & 4);
        }
    }
}

static void family(uint64_t seed, bool keeps)
{
    world w;
    open_world(&w, seed);
    tr_ref a = spawn_watcher(&w, false, keeps);
    Born born;
    assert_int_equal(tr_ask(w.sys, a, &born, 0, Bear), TR_OK);
    tr_tell(w.sys, a, Break);
    tr_sim_advance(w.sim, TR_SECONDS(1));
    if (keeps) {  // it lives, and is watched
        tr_stop(w.sys, born.ref);
        expect_told(&w, born.ref, 2);
    } else {
        assert_int_equal(tr_state_of(w.sys, born.ref), TR_STATE_TERMINATED);
    }
    close_world(&w);
}

static void test_first_week_11_children_that_a_restart_stops(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        family(seed, false);
        family(seed, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_week_11_a_watch_survives_a_restart),
        cmocka_unit_test(test_first_week_11_children_that_a_restart_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

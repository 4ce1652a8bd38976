/*
 * watching_nobody_test.c - watches of nobody, of actors that have ended and of
 * refs of other systems follow the rules of all watches: one notice for each,
 * none after tr_unwatch (rules 33 and 34).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <troupe/troupe.h>

enum { SEEDS = 20 };

TR_MESSAGE(Watch, (tr_ref, ref), (tr_ref, other), (bool, in_order));

static int told;

static void watch(tr_ctx *ctx, tr_ref ref, bool in_order)
{
    if (in_order) {
        tr_watch_in_order(ctx, ref);
    } else {
        tr_watch(ctx, ref);
    }
}

/* Watches both twice, then no longer the first. */
static tr_err on_watch(tr_ctx *ctx, void *self, const Watch *m)
{
    (void)self;
    for (int twice = 0; twice < 2; twice++) {
        watch(ctx, m->ref, m->in_order);
        watch(ctx, m->other, m->in_order);
    }
    // A wait, in which the notices arrive.
    TR_TRY(tr_sleep(ctx, TR_MS(1)));
    watch(ctx, m->ref, m->in_order);
    watch(ctx, m->other, m->in_order);
    tr_unwatch(ctx, m->ref);
    return TR_OK;
}

static tr_err on_terminated(tr_ctx *ctx, void *self, const tr_terminated *m)
{
    (void)ctx, (void)self;
    told += m->reason == TR_NO_SUCH_ACTOR;
    return TR_OK;
}

TR_ACTOR(watcher, void, TR_ON(Watch, on_watch),
         TR_ON(tr_terminated, on_terminated));

typedef struct world {
    tr_sim *sim;
    tr_system *sys;
    tr_system *other;
    tr_ref foreign;
} world;

static void open_world(world *w, uint64_t seed)
{
    assert_int_equal(tr_sim_new(&w->sim, seed), TR_OK);
    const void *place = tr_sim_world(w->sim);
    assert_int_equal(tr_system_open(&w->sys, .world = place), TR_OK);
    assert_int_equal(tr_system_open(&w->other, .world = place), TR_OK);
    w->foreign = tr_spawn(w->other, watcher);
}

static void close_world(world *w)
{
    assert_int_equal(tr_system_close(w->other, 0), TR_OK);
    assert_int_equal(tr_system_close(w->sys, 0), TR_OK);
    tr_sim_free(w->sim);
}

/* Returns how many notices come. */
static int notices(world *w, tr_ref ref, tr_ref other, bool in_order)
{
    told = 0;
    tr_ref a = tr_spawn(w->sys, watcher);
    tr_tell(w->sys, a, Watch, .ref = ref, .other = other, .in_order = in_order);
    tr_sim_advance(w->sim, TR_SECONDS(1));
    int first = told;
    // The watches are over: watching again gives a notice again.
    tr_tell(w->sys, a, Watch, .ref = ref, .other = other, .in_order = in_order);
    tr_sim_advance(w->sim, TR_SECONDS(1));
    assert_int_equal(told, 2 * first);
    return first;
}

static void test_rules_33_34_watching_nobody_twice_and_no_longer(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        world w;
        open_world(&w, seed);
        tr_ref nobody = TR_NOBODY;
        for (int in_order = 0; in_order < 2; in_order++) {
            assert_int_equal(notices(&w, nobody, w.foreign, in_order), 1);
            assert_int_equal(notices(&w, w.foreign, nobody, in_order), 1);
            assert_int_equal(notices(&w, nobody, nobody, in_order), 0);
        }
        close_world(&w);
    }
}

/* ---- a spawn that fails ---- */

TR_MESSAGE(Retry);

static int failed_spawns;

/* A pool would spawn again for each notice; here that would never end. */
static tr_err try_to_spawn(tr_ctx *ctx)
{
    failed_spawns++;
    tr_ref ref = tr_spawn(ctx, watcher, .watch = true, .name = "not a name");
    return tr_ref_err(ref) == TR_EINVAL ? TR_OK : TR_EFAILED;
}

static tr_err on_retry(tr_ctx *ctx, void *self, const Retry *m)
{
    (void)self, (void)m;
    return try_to_spawn(ctx);
}

static tr_err on_lost(tr_ctx *ctx, void *self, const tr_terminated *m)
{
    (void)self, (void)m;
    told++;
    return try_to_spawn(ctx);
}

TR_ACTOR(spawner, void, TR_ON(Retry, on_retry), TR_ON(tr_terminated, on_lost));

static void test_SP20_a_failed_spawn_watches_nobody(void **state)
{
    (void)state;
    world w;
    open_world(&w, 1);
    told = failed_spawns = 0;
    tr_ref a = tr_spawn(w.sys, spawner);
    tr_tell(w.sys, a, Retry);
    tr_sim_advance(w.sim, TR_SECONDS(1));
    assert_int_equal(failed_spawns, 1);
    assert_int_equal(told, 0);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_SP20_a_failed_spawn_watches_nobody),
        cmocka_unit_test(test_rules_33_34_watching_nobody_twice_and_no_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

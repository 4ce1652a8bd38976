/*
 * 19_temp_actors.c - temporary actors of the program, below /temp: they outlive
 * the actor that spawned them, are never restarted, and end after /user.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

enum { SEEDS = 20 };

TR_MESSAGE(Break);
TR_MESSAGE(Leave);
TR_MESSAGE(Price, (int64_t, cents));
TR_REQUEST(Quote, Price, (const char *, thing));
TR_MESSAGE(Made, (tr_ref, ref));
TR_REQUEST(Make, Made, (const char *, name), (bool, watch));
TR_MESSAGE(Heard, (tr_ref, actor), (uint32_t, reason));

/* What ended in which order; the simulated world has one thread. */
static int next, helper_ended, user_ended, top_ended;
static tr_err last_word;

/* ---- a helper that only lives, leaves or breaks ---- */

static tr_err on_break(tr_ctx *ctx, void *self, const Break *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EUSER + 3, "broken");
}

static tr_err on_leave(tr_ctx *ctx, void *self, const Leave *m)
{
    (void)self, (void)m;
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

static tr_err on_quote(tr_ctx *ctx, void *self, const Quote *m)
{
    (void)self;
    return tr_reply(ctx, m, .cents = (int64_t)strlen(m->thing));
}

static tr_err helper_ends(tr_ctx *ctx, void *self, tr_reason reason)
{
    (void)ctx, (void)self, (void)reason;
    helper_ended = ++next;
    return TR_OK;
}

TR_ACTOR(helper, void, TR_ON(Break, on_break), TR_ON(Leave, on_leave),
         TR_ON(Quote, on_quote), TR_HOOK(post_stop, helper_ends));

/* ---- an actor that spawns temporary ones ---- */

typedef struct Boss {
    tr_ref probe;
    tr_ref last;  // asked in its last hook
} Boss;

static tr_err boss_makes(tr_ctx *ctx, Boss *self, const Make *m)
{
    self->last = tr_spawn_temp(ctx, helper, .name = m->name, .watch = m->watch);
    return tr_reply(ctx, m, .ref = self->last);
}

static tr_err boss_hears(tr_ctx *ctx, Boss *self, const tr_terminated *m)
{
    tr_tell(ctx, self->probe, Heard, .actor = m->actor, .reason = m->reason);
    return TR_OK;
}

static tr_err boss_breaks(tr_ctx *ctx, Boss *self, const Break *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EUSER, "the boss is ill");
}

static tr_err boss_ends(tr_ctx *ctx, Boss *self, tr_reason reason)
{
    if (reason == TR_STOPPED) {
        Price price;
        last_word = tr_ask(ctx, self->last, &price, TR_SECONDS(1), Quote,
                           .thing = "end");
        user_ended = ++next;
    }
    return TR_OK;
}

TR_ACTOR(boss, Boss, TR_ON(Make, boss_makes), TR_ON(Break, boss_breaks),
         TR_ON(tr_terminated, boss_hears), TR_HOOK(post_stop, boss_ends));

static tr_err top_ends(tr_ctx *ctx, void *self, tr_reason reason)
{
    (void)ctx, (void)self, (void)reason;
    top_ended = ++next;
    return TR_OK;
}

TR_ACTOR(top, void, TR_HOOK(post_stop, top_ends));

/* ---- the stage ---- */

typedef struct world {
    tr_sim *sim;
    tr_system *sys;
    tr_probe *probe;
    tr_ref boss;
} world;

static void open_world(world *w, uint64_t seed)
{
    next = helper_ended = user_ended = top_ended = 0;
    last_word = TR_EUSER;
    assert_int_equal(tr_sim_new(&w->sim, seed), TR_OK);
    assert_int_equal(tr_system_open(&w->sys, .world = tr_sim_world(w->sim),
                                    .log_level = TR_LOG_ERROR + 1),
                     TR_OK);
    assert_int_equal(tr_ref_err(tr_top_level(w->sys, top, .name = "top")),
                     TR_OK);
    assert_int_equal(tr_probe_new(&w->probe, w->sys), TR_OK);
    w->boss = tr_spawn(w->sys, boss, .supervision = TR_SUPERVISE(),
                       TR_INIT(boss, .probe = tr_probe_ref(w->probe)));
}

static void close_world(world *w, tr_err expected)
{
    tr_probe_free(w->probe);
    assert_int_equal(tr_system_close(w->sys, 0), expected);
    tr_sim_free(w->sim);
}

static tr_ref make(world *w, const char *name, bool watch)
{
    Made made;
    assert_int_equal(
        tr_ask(w->sys, w->boss, &made, 0, Make, .name = name, .watch = watch),
        TR_OK);
    assert_int_equal(tr_ref_err(made.ref), TR_OK);
    return made.ref;
}

static void assert_answers(world *w, tr_ref ref)
{
    Price price;
    assert_int_equal(tr_ask(w->sys, ref, &price, 0, Quote, .thing = "four"),
                     TR_OK);
    assert_int_equal(price.cents, 4);
}

/* ---- tests ---- */

static void test_first_week_19_GD10_temp_actors_are_below_temp(void **state)
{
    (void)state;
    world w;
    char path[TR_PATH_SIZE];
    open_world(&w, 1);
    tr_ref named = make(&w, "one", false);
    assert_string_equal(tr_ref_path(w.sys, named, path, sizeof(path)),
                        "/temp/one");
    assert_true(tr_ref_eq(tr_lookup(w.sys, "/temp/one"), named));
    tr_ref nameless = tr_spawn_temp(w.sys, helper);
    tr_ref_path(w.sys, nameless, path, sizeof(path));
    assert_memory_equal(path, "/temp/$", 7);
    assert_true(tr_ref_eq(tr_lookup(w.sys, path), nameless));
    // A name is taken until its actor has ended.
    tr_ref second = tr_spawn_temp(w.sys, helper, .name = "one");
    assert_int_equal(tr_ref_err(second), TR_EEXIST);
    tr_tell(w.sys, named, Leave);
    assert_int_equal(tr_join(w.sys, named, 0, NULL, NULL), TR_OK);
    assert_int_equal(tr_ref_err(tr_lookup(w.sys, "/temp/one")), TR_ENOENT);
    second = tr_spawn_temp(w.sys, helper, .name = "one");
    assert_answers(&w, second);
    close_world(&w, TR_OK);
}

static void test_first_week_19_GD10_a_temp_actor_outlives_its_maker(
    void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        world w;
        open_world(&w, seed);
        tr_ref a = make(&w, NULL, false);
        tr_tell(w.sys, w.boss, Break);  // a restart ends children
        tr_sim_advance(w.sim, TR_SECONDS(1));
        assert_answers(&w, a);
        tr_kill(w.sys, w.boss);
        tr_sim_advance(w.sim, TR_SECONDS(1));
        assert_int_equal(tr_state_of(w.sys, w.boss), TR_STATE_TERMINATED);
        assert_answers(&w, a);
        close_world(&w, TR_OK);
    }
}

static void test_first_week_19_GD10_a_temp_actor_fails_alone(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        world w;
        open_world(&w, seed);
        tr_ref a = make(&w, "a", true), b = make(&w, "b", false);
        tr_tell(w.sys, a, Break);
        const Heard *h = tr_expect(w.probe, TR_SECONDS(5), Heard);
        assert_true(tr_ref_eq(h->actor, a));
        assert_int_equal(h->reason, TR_FAILED);
        assert_answers(&w, b);
        // Its failure can be that of the system, if the program says so.
        tr_ref c = tr_spawn_temp(w.sys, helper,
                                 .supervision =
                                     TR_SUPERVISE(.on_failure = TR_ESCALATE));
        tr_tell(w.sys, c, Break);
        tr_sim_advance(w.sim, TR_SECONDS(1));
        close_world(&w, TR_EUSER + 3);
    }
}

/* After /user, whose actors may need it in their last hooks. */
static void test_first_week_19_GD10_temp_actors_end_after_user(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        world w;
        open_world(&w, seed);
        (void)make(&w, NULL, false);
        close_world(&w, TR_OK);
        assert_int_equal(last_word, TR_OK);
        assert_int_equal(user_ended, 1);
        assert_int_equal(helper_ended, 2);
        assert_int_equal(top_ended, 3);
    }
    world w;
    open_world(&w, 1);
    tr_system_terminate(w.sys);
    assert_int_equal(tr_ref_err(tr_spawn_temp(w.sys, helper)), TR_ECLOSED);
    close_world(&w, TR_OK);
}

/* ---- what it is for: a request that needs several answers ---- */

typedef struct Gather {
    tr_ref shops[2];
} Gather;

/* Asks both shops; the counter has gone on with other requests. */
static tr_err gather(tr_ctx *ctx, Gather *self, const Quote *m)
{
    int64_t sum = 0;
    for (int i = 0; i < 2; i++) {
        Price price;
        TR_OR_REFUSE(ctx, m,
                     tr_ask(ctx, self->shops[i], &price, TR_SECONDS(1), Quote,
                            .thing = m->thing));
        sum += price.cents;
    }
    tr_stop(ctx, tr_self(ctx));
    return tr_reply(ctx, m, .cents = sum);
}

TR_ACTOR(gatherer, Gather, TR_ON(Quote, gather));

static tr_err at_counter(tr_ctx *ctx, Gather *self, const Quote *m)
{
    tr_ref temp =
        tr_spawn_temp(ctx, gatherer, .init = self, .init_size = sizeof(*self));
    tr_forward(ctx, temp, m);
    return TR_OK;
}

TR_ACTOR(counter, Gather, TR_ON(Quote, at_counter));

static void test_first_week_19_GD10_a_temp_actor_answers_for_another(
    void **state)
{
    (void)state;
    world w;
    open_world(&w, 1);
    tr_ref c = tr_spawn(w.sys, counter,
                        TR_INIT(counter, .shops = {tr_spawn(w.sys, helper),
                                                   tr_spawn(w.sys, helper)}));
    for (int i = 0; i < 3; i++) {
        Price price;
        assert_int_equal(tr_ask(w.sys, c, &price, 0, Quote, .thing = "tea"),
                         TR_OK);
        assert_int_equal(price.cents, 6);
    }
    tr_sim_advance(w.sim, TR_SECONDS(1));
    char tree[2048];
    tr_tree(w.sys, tree, sizeof(tree));
    assert_null(strstr(tree, "gatherer"));  // none is left
    close_world(&w, TR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_week_19_GD10_temp_actors_are_below_temp),
        cmocka_unit_test(
            test_first_week_19_GD10_a_temp_actor_outlives_its_maker),
        cmocka_unit_test(test_first_week_19_GD10_a_temp_actor_fails_alone),
        cmocka_unit_test(test_first_week_19_GD10_temp_actors_end_after_user),
        cmocka_unit_test(
            test_first_week_19_GD10_a_temp_actor_answers_for_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * top_and_states_test.c - what a program sees of states, guardians, watches,
 * dead letters and options, by the public headers alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

enum { SEEDS = 10 };

TR_MESSAGE(Break);
TR_MESSAGE(Watch, (tr_ref, ref));
TR_MESSAGE(Lost);

static tr_err on_break(tr_ctx *ctx, void *self, const Break *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EUSER, "broken");
}

static tr_err on_watch(tr_ctx *ctx, void *self, const Watch *m)
{
    (void)self;
    tr_watch(ctx, m->ref);
    return TR_OK;
}

static tr_err slow_start(tr_ctx *ctx, void *self)
{
    (void)self;
    return tr_sleep(ctx, TR_SECONDS(1));
}

TR_ACTOR(plain, void, TR_HOOK(pre_start, slow_start), TR_ON(Break, on_break),
         TR_ON(Watch, on_watch));

typedef struct world {
    tr_sim *sim;
    tr_system *sys;
    tr_probe *probe;
} world;

static void open_world(world *w, uint64_t seed)
{
    assert_int_equal(tr_sim_new(&w->sim, seed), TR_OK);
    assert_int_equal(tr_system_open(&w->sys, .world = tr_sim_world(w->sim),
                                    .log_level = TR_LOG_ERROR + 1),
                     TR_OK);
    assert_int_equal(tr_probe_new(&w->probe, w->sys), TR_OK);
}

static void close_world(world *w)
{
    tr_probe_free(w->probe);
    assert_int_equal(tr_system_close(w->sys, 0), TR_OK);
    tr_sim_free(w->sim);
}

/* ---- states ---- */

/* The next state of this actor; the probe hears of the library's, too. */
static void expect_state(world *w, tr_ref ref, tr_state state)
{
    const tr_lifecycle *e;
    do {
        e = tr_expect(w->probe, TR_MINUTES(5), tr_lifecycle);
    } while (!tr_ref_eq(e->actor, ref));
    assert_int_equal(e->state, state);
}

static void test_L1_the_eight_states_of_a_life(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        world w;
        open_world(&w, seed);
        tr_probe_subscribe(w.probe, tr_lifecycle);
        tr_ref a =
            tr_spawn(w.sys, plain,
                     .supervision = TR_SUPERVISE(.backoff_min = TR_SECONDS(1)));
        assert_int_equal(tr_state_of(w.sys, a), TR_STATE_CREATED);
        expect_state(&w, a, TR_STATE_STARTING);
        expect_state(&w, a, TR_STATE_RUNNING);
        tr_tell(w.sys, a, Break);
        expect_state(&w, a, TR_STATE_FAILED);
        expect_state(&w, a, TR_STATE_RESTARTING);
        expect_state(&w, a, TR_STATE_STARTING);
        expect_state(&w, a, TR_STATE_RUNNING);
        tr_stop(w.sys, a);
        expect_state(&w, a, TR_STATE_STOPPING);
        expect_state(&w, a, TR_STATE_STOPPED);
        tr_sim_advance(w.sim, TR_SECONDS(1));
        assert_int_equal(tr_state_of(w.sys, a), TR_STATE_TERMINATED);
        close_world(&w);
    }
}

/* ---- guardians ---- */

/* The guardians of the library cannot be ended, restarted or replaced. */
static void test_SV25_SV26_SV28_guardians_are_left_alone(void **state)
{
    (void)state;
    static const char *const paths[] = {"/", "/user", "/system", "/temp",
                                        "/deadLetters"};
    world w;
    open_world(&w, 1);
    tr_ref a = tr_spawn(w.sys, plain);
    assert_int_equal(tr_started(w.sys, a, 0), TR_OK);
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        tr_ref guardian = tr_lookup(w.sys, paths[i]);
        assert_int_equal(tr_ref_err(guardian), TR_OK);
        tr_restart(w.sys, guardian);
        tr_stop(w.sys, guardian);
        tr_poison(w.sys, guardian);
        tr_kill(w.sys, guardian);
        tr_sim_advance(w.sim, TR_SECONDS(1));
        assert_true(tr_ref_eq(tr_lookup(w.sys, paths[i]), guardian));
        assert_int_equal(tr_state_of(w.sys, a), TR_STATE_RUNNING);
    }
    close_world(&w);
}

/* ---- watches of a watcher that has ended ---- */

static void test_DW17_DW18_X12_a_watcher_that_ended_gets_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        world w;
        open_world(&w, seed);
        tr_probe_subscribe(w.probe, tr_dead_letter);
        tr_ref target = tr_spawn(w.sys, plain);
        tr_ref watcher = tr_spawn(w.sys, plain);
        tr_tell(w.sys, watcher, Watch, .ref = target);
        tr_sim_advance(w.sim, TR_SECONDS(5));
        tr_stop(w.sys, watcher);
        tr_sim_advance(w.sim, TR_SECONDS(5));
        tr_stop(w.sys, target);
        tr_expect_nothing(w.probe, TR_SECONDS(5));
        assert_int_equal(tr_state_of(w.sys, target), TR_STATE_TERMINATED);
        close_world(&w);
    }
}

/* ---- dead letters ---- */

static char logged[256];

static void keep_log(void *user, const tr_log_record *record)
{
    (void)user;
    if (strstr(record->text, "Lost") != NULL) {
        strncpy(logged, record->text, sizeof(logged) - 1);
    }
}

static void test_DL3_DL4_dead_letters_are_logged_and_counted(void **state)
{
    (void)state;
    tr_sim *sim;
    tr_system *sys;
    memset(logged, 0, sizeof(logged));
    assert_int_equal(tr_sim_new(&sim, 1), TR_OK);
    assert_int_equal(tr_system_open(&sys, .world = tr_sim_world(sim),
                                    .log = keep_log, .log_level = TR_LOG_DEBUG),
                     TR_OK);
    tr_ref a = tr_spawn(sys, plain, .name = "a");
    tr_stop(sys, a);
    tr_sim_advance(sim, TR_SECONDS(5));
    for (int i = 0; i < 3; i++) {
        tr_tell(sys, a, Lost);
    }
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(sys, &m);
    assert_int_equal(m.dead_letters, 3);
    assert_non_null(strstr(logged, "Lost"));
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    tr_sim_free(sim);
}

static tr_err last_words(tr_ctx *ctx, void *self, tr_reason reason)
{
    (void)self, (void)reason;
    tr_tell(ctx, tr_self(ctx), Lost);  // to an actor that ends
    return TR_OK;
}

TR_ACTOR(talker, void, TR_HOOK(post_stop, last_words));

/* Those of an extra top level, which ends in one of the last phases. */
static void test_DL8_dead_letters_of_the_last_phases_count(void **state)
{
    (void)state;
    world w;
    open_world(&w, 1);
    tr_ref top = tr_top_level(w.sys, talker, .name = "top");
    assert_int_equal(tr_started(w.sys, top, 0), TR_OK);
    tr_probe_free(w.probe);
    tr_close_report report = {.size = sizeof(report)};
    assert_int_equal(tr_system_close_report(w.sys, 0, &report), TR_OK);
    assert_int_equal(report.dead_letters, 1);
    tr_sim_free(w.sim);
}

/* ---- options of another version ---- */

typedef struct later_options {  // as a later version may have them
    tr_spawn_options known;
    uint64_t unknown;
} later_options;

static void test_PA9_options_of_a_later_version(void **state)
{
    (void)state;
    world w;
    open_world(&w, 1);
    later_options o = {.known = {.size = sizeof(o), .name = "a"}};
    tr_from from = {.sys = w.sys};
    assert_int_equal(tr_ref_err((tr_spawn)(from, &plain, &o.known)), TR_OK);
    o.known.name = "b";
    o.unknown = 1;  // asks for what this version cannot do
    assert_int_equal(tr_ref_err((tr_spawn)(from, &plain, &o.known)), TR_EINVAL);
    close_world(&w);
}

/* ---- policies ---- */

/* Three restarts within a second, 10 ms apart at first, then the end. */
static void test_X43_the_defaults_of_a_policy(void **state)
{
    (void)state;
    world w;
    open_world(&w, 1);
    tr_ref a = tr_spawn(w.sys, plain,
                        .supervision = TR_SUPERVISE(.within = TR_MINUTES(10)));
    tr_probe_watch(w.probe, a);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(tr_state_of(w.sys, a) != TR_STATE_TERMINATED, 1);
        tr_tell(w.sys, a, Break);
        tr_sim_advance(w.sim, TR_SECONDS(10));
    }
    const tr_terminated *t = tr_expect(w.probe, TR_SECONDS(1), tr_terminated);
    assert_int_equal(t->reason, TR_FAILED);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_L1_the_eight_states_of_a_life),
        cmocka_unit_test(test_SV25_SV26_SV28_guardians_are_left_alone),
        cmocka_unit_test(test_DW17_DW18_X12_a_watcher_that_ended_gets_nothing),
        cmocka_unit_test(test_DL3_DL4_dead_letters_are_logged_and_counted),
        cmocka_unit_test(test_DL8_dead_letters_of_the_last_phases_count),
        cmocka_unit_test(test_PA9_options_of_a_later_version),
        cmocka_unit_test(test_X43_the_defaults_of_a_policy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

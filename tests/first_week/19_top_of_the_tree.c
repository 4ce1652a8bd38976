/*
 * 19_top_of_the_tree.c - a /user guardian of one's own, an extra top level that
 * outlives /user, and an actor whose end is the end of the system.
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
TR_MESSAGE(Leave);
TR_MESSAGE(Pong, (uint32_t, number));
TR_REQUEST(Ping, Pong);

/* What happened, in order; the simulated world has one thread. */
static int next, user_ended, journal_ended, journal_hooked;
static tr_err last_word;

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

TR_ACTOR(plain, void, TR_ON(Break, on_break), TR_ON(Leave, on_leave));

typedef struct world {
    tr_sim *sim;
    tr_system *sys;
} world;

/* ---- a guardian of one's own ---- */

typedef struct Boss {
    uint32_t number;
    uint32_t decided, ended;
} Boss;

static uint32_t ends_heard;

static tr_err boss_starts(tr_ctx *ctx, Boss *self)
{
    (void)self;
    return tr_ref_err(tr_spawn(ctx, plain, .name = "first"));
}

static tr_err on_ping(tr_ctx *ctx, Boss *self, const Ping *m)
{
    return tr_reply(ctx, m, .number = self->number);
}

static tr_directive decide(const Boss *self, const tr_failure *f)
{
    (void)self;
    return f->err == TR_EUSER + 3 ? TR_STOP : TR_BY_POLICY;
}

static tr_err on_end(tr_ctx *ctx, Boss *self, const tr_child_end *end)
{
    (void)ctx;
    self->ended++;
    ends_heard += end->reason == TR_FAILED && end->err == TR_EUSER + 3;
    return TR_OK;
}

static tr_err boss_leaves(tr_ctx *ctx, Boss *self, const Leave *m)
{
    (void)self, (void)m;
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

static tr_err boss_breaks(tr_ctx *ctx, Boss *self, const Break *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EUSER + 4, "the boss is ill");
}

TR_ACTOR(boss, Boss, TR_HOOK(pre_start, boss_starts), TR_ON(Ping, on_ping),
         TR_ON(Leave, boss_leaves), TR_ON(Break, boss_breaks),
         TR_HOOK(decide, decide), TR_HOOK(child_terminated, on_end));

static void open_boss(world *w, uint64_t seed)
{
    ends_heard = 0;
    assert_int_equal(tr_sim_new(&w->sim, seed), TR_OK);
    assert_int_equal(tr_system_open(&w->sys, .world = tr_sim_world(w->sim),
                                    .log_level = TR_LOG_ERROR + 1,
                                    .guardian = TR_DEF(boss),
                                    TR_INIT(boss, .number = 42)),
                     TR_OK);
}

static void test_first_week_19_GD12_a_guardian_of_ones_own(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        world w;
        Pong pong;
        open_boss(&w, seed);
        tr_ref user = tr_lookup(w.sys, "/user");
        assert_int_equal(tr_ask(w.sys, user, &pong, 0, Ping), TR_OK);
        assert_int_equal(pong.number, 42);
        assert_int_equal(tr_ref_err(tr_lookup(w.sys, "/user/first")), TR_OK);
        // It is the parent of what outside threads spawn, and decides.
        tr_ref a = tr_spawn(w.sys, plain, .name = "a");
        tr_tell(w.sys, a, Break);
        tr_sim_advance(w.sim, TR_SECONDS(1));
        assert_int_equal(tr_state_of(w.sys, a), TR_STATE_TERMINATED);
        assert_int_equal(ends_heard, 1);
        assert_int_equal(tr_system_close(w.sys, 0), TR_OK);
        tr_sim_free(w.sim);
    }
}

static void test_first_week_19_GD12_DW27_its_end_ends_the_system(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        world w;
        open_boss(&w, 1);
        tr_ref user = tr_lookup(w.sys, "/user");
        if (way == 0) {
            tr_tell(w.sys, user, Leave);
        } else {
            tr_tell(w.sys, user, Break);
        }
        tr_sim_advance(w.sim, TR_SECONDS(1));
        assert_int_equal(tr_ref_err(tr_spawn(w.sys, plain)), TR_ECLOSED);
        assert_int_equal(tr_system_close(w.sys, 0),
                         way == 0 ? TR_OK : TR_EUSER + 4);
        tr_sim_free(w.sim);
    }
}

/* ---- an extra top level ---- */

static tr_err journal_starts(tr_ctx *ctx, void *self)
{
    (void)self;
    return tr_on_terminate(ctx);
}

static tr_err journal_ping(tr_ctx *ctx, void *self, const Ping *m)
{
    (void)self;
    return tr_reply(ctx, m);
}

static tr_err journal_hook(tr_ctx *ctx, void *self,
                           const tr_termination_hook *m)
{
    (void)self, (void)m;
    journal_hooked = ++next;
    tr_termination_done(ctx);
    return TR_OK;
}

static tr_err journal_ends(tr_ctx *ctx, void *self, tr_reason reason)
{
    (void)ctx, (void)self, (void)reason;
    journal_ended = ++next;
    return TR_OK;
}

TR_ACTOR(journal, void, TR_HOOK(pre_start, journal_starts),
         TR_ON(Ping, journal_ping), TR_ON(Break, on_break),
         TR_ON(tr_termination_hook, journal_hook),
         TR_HOOK(post_stop, journal_ends));

typedef struct Writer {
    tr_ref journal;
} Writer;

static tr_err writer_ends(tr_ctx *ctx, Writer *self, tr_reason reason)
{
    (void)reason;
    last_word = tr_ask(ctx, self->journal, NULL, TR_SECONDS(1), Ping);
    user_ended = ++next;
    return TR_OK;
}

TR_ACTOR(writer, Writer, TR_HOOK(post_stop, writer_ends));

static void open_journal(world *w, uint64_t seed, tr_directive directive,
                         tr_ref *ref)
{
    next = user_ended = journal_ended = journal_hooked = 0;
    last_word = TR_EUSER;
    assert_int_equal(tr_sim_new(&w->sim, seed), TR_OK);
    assert_int_equal(tr_system_open(&w->sys, .world = tr_sim_world(w->sim),
                                    .log_level = TR_LOG_ERROR + 1),
                     TR_OK);
    *ref = tr_top_level(w->sys, journal, .name = "journal",
                        .supervision = TR_SUPERVISE(.on_failure = directive,
                                                    .scope = TR_ALL_FOR_ONE));
    assert_int_equal(tr_ref_err(*ref), TR_OK);
    assert_int_equal(tr_started(w->sys, *ref, 0), TR_OK);
}

static void test_first_week_19_GD7_SH2_SH3_X18_a_top_level_outlives_user(
    void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        world w;
        tr_ref j;
        open_journal(&w, seed, TR_RESTART, &j);
        tr_ref a = tr_spawn(w.sys, writer, TR_INIT(writer, .journal = j));
        assert_int_equal(tr_started(w.sys, a, 0), TR_OK);
        assert_true(tr_ref_eq(tr_lookup(w.sys, "/journal"), j));
        char path[TR_PATH_SIZE];
        assert_string_equal(tr_ref_path(w.sys, j, path, sizeof(path)),
                            "/journal");
        assert_int_equal(tr_system_close(w.sys, 0), TR_OK);
        assert_int_equal(last_word, TR_OK);
        assert_int_equal(user_ended, 1);
        assert_int_equal(journal_hooked, 2);
        assert_int_equal(journal_ended, 3);
        tr_sim_free(w.sim);
    }
}

static void test_first_week_19_GD7_a_top_level_is_supervised(void **state)
{
    (void)state;
    world w;
    tr_ref j;
    open_journal(&w, 1, TR_RESTART, &j);
    tr_ref user = tr_spawn(w.sys, plain);
    tr_tell(w.sys, j, Break);
    assert_int_equal(tr_ask(w.sys, j, NULL, 0, Ping), TR_OK);
    // Its scope does not reach the guardians beside it.
    assert_int_equal(tr_state_of(w.sys, user), TR_STATE_RUNNING);
    assert_int_equal(tr_system_close(w.sys, 0), TR_OK);
    tr_sim_free(w.sim);
    open_journal(&w, 1, TR_ESCALATE, &j);
    tr_ref other = tr_spawn(w.sys, plain);
    tr_tell(w.sys, j, Break);
    tr_sim_advance(w.sim, TR_SECONDS(1));
    assert_int_equal(tr_state_of(w.sys, other), TR_STATE_TERMINATED);
    assert_int_equal(tr_system_close(w.sys, 0), TR_EUSER + 3);
    assert_non_null(strstr(tr_error_text(NULL), "/journal failed: broken"));
    tr_sim_free(w.sim);
}

/* ---- the main actor ---- */

static void main_ends(bool fails)
{
    world w;
    assert_int_equal(tr_sim_new(&w.sim, 1), TR_OK);
    assert_int_equal(tr_system_open(&w.sys, .world = tr_sim_world(w.sim),
                                    .log_level = TR_LOG_ERROR + 1),
                     TR_OK);
    tr_ref m = tr_spawn(w.sys, plain, .name = "main", .ends_system = true,
                        .supervision = TR_SUPERVISE(.on_failure = TR_STOP));
    tr_ref other = tr_spawn(w.sys, plain);
    tr_sim_advance(w.sim, TR_SECONDS(1));
    assert_int_equal(tr_state_of(w.sys, other), TR_STATE_RUNNING);
    if (fails) {
        tr_tell(w.sys, m, Break);
    } else {
        tr_tell(w.sys, m, Leave);
    }
    tr_sim_advance(w.sim, TR_SECONDS(1));
    assert_int_equal(tr_state_of(w.sys, other), TR_STATE_TERMINATED);
    tr_close_report report = {.size = sizeof(report)};
    assert_int_equal(tr_system_close_report(w.sys, 0, &report),
                     fails ? TR_EUSER + 3 : TR_OK);
    assert_string_equal(report.failure_text,
                        fails ? "/user/main failed: broken" : "");
    tr_sim_free(w.sim);
}

static void test_first_week_19_X19_the_main_actor_ends_the_system(void **state)
{
    (void)state;
    main_ends(false);
    main_ends(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_week_19_GD12_a_guardian_of_ones_own),
        cmocka_unit_test(test_first_week_19_GD12_DW27_its_end_ends_the_system),
        cmocka_unit_test(
            test_first_week_19_GD7_SH2_SH3_X18_a_top_level_outlives_user),
        cmocka_unit_test(test_first_week_19_GD7_a_top_level_is_supervised),
        cmocka_unit_test(test_first_week_19_X19_the_main_actor_ends_the_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

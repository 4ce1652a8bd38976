/*
 * family_test.c - parents and children: who is known, in which order they end,
 * what a large family costs.
 */
#include "support/fixture.h"

#include "support/core.h"

/* ---- children are known ---- */

typedef struct Family {
    tr_ref probe;
} Family;

static tr_err family_says(tr_ctx *ctx, Family *self, const Say *m)
{
    (void)m;
    tr_ref a = tr_spawn(ctx, player, .name = "a",
                        TR_INIT(player, .probe = self->probe));
    tr_ref b = tr_spawn(ctx, player, .name = "b",
                        TR_INIT(player, .probe = self->probe));
    tr_ref all[4];
    // Children are known at once, in the order of spawning.
    bool known = tr_children(ctx, all, 4) == 2 && tr_ref_eq(all[0], a) &&
                 tr_ref_eq(all[1], b) && tr_children(ctx, NULL, 0) == 2 &&
                 tr_ref_eq(tr_child(ctx, "a"), a) &&
                 tr_ref_eq(tr_child(ctx, "x"), TR_NOBODY) &&
                 tr_ref_eq(tr_lookup(ctx, "b"), b);
    tr_tell(ctx, self->probe, Note, .text = "known", .number = known, .ref = a);
    return TR_OK;
}

TR_ACTOR(family, Family, TR_ON(Say, family_says));

static void children(stage *s)
{
    tr_ref f =
        tr_spawn(s->sys, family, .name = "f", TR_INIT(family, .probe = s->to));
    tr_tell(s->sys, f, Say, .text = "");
    const Note *n = tr_expect(s->probe, patience(s), Note);
    assert_string_equal(n->text, "known");
    assert_int_equal(n->number, true);
    tr_ref a = n->ref;
    tr_actor_info info = {.size = sizeof(info)};
    assert_int_equal(tr_actor_info_of(s->sys, a, &info), TR_OK);
    assert_true(tr_ref_eq(info.parent, f));
    assert_string_equal(info.path, "/user/f/a");
    // A child that has ended is no longer found.
    tr_stop(s->sys, a);
    (void)joined(s, a);
    assert_int_equal(tr_ref_err(tr_lookup(s->sys, "/user/f/a")), TR_ENOENT);
    assert_int_equal(tr_ref_err(tr_lookup(s->sys, "/user/f/b")), TR_OK);
}

static void test_SP2_SP6_SP7_RG7_C13_children_are_known_at_once(void **state)
{
    (void)state;
    everywhere(children);
}

/* ---- the end of a family ---- */

static void family_order(stage *s)
{
    enum { SAYS = PRE_STOP | POST_STOP };
    tr_ref p = PLAY(s, "p", (.says = SAYS));
    tr_ref c = CHILD(s, p, "c", (.says = SAYS));
    tr_ref g = CHILD(s, c, "g", (.says = SAYS));
    assert_int_equal(tr_started(s->sys, g, 0), TR_OK);
    watch_end(s, p);
    tr_stop(s->sys, p);
    heard(s, "p pre_stop");  // its children still run
    heard(s, "c pre_stop");
    heard(s, "g pre_stop");
    heard(s, "g post_stop");
    heard(s, "c post_stop");
    assert_int_equal(heard(s, "p post_stop"), TR_STOPPED);
    assert_int_equal(ended(s, p), TR_STOPPED);
    quiet(s);
}

static void test_K1_K6_X1_X16_children_end_between_the_two_hooks(void **state)
{
    (void)state;
    everywhere(family_order);
}

/* One child has ended before, one ends at once, one takes 20 minutes. */
static void all_children_first(stage *s)
{
    tr_ref p =
        PLAY(s, "p", (.says = POST_STOP), .stop_timeout = TR_MINUTES(60));
    tr_ref gone = CHILD(s, p, "gone", ());
    (void)CHILD(s, p, "quick", ());
    tr_ref slow = CHILD(s, p, "slow", (), .stop_timeout = TR_MINUTES(60));
    tr_tell(s->sys, slow, Nap, .span = TR_MINUTES(20));
    tr_stop(s->sys, gone);
    (void)joined(s, gone);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    tr_stop(s->sys, p);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    // The parent still takes system mail: the watch succeeds.
    watch_end(s, p);
    assert_int_equal(tr_state_of(s->sys, p), TR_STATE_STOPPING);
    tr_expect_nothing(s->probe, TR_MINUTES(19));
    assert_int_equal(heard(s, "slow woke"), TR_OK);
    heard(s, "p post_stop");
    assert_int_equal(ended(s, p), TR_STOPPED);
}

static void test_K5_K6_K8_a_parent_waits_for_its_slowest_child(void **state)
{
    (void)state;
    virtually(all_children_first);
}

/* Five children, each with a pre_stop of one minute, stop in one minute. */
static void slow_pre_stop(stage *s)
{
    tr_ref a = PLAY(s, "a", (), .stop_timeout = TR_MINUTES(10));
    for (int i = 0; i < 5; i++) {
        char name[16];
        snprintf(name, sizeof(name), "c%d", i);
        tr_ref c = CHILD(s, a, name, (.says = PRE_STOP, .sleepy = true),
                         .stop_timeout = TR_MINUTES(10));
        assert_int_equal(tr_started(s->sys, c, 0), TR_OK);
    }
    tr_nanos start = tr_sim_now(s->sim);
    tr_stop(s->sys, a);
    (void)joined(s, a);
    assert_true(tr_sim_now(s->sim) - start < TR_SECONDS(70));
    for (int i = 0; i < 5; i++) {
        (void)tr_expect(s->probe, patience(s), Note);
    }
}

static void test_L27_K4_K11_children_stop_in_parallel(void **state)
{
    (void)state;
    virtually(slow_pre_stop);
}

static void siblings_stay(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    tr_ref b = PLAY(s, "b", ());
    tr_stop(s->sys, a);
    (void)joined(s, a);
    (void)gotten(s, b);
    // The program cannot stop guardians.
    tr_stop(s->sys, tr_lookup(s->sys, "/user"));
    tr_stop(s->sys, tr_lookup(s->sys, "/"));
    tr_kill(s->sys, tr_lookup(s->sys, "/system"));
    static const char *const guardians[] = {"/", "/user", "/system", "/temp",
                                            "/deadLetters"};
    tr_probe_subscribe(s->probe, tr_dead_letter);
    for (size_t i = 0; i < sizeof(guardians) / sizeof(guardians[0]); i++) {
        tr_ref ref = tr_lookup(s->sys, guardians[i]);
        tr_poison(s->sys, ref);
        // A dead letter shows that the poison was handled.
        tr_tell(s->sys, ref, Strange);
        (void)tr_expect(s->probe, patience(s), tr_dead_letter);
        assert_int_equal(tr_state_of(s->sys, ref), TR_STATE_RUNNING);
    }
    (void)gotten(s, b);
    assert_int_equal(tr_ref_err(PLAY(s, "c", ())), TR_OK);
}

static void test_K14_S8_X40_GD13_only_that_child_stops(void **state)
{
    (void)state;
    everywhere(siblings_stay);
}

static void deep(stage *s)
{
    enum { DEEP = 150 };
    size_t before = tr_actors(s->sys, NULL, 0);
    tr_ref top = PLAY(s, "top", ());
    tr_ref at = top;
    for (int i = 0; i < DEEP; i++) {
        at = CHILD(s, at, "x", ());
    }
    // A failure restarts neither parents nor siblings nor children.
    tr_ref middle = CHILD(s, top, "middle", ());
    tr_ref below = CHILD(s, middle, "below", ());
    tr_ref beside = CHILD(s, middle, "beside", ());
    // The registry knows all of them.
    assert_int_equal(tr_actors(s->sys, NULL, 0), before + 1 + DEEP + 3);
    tr_actor_info info = {.size = sizeof(info)};
    assert_int_equal(tr_actor_info_of(s->sys, at, &info), TR_OK);
    assert_string_equal(info.kind, "player");
    tr_tell(s->sys, at, Fail);
    assert_int_equal(gotten(s, at).incarnation, 2);
    tr_tell(s->sys, below, Fail);
    assert_int_equal(gotten(s, below).incarnation, 2);
    assert_int_equal(gotten(s, beside).incarnation, 1);
    assert_int_equal(gotten(s, middle).incarnation, 1);
    assert_int_equal(gotten(s, top).incarnation, 1);
    watch_end(s, at);
    watch_end(s, top);
    tr_stop(s->sys, top);
    assert_int_equal(ended(s, at), TR_STOPPED);  // the deepest ends first
    assert_int_equal(ended(s, top), TR_STOPPED);
}

static void test_C13_C19_a_deep_tree_ends_from_below(void **state)
{
    (void)state;
    everywhere(deep);
}

/* ---- cost and memory ---- */

static uint64_t steps_to_stop(uint32_t children)
{
    static stage s;
    stage_open(&s, 3, NULL);
    tr_ref p = PLAY(&s, "p", ());
    tr_ref last = TR_NOBODY;
    for (uint32_t i = 0; i < children; i++) {
        last = CHILD(&s, p, NULL, ());
    }
    assert_int_equal(tr_started(s.sys, last, 0), TR_OK);
    uint64_t before = tr_sim_steps(s.sim);
    tr_stop(s.sys, p);
    (void)joined(&s, p);
    uint64_t steps = tr_sim_steps(s.sim) - before;
    stage_close(&s);
    return steps;
}

static void test_K12_the_cost_of_stopping_a_family_is_linear(void **state)
{
    (void)state;
    uint64_t small = steps_to_stop(100);
    uint64_t large = steps_to_stop(400);
    assert_true(large < 5 * small);
    assert_true(large > 400);  // at least one step for each child
}

static void memory_comes_back(stage *s)
{
    tr_metrics_snapshot before = {.size = sizeof(before)};
    tr_metrics_snapshot after = before;
    tr_metrics(s->sys, &before);
    tr_ref p = PLAY(s, "p", ());
    tr_ref q = PLAY(s, "q", ());
    tr_tell(s->sys, p, Watch, .ref = q);  // they watch each other
    tr_tell(s->sys, q, Watch, .ref = p);
    tr_ref c = CHILD(s, p, "c", ());
    tr_tell(s->sys, c, Watch, .ref = p);
    (void)gotten(s, c);
    tr_stop(s->sys, p);
    (void)joined(s, p);
    tr_stop(s->sys, q);
    (void)joined(s, q);
    do {
        tr_metrics(s->sys, &after);
    } while (s->sim == NULL && (after.actors != before.actors ||
                                after.ended != before.ended + 3));
    assert_int_equal(after.actors, before.actors);
    assert_int_equal(after.spawned - before.spawned, 3);
    assert_int_equal(after.ended - before.ended, 3);
}

static void test_K24_K25_RG3_TE11_an_ended_family_leaves_nothing_behind(
    void **state)
{
    (void)state;
    everywhere(memory_comes_back);
}

/* ---- a spawn that comes too late ---- */

/* Ends /user by an escalation, as a failing actor does. */
static void end_user(tr_sim *sim, tr_system *sys)
{
    tr_ref a = tr_spawn(sys, player, TR_INIT(player, .deaf = true),
                        .supervision = TR_SUPERVISE(.on_failure = TR_ESCALATE));
    tr_tell(sys, a, Fail);
    tr_sim_advance(sim, TR_MINUTES(1));
    assert_true(tr_ref_is_nobody(tr_lookup(sys, "/user")));
}

/* The step of a thread that has looked for the end too early. */
static tr_ref spawn_late(tr_system *sys, const char *name)
{
    tr_spawn_options o = {.size = sizeof(o), .name = name};
    tri_caller caller = tri_enter_system(sys, (tr_ref){0});
    tr_ref ref = tri_spawn_under(&caller, sys->user, &player, &o, 0);
    tri_leave(&caller);
    return ref;
}

static void test_SP15_no_spawn_from_outside_under_a_user_that_has_ended(
    void **state)
{
    tr_sim *sim;
    tr_system *sys;
    (void)state;
    TR_MUST(tr_sim_new(&sim, 1));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim), .log_level = 9));
    end_user(sim, sys);
    assert_int_equal(tr_ref_err(spawn_late(sys, "named")), TR_ESTOPPED);
    assert_int_equal(tr_ref_err(spawn_late(sys, NULL)), TR_ESTOPPED);
    // The cell may have another actor, or have an extension again.
    assert_non_null(tri_ext_of(sys->user));
    assert_int_equal(tri_map_count(&tri_ext_of(sys->user)->family.names), 0);
    assert_int_equal(tr_system_close(sys, TR_SECONDS(10)), TR_EUSER);
    tr_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_SP2_SP6_SP7_RG7_C13_children_are_known_at_once),
        cmocka_unit_test(test_K1_K6_X1_X16_children_end_between_the_two_hooks),
        cmocka_unit_test(test_K5_K6_K8_a_parent_waits_for_its_slowest_child),
        cmocka_unit_test(test_L27_K4_K11_children_stop_in_parallel),
        cmocka_unit_test(test_K14_S8_X40_GD13_only_that_child_stops),
        cmocka_unit_test(test_C13_C19_a_deep_tree_ends_from_below),
        cmocka_unit_test(test_K12_the_cost_of_stopping_a_family_is_linear),
        cmocka_unit_test(
            test_K24_K25_RG3_TE11_an_ended_family_leaves_nothing_behind),
        cmocka_unit_test(
            test_SP15_no_spawn_from_outside_under_a_user_that_has_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * supervise_test.c - failures and what is decided about them: the directives,
 * deciders and policies. Covers TE10.
 */
#include "support/fixture.h"

#include "support/core.h"

/* ---- the four directives ---- */

static void restarts(stage *s)
{
    enum { SAYS = ALL_HOOKS };
    tr_ref a = PLAY(s, "a", (.says = SAYS, .count = 5));
    heard(s, "a pre_start");
    heard(s, "a post_start");
    tr_tell(s->sys, a, Add, .number = 10);
    tr_tell(s->sys, a, Fail, .err = TR_EUSER + 1);
    assert_int_equal(heard(s, "a pre_restart"), TR_EUSER + 1);
    assert_int_equal(heard(s, "a post_stop"), TR_RESTARTING);
    assert_int_equal(heard(s, "a pre_start"), 5);  // the state of TR_INIT
    heard(s, "a post_start");
    assert_int_equal(heard(s, "a post_restart"), 2);
    Count now = gotten(s, a);
    assert_int_equal(now.number, 5);
    assert_int_equal(now.incarnation, 2);
    quiet(s);
}

static void test_S3_SV1_SV4_SV11_X4_X51_restart_runs_these_hooks(void **state)
{
    (void)state;
    everywhere(restarts);
}

static void restart_is_no_end(stage *s)
{
    tr_ref w = PLAY(s, "w", ());
    tr_ref a = PLAY(s, "a", (.says = POST_RESTART));
    tr_tell(s->sys, w, Watch, .ref = a);
    (void)gotten(s, w);
    watch_end(s, a);
    tr_tell(s->sys, a, Panic);
    heard(s, "a post_restart");
    // The same ref, the same name, and no notice.
    assert_int_equal(gotten(s, a).incarnation, 2);
    assert_true(tr_ref_eq(tr_lookup(s->sys, "/user/a"), a));
    quiet(s);
    tr_stop(s->sys, a);
    heard(s, "w terminated");  // the watch has survived the restart
    assert_int_equal(ended(s, a), TR_STOPPED);
}

static void test_X4_a_restart_is_not_an_end(void **state)
{
    (void)state;
    everywhere(restart_is_no_end);
}

#define STOPS TR_SUPERVISE(.on_failure = TR_STOP)

static void stops(stage *s)
{
    tr_ref a = PLAY(s, "a", (.says = ALL_HOOKS & ~(PRE_START | POST_START)),
                    .supervision = STOPS);
    watch_end(s, a);
    tr_tell(s->sys, a, Fail);
    tr_tell(s->sys, a, Say, .text = "never");
    heard(s, "a pre_stop");
    assert_int_equal(heard(s, "a post_stop"), TR_FAILED);
    assert_int_equal(ended(s, a), TR_FAILED);
    quiet(s);
}

static void test_SV4_SV17_stop_runs_the_hooks_of_an_end(void **state)
{
    (void)state;
    everywhere(stops);
}

#define RESUMES TR_SUPERVISE(.on_failure = TR_RESUME)

static void resumes(stage *s)
{
    tr_probe_subscribe(s->probe, tr_dead_letter);
    tr_ref a = PLAY(s, "a", (.says = ALL_HOOKS & ~(PRE_START | POST_START)),
                    .supervision = RESUMES);
    tr_tell(s->sys, a, Add, .number = 10);
    tr_tell(s->sys, a, Fail);
    tr_tell(s->sys, a, Say, .text = "next");
    // Only the failed message is lost, as a dead letter.
    const tr_dead_letter *dead =
        tr_expect(s->probe, patience(s), tr_dead_letter);
    assert_string_equal(dead->type, "Fail");
    assert_int_equal(dead->reason, TR_DEAD_FAILED);
    heard(s, "a next");
    Count now = gotten(s, a);
    assert_int_equal(now.number, 10);
    assert_int_equal(now.incarnation, 1);
    quiet(s);
}

static void test_SV4_SV16_SV22_X24_DL7_resume_keeps_the_state(void **state)
{
    (void)state;
    everywhere(resumes);
}

#define ESCALATES TR_SUPERVISE(.on_failure = TR_ESCALATE)

static void escalates(stage *s)
{
    tr_ref p = PLAY(s, "p", (.says = PRE_RESTART | POST_RESTART));
    tr_ref a = CHILD(s, p, "a", (.says = POST_STOP), .supervision = ESCALATES);
    watch_end(s, a);
    tr_tell(s->sys, a, Fail, .err = TR_EUSER + 7);
    // The parent fails with the error of its child.
    assert_int_equal(heard(s, "p pre_restart"), TR_EUSER + 7);
    heard(s, "a post_stop");
    assert_int_equal(ended(s, a), TR_STOPPED);
    assert_int_equal(heard(s, "p post_restart"), 2);
    assert_true(stage_logged(s, "child /user/p/a failed: told to fail"));
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(s->sys, &m);
    assert_int_equal(m.escalations, 1);
}

static void test_SV4_SV18_escalate_is_the_parents_failure(void **state)
{
    (void)state;
    everywhere(escalates);
}

static void escalated_and_resumed(stage *s)
{
    tr_ref g = PLAY(s, "g", ());
    tr_ref p = CHILD(s, g, "p", (.count = 1), .supervision = RESUMES);
    tr_ref a = CHILD(s, p, "a", (), .supervision = ESCALATES);
    tr_tell(s->sys, a, Add, .number = 2);
    tr_tell(s->sys, a, Fail);
    assert_int_equal(gotten(s, a).number, 2);  // it resumes with its parent
    assert_int_equal(gotten(s, p).number, 1);
    assert_int_equal(gotten(s, a).incarnation, 1);
}

static void escalated_and_kept(stage *s)
{
    tr_ref g = PLAY(s, "g", ());
    tr_ref p = CHILD(s, g, "p", (.says = POST_RESTART),
                     .supervision = TR_SUPERVISE(.keep_children = true));
    tr_ref a =
        CHILD(s, p, "a", (.says = POST_RESTART), .supervision = ESCALATES);
    tr_ref b = CHILD(s, p, "b", ());
    tr_tell(s->sys, a, Fail);
    // Parent and child restart, in either order; the other child does not.
    (void)tr_expect(s->probe, patience(s), Note);
    (void)tr_expect(s->probe, patience(s), Note);
    assert_int_equal(gotten(s, a).incarnation, 2);
    assert_int_equal(gotten(s, p).incarnation, 2);
    assert_int_equal(gotten(s, b).incarnation, 1);
}

static void test_SV18_a_child_that_escalated_follows_its_parent(void **state)
{
    (void)state;
    everywhere(escalated_and_resumed);
    everywhere(escalated_and_kept);
}

/* ---- what the supervisor is told ---- */

TR_STATE(Ledger, (int64_t, cents));

static tr_err ledger_fails(tr_ctx *ctx, Ledger *self, const Say *m)
{
    self->cents = 42;
    return tr_fail(ctx, TR_EUSER + 9, "%s is not right", m->text);
}

TR_ACTOR(ledger, Ledger, TR_ON(Say, ledger_fails));

typedef struct seen {
    tr_ref child;
    uint64_t incarnation;
    tr_err err;
    tr_phase phase;
    char text[64], site[64], path[64], message[128], state[128];
    int times;
} seen;

typedef struct Judge {
    seen *sees;
} Judge;

static tr_directive judge_decides(const Judge *self, const tr_failure *f)
{
    seen *it = self->sees;
    it->child = f->child;
    it->incarnation = f->incarnation;
    it->err = f->err;
    it->phase = f->phase;
    snprintf(it->text, sizeof(it->text), "%s", f->text);
    snprintf(it->site, sizeof(it->site), "%s", f->site);
    snprintf(it->path, sizeof(it->path), "%s", f->path);
    snprintf(it->message, sizeof(it->message), "%s",
             f->message != NULL ? f->message : "-");
    snprintf(it->state, sizeof(it->state), "%s",
             f->state != NULL ? f->state : "-");
    return ++it->times == 1 ? TR_RESTART : TR_STOP;
}

static tr_err judge_bears(tr_ctx *ctx, Judge *self, const Bear *m)
{
    (void)self;
    return tr_reply(ctx, m, .ref = tr_spawn(ctx, ledger, .name = "ledger"));
}

TR_ACTOR(judge, Judge, TR_HOOK(decide, judge_decides),
         TR_ON(Bear, judge_bears));

static void failure_is_shown(stage *s)
{
    static seen it;
    memset(&it, 0, sizeof(it));
    tr_ref j =
        tr_spawn(s->sys, judge, .name = "j", TR_INIT(judge, .sees = &it));
    tr_ref l = bear(s, j, NULL);
    watch_end(s, l);
    tr_tell(s->sys, l, Say, .text = "sum");
    tr_tell(s->sys, l, Say, .text = "total");
    assert_int_equal(ended(s, l), TR_FAILED);
    assert_int_equal(it.times, 2);
    assert_true(tr_ref_eq(it.child, l));
    assert_int_equal(it.incarnation, 2);
    assert_int_equal(it.err, TR_EUSER + 9);
    assert_int_equal(it.phase, TR_IN_HANDLER);
    assert_string_equal(it.text, "total is not right");
    assert_non_null(strstr(it.site, "supervise_test.c:"));
    assert_string_equal(it.path, "/user/j/ledger");
    assert_non_null(strstr(it.message, "Say"));
    assert_non_null(strstr(it.message, "total"));
    assert_non_null(strstr(it.state, "42"));
}

static void test_SV2_S6_X22_the_supervisor_sees_the_failure(void **state)
{
    (void)state;
    everywhere(failure_is_shown);
}

static void decider_wins(stage *s)
{
    tr_ref p = PLAY(s, "p", (.decision = TR_RESUME));
    tr_ref a = CHILD(s, p, "a", (), .supervision = STOPS);
    tr_tell(s->sys, a, Add, .number = 3);
    tr_tell(s->sys, a, Fail);
    assert_int_equal(gotten(s, a).number, 3);
    // With TR_BY_POLICY the policy decides.
    tr_ref q = PLAY(s, "q", ());
    tr_ref b = CHILD(s, q, "b", (), .supervision = STOPS);
    watch_end(s, b);
    tr_tell(s->sys, b, Fail);
    assert_int_equal(ended(s, b), TR_FAILED);
}

static void test_SV4_SV19_a_decider_goes_before_the_policy(void **state)
{
    (void)state;
    everywhere(decider_wins);
}

static void events_of_supervision(stage *s)
{
    tr_probe_subscribe(s->probe, tr_supervision_event);
    tr_ref a = PLAY(s, "a", (), .supervision = STOPS);
    tr_tell(s->sys, a, Fail, .err = TR_EUSER);
    const tr_supervision_event *e =
        tr_expect(s->probe, patience(s), tr_supervision_event);
    assert_true(tr_ref_eq(e->child, a));
    assert_int_equal(e->err, TR_EUSER);
    assert_int_equal(e->directive, TR_STOP);
    assert_string_equal(e->text, "told to fail");
}

static void test_SV2_EV2_decisions_are_events(void **state)
{
    (void)state;
    everywhere(events_of_supervision);
}

/* ---- policies ---- */

static void test_SV6_X43_the_defaults_of_a_policy(void **state)
{
    (void)state;
    tr_supervision p = {.size = sizeof(p)};
    assert_null(tri_supervision_fill(&p));
    assert_int_equal(p.on_failure, TR_RESTART);
    assert_int_equal(p.scope, TR_ONE_FOR_ONE);
    assert_int_equal(p.max_restarts, 3);
    assert_int_equal(p.within, TR_SECONDS(1));
    assert_int_equal(p.backoff_min, TR_MS(10));
    assert_int_equal(p.backoff_max, TR_SECONDS(1));
    assert_true(p.backoff_factor == 2.0);
    assert_true(p.jitter == 0.0);
    assert_int_equal(p.on_limit, TR_STOP);
    assert_false(p.keep_children);
    assert_false(p.clear_mailbox);
}

static void test_SV27_a_policy_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static const tr_supervision bad[] = {
        {.within = -1},           {.backoff_min = -1},     {.backoff_max = -1},
        {.backoff_factor = -1},   {.jitter = -0.1},        {.jitter = 1.1},
        {.on_failure = 77},       {.on_limit = 77},        {.scope = 77},
        {.on_limit = TR_RESTART}, {.on_limit = TR_RESUME},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tr_supervision p = bad[i];
        p.size = sizeof(p);
        tr_supervision copy = p;
        assert_non_null(tri_supervision_fill(&copy));
        tr_system *sys;
        assert_int_equal(tr_system_open(&sys, .workers = 1, .supervision = &p),
                         TR_EINVAL);
        assert_null(sys);
        assert_int_equal(
            tr_system_open(&sys, .workers = 1, .user_supervision = &p),
            TR_EINVAL);
        assert_null(sys);
        static stage s;
        stage_open(&s, 1, NULL);
        assert_int_equal(tr_ref_err(PLAY(&s, "a", (), .supervision = &p)),
                         TR_EINVAL);
        stage_close(&s);
    }
}

static void the_systems_policy(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    watch_end(s, a);
    tr_tell(s->sys, a, Fail);
    assert_int_equal(ended(s, a), TR_FAILED);
    // A policy of the actor overrides that of the system.
    tr_ref b = PLAY(s, "b", (), .supervision = RESUMES);
    tr_tell(s->sys, b, Fail);
    assert_int_equal(gotten(s, b).incarnation, 1);
    // A child inherits the policy of its parent if it wants to.
    tr_ref c = CHILD(s, b, "c", (), .inherit_supervision = true);
    tr_tell(s->sys, c, Fail);
    assert_int_equal(gotten(s, c).incarnation, 1);
    tr_ref d = CHILD(s, b, "d", ());
    watch_end(s, d);
    tr_tell(s->sys, d, Fail);
    assert_int_equal(ended(s, d), TR_FAILED);
}

static void test_SV19_SV20_SP11_SP14_own_inherited_and_system_policies(
    void **state)
{
    (void)state;
    with_options(
        TR_OPTIONS(tr_system_options, .workers = 2, .supervision = STOPS),
        the_systems_policy);
}

/* ---- what counts as a failure ---- */

static void panics_count(stage *s)
{
    tr_ref a = PLAY(s, "a", (), .joinable = true, .supervision = STOPS);
    tr_tell(s->sys, a, Panic);
    tr_result r = joined(s, a);
    assert_int_equal(r.reason, TR_FAILED);
    assert_int_equal(r.err, TR_EPANIC);
    assert_string_equal(r.text, "told to panic");
}

static void test_SV1_SV30_a_panic_is_a_failure(void **state)
{
    (void)state;
    everywhere(panics_count);
}

static void failed_requests(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    tr_tell(s->sys, a, Strange);  // an unhandled message is no failure
    assert_int_equal(gotten(s, a).incarnation, 1);
    tr_ref b = CHILD(s, a, "b", (.fails = TERMINATED));
    tr_tell(s->sys, b, Watch, .ref = TR_NOBODY);
    heard(s, "b terminated");
    wait_incarnation(s, b, 2);
}

static void test_DW15_SV1_a_failing_terminated_handler_is_a_failure(
    void **state)
{
    (void)state;
    everywhere(failed_requests);
}

static void orphan_stops(stage *s)
{
    tri_caller who = tri_enter((tr_from){.sys = s->sys});
    tr_ref a = tri_spawn_under(
        &who, NULL, &player,
        TR_OPTIONS(tr_spawn_options, AS_(s, (.says = POST_STOP))), 0);
    tri_leave(&who);
    watch_end(s, a);
    tr_tell(s->sys, a, Fail);
    assert_int_equal(ended(s, a), TR_FAILED);
    (void)tr_expect(s->probe, patience(s), Note);
}

static void test_SV3_an_actor_without_a_parent_stops(void **state)
{
    (void)state;
    everywhere(orphan_stops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_S3_SV1_SV4_SV11_X4_X51_restart_runs_these_hooks),
        cmocka_unit_test(test_X4_a_restart_is_not_an_end),
        cmocka_unit_test(test_SV4_SV17_stop_runs_the_hooks_of_an_end),
        cmocka_unit_test(test_SV4_SV16_SV22_X24_DL7_resume_keeps_the_state),
        cmocka_unit_test(test_SV4_SV18_escalate_is_the_parents_failure),
        cmocka_unit_test(test_SV18_a_child_that_escalated_follows_its_parent),
        cmocka_unit_test(test_SV2_S6_X22_the_supervisor_sees_the_failure),
        cmocka_unit_test(test_SV4_SV19_a_decider_goes_before_the_policy),
        cmocka_unit_test(test_SV2_EV2_decisions_are_events),
        cmocka_unit_test(test_SV6_X43_the_defaults_of_a_policy),
        cmocka_unit_test(test_SV27_a_policy_that_makes_no_sense_is_refused),
        cmocka_unit_test(
            test_SV19_SV20_SP11_SP14_own_inherited_and_system_policies),
        cmocka_unit_test(test_SV1_SV30_a_panic_is_a_failure),
        cmocka_unit_test(
            test_DW15_SV1_a_failing_terminated_handler_is_a_failure),
        cmocka_unit_test(test_SV3_an_actor_without_a_parent_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

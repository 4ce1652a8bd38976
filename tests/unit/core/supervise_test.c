/*
 * supervise_test.c - failures and what becomes of them (SV1..SV22, SV30,
 * X3, X20..X24, X44, X45). Covers TE10.
 */
#include "support/fixture.h"

#include "core/lifecycle.h"

#define STOPS    TR_SUPERVISE(.on_failure = TR_STOP)
#define RESUMES  TR_SUPERVISE(.on_failure = TR_RESUME)
#define ESCALATES TR_SUPERVISE(.on_failure = TR_ESCALATE)

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
    assert_int_equal(heard(s, "a pre_start"), 5);  // X51: the first state
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
    mourn(s, a);
    tr_tell(s->sys, a, Panic);
    heard(s, "a post_restart");
    // The same ref, the same name, and no watcher was told.
    assert_int_equal(gotten(s, a).incarnation, 2);
    assert_true(tr_ref_eq(tr_lookup(s->sys, "/user/a"), a));
    quiet(s);
    tr_stop(s->sys, a);
    heard(s, "w terminated");  // who watches it is untouched
    assert_int_equal(ended(s, a), TR_STOPPED);
}

static void test_X4_a_restart_is_not_an_end(void **state)
{
    (void)state;
    everywhere(restart_is_no_end);
}

static void stops(stage *s)
{
    tr_ref a = PLAY(s, "a", (.says = ALL_HOOKS & ~(PRE_START | POST_START)),
                    .supervision = STOPS);
    mourn(s, a);
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

static void resumes(stage *s)
{
    tr_probe_subscribe(s->probe, tr_dead_letter);
    tr_ref a = PLAY(s, "a", (.says = ALL_HOOKS & ~(PRE_START | POST_START)),
                    .supervision = RESUMES);
    tr_tell(s->sys, a, Add, .number = 10);
    tr_tell(s->sys, a, Fail);
    tr_tell(s->sys, a, Say, .text = "next");
    // The failed message is the only one that is lost, and not silently.
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

static void escalates(stage *s)
{
    tr_ref p = PLAY(s, "p", (.says = PRE_RESTART | POST_RESTART));
    tr_ref a = CHILD(s, p, "a", (.says = POST_STOP),
                     .supervision = ESCALATES);
    mourn(s, a);
    tr_tell(s->sys, a, Fail, .err = TR_EUSER + 7);
    // The parent fails with what its child failed with.
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
    assert_int_equal(gotten(s, a).number, 2);  // it goes on, as its parent
    assert_int_equal(gotten(s, p).number, 1);
    assert_int_equal(gotten(s, a).incarnation, 1);
}

static void escalated_and_kept(stage *s)
{
    tr_ref g = PLAY(s, "g", ());
    tr_ref p = CHILD(s, g, "p", (.says = POST_RESTART),
                     .supervision = TR_SUPERVISE(.keep_children = true));
    tr_ref a = CHILD(s, p, "a", (.says = POST_RESTART),
                     .supervision = ESCALATES);
    tr_ref b = CHILD(s, p, "b", ());
    tr_tell(s->sys, a, Fail);
    // Both begin anew, in either order; the other child does not.
    (void)tr_expect(s->probe, patience(s), Note);
    (void)tr_expect(s->probe, patience(s), Note);
    assert_int_equal(gotten(s, a).incarnation, 2);
    assert_int_equal(gotten(s, p).incarnation, 2);
    assert_int_equal(gotten(s, b).incarnation, 1);
}

static void test_SV18_who_escalated_shares_its_parents_fate(void **state)
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
    tr_ref j = tr_spawn(s->sys, judge, .name = "j",
                        TR_INIT(judge, .sees = &it));
    tr_ref l = bear(s, j, NULL);
    mourn(s, l);
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
    // TR_BY_POLICY leaves it to the policy.
    tr_ref q = PLAY(s, "q", ());
    tr_ref b = CHILD(s, q, "b", (), .supervision = STOPS);
    mourn(s, b);
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
    assert_true(tri_supervision_fill(&p));
    assert_int_equal(p.on_failure, TR_RESTART);
    assert_int_equal(p.scope, TR_ONE_FOR_ONE);
    assert_int_equal(p.max_restarts, 3);
    assert_int_equal(p.within, TR_SECONDS(1));
    assert_int_equal(p.backoff_min, TR_MS(10));
    assert_int_equal(p.backoff_max, TR_SECONDS(1));
    assert_true(p.backoff_factor == 2.0);
    assert_true(p.jitter == 0.0);
    assert_int_equal(p.on_limit, TR_ESCALATE);
    assert_false(p.keep_children);
    assert_false(p.clear_mailbox);
}

static void test_SV27_a_policy_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static const tr_supervision bad[] = {
        {.within = -1},        {.backoff_min = -1},
        {.backoff_max = -1},   {.backoff_factor = -1},
        {.jitter = -0.1},      {.jitter = 1.1},
        {.on_failure = 77},    {.on_limit = 77},
        {.scope = 77},         {.on_limit = TR_RESTART},
        {.on_limit = TR_RESUME},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tr_supervision p = bad[i];
        p.size = sizeof(p);
        tr_supervision copy = p;
        assert_false(tri_supervision_fill(&copy));
        tr_system *sys;
        assert_int_equal(tr_system_open(&sys, .workers = 1,
                                        .supervision = &p),
                         TR_EINVAL);
        assert_null(sys);
        assert_int_equal(tr_system_open(&sys, .workers = 1,
                                        .user_supervision = &p),
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
    mourn(s, a);
    tr_tell(s->sys, a, Fail);
    assert_int_equal(ended(s, a), TR_FAILED);
    // Its own goes before.
    tr_ref b = PLAY(s, "b", (), .supervision = RESUMES);
    tr_tell(s->sys, b, Fail);
    assert_int_equal(gotten(s, b).incarnation, 1);
    // SV20: inherited, if wanted.
    tr_ref c = CHILD(s, b, "c", (), .inherit_supervision = true);
    tr_tell(s->sys, c, Fail);
    assert_int_equal(gotten(s, c).incarnation, 1);
    tr_ref d = CHILD(s, b, "d", ());
    mourn(s, d);
    tr_tell(s->sys, d, Fail);
    assert_int_equal(ended(s, d), TR_FAILED);
}

static void test_SV19_SV20_SP11_SP14_whose_policy_it_is(void **state)
{
    (void)state;
    with_options(TR_OPTIONS(tr_system_options, .workers = 2,
                            .supervision = STOPS),
                 the_systems_policy);
}

/* ---- backoff ---- */

/* The time from the failure to the next start. */
static tr_nanos restart_time(stage *s, tr_ref a)
{
    tr_tell(s->sys, a, Fail);
    heard(s, "a post_stop");
    tr_nanos begin = tr_sim_now(s->sim);
    heard(s, "a pre_start");
    return tr_sim_now(s->sim) - begin;
}

static bool about(tr_nanos span, tr_nanos wanted)
{
    return span >= wanted && span < wanted + TR_MS(1);
}

static void backoff_grows(stage *s)
{
    tr_ref a = PLAY(s, "a", (.says = PRE_START | POST_STOP),
                    .supervision = TR_SUPERVISE(
                        .max_restarts = 100, .within = TR_MINUTES(60),
                        .backoff_min = TR_MS(100), .backoff_factor = 3.0,
                        .backoff_max = TR_MS(1000)));
    heard(s, "a pre_start");
    assert_true(about(restart_time(s, a), TR_MS(100)));
    assert_true(about(restart_time(s, a), TR_MS(300)));
    assert_true(about(restart_time(s, a), TR_MS(900)));
    assert_true(about(restart_time(s, a), TR_MS(1000)));
    assert_true(about(restart_time(s, a), TR_MS(1000)));
}

static void test_SV7_X23_backoff_grows_to_its_maximum(void **state)
{
    (void)state;
    virtually(backoff_grows);
}

static void backoff_jitters(stage *s)
{
    tr_ref a = PLAY(s, "a", (.says = PRE_START | POST_STOP),
                    .supervision = TR_SUPERVISE(
                        .max_restarts = 100, .within = TR_MINUTES(60),
                        .backoff_min = TR_SECONDS(1),
                        .backoff_max = TR_SECONDS(1), .jitter = 0.5));
    heard(s, "a pre_start");
    tr_nanos least = TR_FOREVER, most = 0;
    for (int i = 0; i < 20; i++) {
        tr_nanos span = restart_time(s, a);
        assert_true(span >= TR_MS(500) && span < TR_MS(1501));
        least = span < least ? span : least;
        most = span > most ? span : most;
    }
    assert_true(least < TR_MS(1000) && most > TR_MS(1000));
}

static void test_SV8_backoff_is_spread_by_the_jitter(void **state)
{
    (void)state;
    virtually(backoff_jitters);
}

static void parent_is_free(stage *s)
{
    tr_ref p = PLAY(s, "p", ());
    tr_ref a = CHILD(s, p, "a", (),
                     .supervision = TR_SUPERVISE(
                         .backoff_min = TR_MINUTES(1),
                         .backoff_max = TR_MINUTES(1)));
    tr_tell(s->sys, a, Fail);
    tr_tell(s->sys, a, Add, .number = 5);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_RESTARTING);
    tr_nanos begin = tr_sim_now(s->sim);
    (void)gotten(s, p);
    assert_true(tr_sim_now(s->sim) - begin < TR_MS(1));
    assert_int_equal(gotten(s, a).number, 5);  // the mailbox was kept
}

static void test_X23_the_parent_does_not_wait_for_a_backoff(void **state)
{
    (void)state;
    virtually(parent_is_free);
}

/* ---- limits ---- */

#define TWICE(limit)                                                           \
    TR_SUPERVISE(.max_restarts = 2, .within = TR_SECONDS(10),                  \
                 .backoff_min = 1, .backoff_max = 1, .on_limit = limit)

static void fail_and_wait(stage *s, tr_ref ref, uint32_t incarnation)
{
    tr_tell(s->sys, ref, Fail);
    assert_int_equal(gotten(s, ref).incarnation, incarnation);
}

static void limit_in_window(stage *s)
{
    tr_ref p = PLAY(s, "p", ());
    tr_ref a = CHILD(s, p, "a", (), .supervision = TWICE(TR_STOP));
    fail_and_wait(s, a, 2);
    fail_and_wait(s, a, 3);
    tr_sim_advance(s->sim, TR_SECONDS(11));
    fail_and_wait(s, a, 4);  // SV9: a new window
    fail_and_wait(s, a, 5);
    mourn(s, a);
    tr_tell(s->sys, a, Fail);
    assert_int_equal(ended(s, a), TR_FAILED);
    assert_int_equal(gotten(s, p).incarnation, 1);  // on_limit = TR_STOP
}

static void test_SV9_X20_restarts_are_counted_in_a_window(void **state)
{
    (void)state;
    virtually(limit_in_window);
}

static void limit_escalates(stage *s)
{
    tr_ref p = PLAY(s, "p", (.says = PRE_RESTART));
    tr_ref a = CHILD(s, p, "a", (.says = POST_STOP), .supervision =
                     TWICE(TR_ESCALATE));
    tr_tell(s->sys, a, Fail);
    heard(s, "a post_stop");
    tr_tell(s->sys, a, Fail);
    heard(s, "a post_stop");
    mourn(s, a);
    tr_tell(s->sys, a, Fail, .err = TR_EUSER + 3);
    // X20: the child is stopped and the parent has failed.
    bool stopped = false, told = false;
    for (int i = 0; i < 2; i++) {
        const Note *n = tr_expect(s->probe, patience(s), Note);
        stopped |= strcmp(n->text, "a post_stop") == 0;
        told |= strcmp(n->text, "p pre_restart") == 0 &&
                n->number == TR_EUSER + 3;
    }
    assert_true(stopped && told);
    tr_reason reason = ended(s, a);
    assert_true(reason == TR_FAILED || reason == TR_STOPPED);
    assert_int_equal(gotten(s, p).incarnation, 2);
}

/* A parent that goes on does not take the child along: it has ended. */
static void limit_stops(stage *s)
{
    tr_ref p = PLAY(s, "p", (), .supervision = RESUMES);
    tr_ref a = CHILD(s, p, "a", (.says = POST_STOP), .supervision =
                     TWICE(TR_ESCALATE));
    mourn(s, a);
    for (int i = 0; i < 3; i++) {
        tr_tell(s->sys, a, Fail);
        heard(s, "a post_stop");
    }
    assert_int_equal(ended(s, a), TR_FAILED);
    assert_int_equal(gotten(s, p).incarnation, 1);
}

static void test_SV10_X20_beyond_the_limit_stop_and_escalate(void **state)
{
    (void)state;
    everywhere(limit_stops);
    everywhere(limit_escalates);
}

static void each_child_counts(stage *s)
{
    tr_ref p = PLAY(s, "p", ());
    tr_ref a = CHILD(s, p, "a", (), .supervision = TWICE(TR_STOP));
    tr_ref b = CHILD(s, p, "b", (), .supervision = TWICE(TR_STOP));
    for (uint32_t i = 2; i <= 3; i++) {
        fail_and_wait(s, a, i);
        fail_and_wait(s, b, i);
    }
    mourn(s, b);
    tr_tell(s->sys, b, Fail);
    assert_int_equal(ended(s, b), TR_FAILED);
    assert_int_equal(gotten(s, a).incarnation, 3);
}

static void group_counts(stage *s)
{
    const tr_supervision *policy =
        TR_SUPERVISE(.scope = TR_ALL_FOR_ONE, .max_restarts = 2,
                     .within = TR_SECONDS(10), .backoff_min = 1,
                     .backoff_max = 1, .on_limit = TR_STOP);
    tr_ref p = PLAY(s, "p", (), .supervision = TWICE(TR_STOP));
    tr_ref a = CHILD(s, p, "a", (), .supervision = policy);
    tr_ref b = CHILD(s, p, "b", (), .supervision = policy);
    assert_int_equal(tr_started(s->sys, b, 0), TR_OK);
    fail_and_wait(s, a, 2);
    while (gotten(s, b).incarnation != 2) {
    }
    fail_and_wait(s, b, 3);
    while (gotten(s, a).incarnation != 3) {
    }
    mourn(s, a);
    mourn(s, b);
    tr_tell(s->sys, a, Fail);  // the third of the group
    (void)tr_expect(s->deaths, patience(s), tr_terminated);
    (void)tr_expect(s->deaths, patience(s), tr_terminated);
    // The group's count is not the parent's own.
    fail_and_wait(s, p, 2);
    fail_and_wait(s, p, 3);
}

static void test_SV21_X21_who_counts_the_restarts(void **state)
{
    (void)state;
    everywhere(each_child_counts);
    everywhere(group_counts);
}

/* ---- scopes ---- */

#define SCOPE(which) TR_SUPERVISE(.scope = which, .backoff_min = 1,            \
                                  .backoff_max = 1)

static void wait_incarnation(stage *s, tr_ref ref, uint32_t wanted)
{
    while (gotten(s, ref).incarnation != wanted) {
        // Until the restart has come to it.
    }
}

static void one_for_one(stage *s)
{
    tr_ref p = PLAY(s, "p", ());
    tr_ref a = CHILD(s, p, "a", (), .supervision = SCOPE(TR_ONE_FOR_ONE));
    tr_ref b = CHILD(s, p, "b", (), .supervision = SCOPE(TR_ONE_FOR_ONE));
    tr_tell(s->sys, b, Fail);
    wait_incarnation(s, b, 2);
    quiet(s);
    assert_int_equal(gotten(s, a).incarnation, 1);
}

static void all_for_one(stage *s)
{
    tr_ref p = PLAY(s, "p", ());
    tr_ref a = CHILD(s, p, "a", (.says = PRE_RESTART),
                     .supervision = SCOPE(TR_ALL_FOR_ONE));
    tr_ref b = CHILD(s, p, "b", (), .supervision = SCOPE(TR_ALL_FOR_ONE));
    tr_ref c = CHILD(s, p, "c", (), .supervision = SCOPE(TR_ONE_FOR_ONE));
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    assert_int_equal(tr_started(s->sys, c, 0), TR_OK);
    tr_tell(s->sys, a, Add, .number = 1);
    tr_tell(s->sys, b, Fail);
    heard(s, "a pre_restart");
    wait_incarnation(s, a, 2);
    wait_incarnation(s, b, 2);
    wait_incarnation(s, c, 2);  // rule 16: the scope is the failed child's
    // And c alone restarts alone.
    tr_tell(s->sys, c, Fail);
    wait_incarnation(s, c, 3);
    quiet(s);
    assert_int_equal(gotten(s, a).incarnation, 2);
}

static void rest_for_one(stage *s)
{
    tr_ref p = PLAY(s, "p", ());
    tr_ref all[4];
    for (int i = 0; i < 4; i++) {
        const char *names[] = {"a", "b", "c", "d"};
        all[i] = CHILD(s, p, names[i], (),
                       .supervision = SCOPE(TR_REST_FOR_ONE));
        assert_int_equal(tr_started(s->sys, all[i], 0), TR_OK);
    }
    tr_tell(s->sys, all[1], Fail);
    wait_incarnation(s, all[1], 2);
    wait_incarnation(s, all[2], 2);
    wait_incarnation(s, all[3], 2);
    quiet(s);
    assert_int_equal(gotten(s, all[0]).incarnation, 1);
}

static void test_SV5_X44_the_scopes(void **state)
{
    (void)state;
    everywhere(one_for_one);
    everywhere(all_for_one);
    everywhere(rest_for_one);
}

/* ---- the order of a group's restart ---- */

static void group_order(stage *s)
{
    enum { SAYS = PRE_START | PRE_RESTART | POST_STOP | POST_RESTART };
    tr_ref p = PLAY(s, "p", ());
    const char *names[] = {"a", "b", "c"};
    tr_ref all[3];
    for (int i = 0; i < 3; i++) {
        all[i] = CHILD(s, p, names[i], (.says = SAYS),
                       .supervision = TR_SUPERVISE(
                           .scope = TR_ALL_FOR_ONE,
                           .backoff_min = TR_MS(50)));
        assert_int_equal(tr_started(s->sys, all[i], 0), TR_OK);
        char text[32];
        snprintf(text, sizeof(text), "%s pre_start", names[i]);
        heard(s, text);
    }
    tr_nanos start = s->sim != NULL ? tr_sim_now(s->sim) : 0;
    tr_tell(s->sys, all[1], Fail);
    heard(s, "c pre_restart");
    heard(s, "c post_stop");
    heard(s, "b pre_restart");
    heard(s, "b post_stop");
    heard(s, "a pre_restart");
    heard(s, "a post_stop");
    heard(s, "a pre_start");
    if (s->sim != NULL) {  // the delay is that of the group
        assert_true(tr_sim_now(s->sim) - start >= TR_MS(50));
    }
    heard(s, "a post_restart");
    heard(s, "b pre_start");
    heard(s, "b post_restart");
    heard(s, "c pre_start");
    heard(s, "c post_restart");
    if (s->sim != NULL) {  // and waited for once
        assert_true(tr_sim_now(s->sim) - start < TR_MS(100));
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gotten(s, all[i]).incarnation, 2);
    }
}

/* Some fail as well while they are suspended, one in its new start. */
static void group_troubles(stage *s)
{
    tr_ref p = PLAY(s, "p", (.says = 0));
    const tr_supervision *policy =
        TR_SUPERVISE(.scope = TR_ALL_FOR_ONE, .max_restarts = 20,
                     .backoff_min = TR_MS(1), .backoff_max = TR_MS(1));
    tr_ref all[4];
    for (int i = 0; i < 4; i++) {
        all[i] = CHILD(s, p, NULL, (), .supervision = policy);
    }
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 4; i++) {
            tr_tell(s->sys, all[i], Fail);
        }
    }
    mourn(s, all[2]);
    tr_stop(s->sys, all[2]);  // in the midst of it
    (void)ended(s, all[2]);
    for (int i = 0; i < 4; i++) {
        if (i != 2) {
            assert_true(gotten(s, all[i]).incarnation > 1);
        }
    }
}

static void test_X44_SV6_SV8_a_group_restarts_in_order_after_one_delay(
    void **state)
{
    (void)state;
    everywhere(group_order);
    everywhere(group_troubles);
}

static void scope_stop(stage *s)
{
    const tr_supervision *policy = TR_SUPERVISE(.scope = TR_ALL_FOR_ONE,
                                                .on_failure = TR_STOP);
    tr_ref p = PLAY(s, "p", ());
    tr_ref a = CHILD(s, p, "a", (), .supervision = policy);
    tr_ref b = CHILD(s, p, "b", (), .supervision = policy);
    mourn(s, a);
    tr_tell(s->sys, b, Fail);
    assert_int_equal(ended(s, a), TR_STOPPED);  // not its own failure
    mourn(s, b);
    tr_reason reason = ended(s, b);
    assert_true(reason == TR_FAILED || reason == TR_NO_SUCH_ACTOR);
}

static void scope_and_temporary(stage *s)
{
    tr_ref p = PLAY(s, "p", ());
    tr_ref a = CHILD(s, p, "a", (), .restart = TR_TEMPORARY);
    tr_ref b = CHILD(s, p, "b", (), .supervision = SCOPE(TR_ALL_FOR_ONE));
    mourn(s, a);
    tr_tell(s->sys, b, Fail);
    assert_int_equal(ended(s, a), TR_STOPPED);
    wait_incarnation(s, b, 2);
}

static void test_SV5_X44_siblings_that_may_not_restart_stop(void **state)
{
    (void)state;
    everywhere(scope_stop);
    everywhere(scope_and_temporary);
}

static void restart_types(stage *s)
{
    tr_ref a = PLAY(s, "a", (), .restart = TR_TEMPORARY);
    tr_ref b = PLAY(s, "b", (), .restart = TR_TRANSIENT);
    mourn(s, a);
    tr_tell(s->sys, a, Fail);
    assert_int_equal(ended(s, a), TR_FAILED);
    fail_and_wait(s, b, 2);
    mourn(s, b);
    tr_stop(s->sys, b);
    assert_int_equal(ended(s, b), TR_STOPPED);  // an end is final
    assert_int_equal(tr_ref_err(tr_spawn(s->sys, player, .restart = 9)),
                     TR_EINVAL);
}

static void test_SV4_temporary_actors_are_not_restarted(void **state)
{
    (void)state;
    everywhere(restart_types);
}

/* ---- what a restart keeps ---- */

static void mailbox_is_kept(stage *s)
{
    tr_probe_subscribe(s->probe, tr_dead_letter);
    tr_ref a = PLAY(s, "a", ());
    tr_tell(s->sys, a, Fail);
    tr_tell(s->sys, a, Say, .text = "one");
    tr_tell(s->sys, a, Say, .text = "two");
    const tr_dead_letter *dead =
        tr_expect(s->probe, patience(s), tr_dead_letter);
    assert_string_equal(dead->type, "Fail");
    assert_int_equal(dead->reason, TR_DEAD_FAILED);
    heard(s, "a one");
    heard(s, "a two");
    quiet(s);
}

static void test_X3_SV13_the_mailbox_is_kept(void **state)
{
    (void)state;
    everywhere(mailbox_is_kept);
}

static void mailbox_is_cleared(stage *s)
{
    tr_ref a = PLAY(s, "a", (.says = POST_RESTART),
                    .supervision = TR_SUPERVISE(.clear_mailbox = true,
                                                .backoff_min = 1));
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    tr_probe_subscribe(s->probe, tr_dead_letter);
    // All three are there before it looks: it is asleep meanwhile.
    tr_tell(s->sys, a, Nap, .span = TR_SECONDS(1));
    tr_sim_advance(s->sim, TR_MS(1));
    tr_tell(s->sys, a, Say, .text = "one");
    tr_tell_urgent(s->sys, a, 1, Say, .text = "two");
    tr_tell_urgent(s->sys, a, 7, Fail);  // the first of all
    heard(s, "a woke");
    int said = 0, failed = 0;
    for (int i = 0; i < 3; i++) {
        const tr_dead_letter *dead = tr_expect(s->probe, 0, tr_dead_letter);
        said += strcmp(dead->type, "Say") == 0 &&
                dead->reason == TR_DEAD_RESTARTED;
        failed += strcmp(dead->type, "Fail") == 0;
    }
    assert_true(said == 2 && failed == 1);
    heard(s, "a post_restart");
    quiet(s);
}

static void test_X3_SV13_the_mailbox_is_cleared_into_dead_letters(
    void **state)
{
    (void)state;
    virtually(mailbox_is_cleared);
}

typedef struct Sieve {
    tr_ref probe;
} Sieve;

static tr_err sieve_say(tr_ctx *ctx, Sieve *self, const Say *m)
{
    tr_tell(ctx, self->probe, Note, .text = m->text,
            .number = tr_incarnation(ctx));
    return strcmp(m->text, "bad") == 0 && tr_incarnation(ctx) <= 2
               ? TR_EIO
               : TR_OK;
}

TR_ACTOR(sieve, Sieve, TR_ON(Say, sieve_say));

static void message_is_retried(stage *s)
{
    tr_ref a = tr_spawn(s->sys, sieve, TR_INIT(sieve, .probe = s->to),
                        .supervision = TR_SUPERVISE(.retry_message = true));
    tr_tell(s->sys, a, Say, .text = "bad");
    tr_tell(s->sys, a, Say, .text = "next");
    assert_int_equal(heard(s, "bad"), 1);
    assert_int_equal(heard(s, "bad"), 2);   // once more, in front
    assert_int_equal(heard(s, "next"), 3);  // but not twice
    quiet(s);
}

static void test_X3_the_failed_message_is_retried_once(void **state)
{
    (void)state;
    everywhere(message_is_retried);
}

static void children_at_restart(stage *s)
{
    tr_ref p = PLAY(s, "p", (.says = POST_RESTART));
    tr_ref a = CHILD(s, p, "a", ());
    tr_tell(s->sys, p, Watch, .ref = a);
    (void)gotten(s, p);
    mourn(s, a);
    tr_tell(s->sys, p, Fail);
    heard(s, "p post_restart");
    assert_int_equal(ended(s, a), TR_STOPPED);
    quiet(s);  // rule 14: the watch of the old incarnation is gone

    tr_ref q = PLAY(s, "q", (.says = POST_RESTART),
                    .supervision = TR_SUPERVISE(.keep_children = true));
    tr_ref b = CHILD(s, q, "b", ());
    tr_ref other = PLAY(s, "other", ());
    tr_tell(s->sys, q, Watch, .ref = b);
    tr_tell(s->sys, q, Watch, .ref = other);
    tr_tell(s->sys, q, Fail);
    heard(s, "q post_restart");
    assert_int_equal(gotten(s, b).incarnation, 1);
    tr_stop(s->sys, other);
    (void)joined(s, other);
    tr_stop(s->sys, b);
    heard(s, "q terminated");  // only the child is still watched
    quiet(s);
}

static void test_X45_SV11_children_are_stopped_or_kept(void **state)
{
    (void)state;
    everywhere(children_at_restart);
}

/* ---- things that go with an incarnation ---- */

typedef struct Owner {
    tr_ref probe;
} Owner;

typedef struct closing {
    tr_ref probe;
    tr_system *sys;
    const char *text;
} closing;

static void close_it(void *object)
{
    closing *it = object;
    tr_tell(it->sys, it->probe, Note, .text = it->text);
}

static tr_err owner_start(tr_ctx *ctx, Owner *self)
{
    static const char *const texts[] = {"first", "second"};
    for (int i = 0; i < 2; i++) {
        closing *it = tr_alloc(ctx, sizeof(*it));
        *it = (closing){self->probe, tr_system_of(ctx), texts[i]};
        tr_on_end(ctx, close_it, it);
    }
    (void)tr_after(ctx, TR_SECONDS(5), Say, .text = "timer");
    return tr_topic_join(ctx, "news");
}

static tr_err owner_post_stop(tr_ctx *ctx, Owner *self, tr_reason reason)
{
    tr_tell(ctx, self->probe, Note, .text = "post_stop", .number = reason);
    return TR_OK;
}

static tr_err owner_says(tr_ctx *ctx, Owner *self, const Say *m)
{
    tr_tell(ctx, self->probe, Note, .text = m->text);
    return TR_OK;
}

static tr_err owner_fails(tr_ctx *ctx, Owner *self, const Fail *m)
{
    (void)ctx;
    (void)self;
    (void)m;
    return TR_EIO;
}

TR_ACTOR(owner, Owner, TR_HOOK(pre_start, owner_start),
         TR_HOOK(post_stop, owner_post_stop), TR_ON(Say, owner_says),
         TR_ON(Fail, owner_fails));

static void things_end(stage *s)
{
    tr_ref a = tr_spawn(s->sys, owner, TR_INIT(owner, .probe = s->to));
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    tr_tell(s->sys, a, Fail);
    assert_int_equal(heard(s, "post_stop"), TR_RESTARTING);
    heard(s, "second");  // newest first
    heard(s, "first");
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    tr_topic_publish(s->sys, "news", Say, .text = "once");
    heard(s, "once");    // it has joined anew, and only once
    heard(s, "timer");   // the old timer is gone: one comes, not two
    quiet(s);
    tr_stop(s->sys, a);
    heard(s, "post_stop");
    heard(s, "second");
    heard(s, "first");
}

static void test_SV11_X51_what_ends_with_an_incarnation(void **state)
{
    (void)state;
    virtually(things_end);
}

/* ---- odd ones ---- */

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

static void orphan_stops(stage *s)
{
    tri_actor_from who = tri_enter((tr_from){.sys = s->sys});
    tr_ref a = tri_spawn_under(&who, NULL, &player,
                               TR_OPTIONS(tr_spawn_options,
                                          AS_(s, (.says = POST_STOP))),
                               0);
    tri_leave(&who);
    mourn(s, a);
    tr_tell(s->sys, a, Fail);
    assert_int_equal(ended(s, a), TR_FAILED);
    (void)tr_expect(s->probe, patience(s), Note);
}

static void test_SV3_without_a_parent_it_stops(void **state)
{
    (void)state;
    everywhere(orphan_stops);
}

static void failed_requests(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    tr_tell(s->sys, a, Strange);  // a message it does not take is no failure
    assert_int_equal(gotten(s, a).incarnation, 1);
    tr_ref b = CHILD(s, a, "b", (.fails = TERMINATED));
    tr_tell(s->sys, b, Watch, .ref = TR_NOBODY);
    heard(s, "b terminated");
    wait_incarnation(s, b, 2);  // DW15
}

static void test_DW15_SV1_a_failing_terminated_handler_is_a_failure(
    void **state)
{
    (void)state;
    everywhere(failed_requests);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_S3_SV1_SV4_SV11_X4_X51_restart_runs_these_hooks),
        cmocka_unit_test(test_X4_a_restart_is_not_an_end),
        cmocka_unit_test(test_SV4_SV17_stop_runs_the_hooks_of_an_end),
        cmocka_unit_test(test_SV4_SV16_SV22_X24_DL7_resume_keeps_the_state),
        cmocka_unit_test(test_SV4_SV18_escalate_is_the_parents_failure),
        cmocka_unit_test(test_SV18_who_escalated_shares_its_parents_fate),
        cmocka_unit_test(test_SV2_S6_X22_the_supervisor_sees_the_failure),
        cmocka_unit_test(test_SV4_SV19_a_decider_goes_before_the_policy),
        cmocka_unit_test(test_SV2_EV2_decisions_are_events),
        cmocka_unit_test(test_SV6_X43_the_defaults_of_a_policy),
        cmocka_unit_test(test_SV27_a_policy_that_makes_no_sense_is_refused),
        cmocka_unit_test(test_SV19_SV20_SP11_SP14_whose_policy_it_is),
        cmocka_unit_test(test_SV7_X23_backoff_grows_to_its_maximum),
        cmocka_unit_test(test_SV8_backoff_is_spread_by_the_jitter),
        cmocka_unit_test(test_X23_the_parent_does_not_wait_for_a_backoff),
        cmocka_unit_test(test_SV9_X20_restarts_are_counted_in_a_window),
        cmocka_unit_test(test_SV10_X20_beyond_the_limit_stop_and_escalate),
        cmocka_unit_test(test_SV21_X21_who_counts_the_restarts),
        cmocka_unit_test(test_SV5_X44_the_scopes),
        cmocka_unit_test(
            test_X44_SV6_SV8_a_group_restarts_in_order_after_one_delay),
        cmocka_unit_test(test_SV5_X44_siblings_that_may_not_restart_stop),
        cmocka_unit_test(test_SV4_temporary_actors_are_not_restarted),
        cmocka_unit_test(test_X3_SV13_the_mailbox_is_kept),
        cmocka_unit_test(
            test_X3_SV13_the_mailbox_is_cleared_into_dead_letters),
        cmocka_unit_test(test_X3_the_failed_message_is_retried_once),
        cmocka_unit_test(test_X45_SV11_children_are_stopped_or_kept),
        cmocka_unit_test(test_SV11_X51_what_ends_with_an_incarnation),
        cmocka_unit_test(test_SV1_SV30_a_panic_is_a_failure),
        cmocka_unit_test(test_SV3_without_a_parent_it_stops),
        cmocka_unit_test(
            test_DW15_SV1_a_failing_terminated_handler_is_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

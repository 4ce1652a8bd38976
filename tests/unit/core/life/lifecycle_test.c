/*
 * lifecycle_test.c - the states of an actor: the legal transitions, how they
 * are published, when mail is handled. Covers TE10.
 */
#include "support/fixture.h"

#include "support/core.h"

/* ---- the table ---- */

static void test_L1_L2_X24_the_table_has_these_transitions_and_no_others(
    void **state)
{
    (void)state;
    // A letter for each legal target, in the order of tr_state: C S R s x F
    // r T.
    static const char *const table[] = {
        [TR_STATE_CREATED] = "-S------",
        // STOPPING: a stop may come while it starts.
        [TR_STATE_STARTING] = "--Rs-F--",
        // RESTARTING: the failure of a sibling restarts the cohort.
        [TR_STATE_RUNNING] = "---s-Fr-",
        [TR_STATE_STOPPING] = "----x---",
        [TR_STATE_STOPPED] = "-------T",
        // RUNNING: resume. STOPPING: stop.
        [TR_STATE_FAILED] = "--Rs--r-",
        [TR_STATE_RESTARTING] = "-S-s----",
        [TR_STATE_TERMINATED] = "--------",
    };
    for (int from = TR_STATE_CREATED; from <= TR_STATE_TERMINATED; from++) {
        for (int to = TR_STATE_CREATED; to <= TR_STATE_TERMINATED; to++) {
            bool legal = table[from][to - 1] != '-';
            if (tri_life_is_legal((tr_state)from, (tr_state)to) != legal) {
                fail_msg("%s -> %s", tri_state_name((tr_state)from),
                         tri_state_name((tr_state)to));
            }
        }
    }
    assert_false(tri_life_is_legal((tr_state)0, TR_STATE_STARTING));
    assert_false(tri_life_is_legal((tr_state)99, TR_STATE_STARTING));
    assert_string_equal(tri_state_name(TR_STATE_CREATED), "CREATED");
    assert_string_equal(tri_state_name(TR_STATE_TERMINATED), "TERMINATED");
    assert_string_equal(tri_state_name((tr_state)77), "UNKNOWN");
}

/* ---- states as events ---- */

/* Returns the next state that ref went to. */
static tr_state next_state(stage *s, tr_ref ref)
{
    for (;;) {
        const tr_lifecycle *e = tr_expect(s->probe, patience(s), tr_lifecycle);
        if (tr_ref_eq(e->actor, ref)) {
            return (tr_state)e->state;
        }
    }
}

static void states_of_a_life(stage *s)
{
    tr_probe_subscribe(s->probe, tr_lifecycle);
    tr_ref a = PLAY(s, "a", ());
    assert_int_equal(next_state(s, a), TR_STATE_STARTING);
    assert_int_equal(next_state(s, a), TR_STATE_RUNNING);
    tr_stop(s->sys, a);
    assert_int_equal(next_state(s, a), TR_STATE_STOPPING);
    assert_int_equal(next_state(s, a), TR_STATE_STOPPED);
    assert_int_equal(next_state(s, a), TR_STATE_TERMINATED);
}

static void test_L20_EV4_every_transition_is_an_event(void **state)
{
    (void)state;
    everywhere(states_of_a_life);
}

static void states_of_a_restart(stage *s)
{
    tr_probe_subscribe(s->probe, tr_lifecycle);
    tr_ref a = PLAY(s, "a", ());
    assert_int_equal(next_state(s, a), TR_STATE_STARTING);
    assert_int_equal(next_state(s, a), TR_STATE_RUNNING);
    tr_tell(s->sys, a, Fail);
    assert_int_equal(next_state(s, a), TR_STATE_FAILED);
    assert_int_equal(next_state(s, a), TR_STATE_RESTARTING);
    assert_int_equal(next_state(s, a), TR_STATE_STARTING);
    assert_int_equal(next_state(s, a), TR_STATE_RUNNING);
    tr_kill(s->sys, a);
    assert_int_equal(next_state(s, a), TR_STATE_STOPPING);
    assert_int_equal(next_state(s, a), TR_STATE_STOPPED);
    assert_int_equal(next_state(s, a), TR_STATE_TERMINATED);
}

static void test_SV12_X4_a_restart_goes_through_these_states(void **state)
{
    (void)state;
    everywhere(states_of_a_restart);
}

static void state_queries(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_RUNNING);
    tr_stop(s->sys, a);
    (void)joined(s, a);
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_TERMINATED);
    assert_int_equal(tr_state_of(s->sys, TR_NOBODY), TR_STATE_TERMINATED);
    // The next actor in the same cell does not change the answer.
    tr_ref b = PLAY(s, "b", ());
    assert_int_equal(tr_started(s->sys, b, 0), TR_OK);
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_TERMINATED);
}

static void test_L21_X7_the_state_of_a_ref_can_be_read(void **state)
{
    (void)state;
    everywhere(state_queries);
}

static void history_is_kept(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    tr_tell(s->sys, a, Fail);
    while (gotten(s, a).incarnation != 2) {
        // Until it has been restarted.
    }
    tr_actor_info info = {.size = sizeof(info)};
    assert_int_equal(tr_actor_info_of(s->sys, a, &info), TR_OK);
    static const tr_state wanted[TR_HISTORY] = {
        TR_STATE_RUNNING, TR_STATE_STARTING, TR_STATE_RESTARTING,
        TR_STATE_FAILED,  TR_STATE_RUNNING,  TR_STATE_STARTING,
        TR_STATE_CREATED, (tr_state)0,
    };
    for (int i = 0; i < TR_HISTORY; i++) {
        assert_int_equal(info.history[i], wanted[i]);
    }
}

static void test_L19_the_last_states_are_kept(void **state)
{
    (void)state;
    everywhere(history_is_kept);
}

/* ---- states and mail ---- */

/* The start takes a minute; mail comes meanwhile. */
static void mail_before_the_start(stage *s)
{
    tr_ref a = PLAY(s, "a", (.says = PRE_START, .sleepy = true));
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_CREATED);
    tr_tell(s->sys, a, Say, .text = "one");
    tr_sim_advance(s->sim, TR_SECONDS(30));
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_STARTING);
    tr_tell(s->sys, a, Say, .text = "two");
    heard(s, "a pre_start");
    heard(s, "a one");
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_RUNNING);
    heard(s, "a two");
}

static void test_L3_L4_L5_X5_MB21_mail_waits_for_the_start(void **state)
{
    (void)state;
    virtually(mail_before_the_start);
}

static void mail_while_restarting(stage *s)
{
    // The delay keeps it in RESTARTING for ten seconds.
    tr_ref a = PLAY(s, "a", (.says = POST_RESTART),
                    .supervision = TR_SUPERVISE(.backoff_min = TR_SECONDS(10),
                                                .backoff_max = TR_SECONDS(10)));
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    tr_tell(s->sys, a, Fail);
    tr_sim_advance(s->sim, TR_SECONDS(5));
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_RESTARTING);
    tr_tell(s->sys, a, Say, .text = "held");
    tr_expect_nothing(s->probe, TR_SECONDS(4));
    heard(s, "a post_restart");
    heard(s, "a held");
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_RUNNING);
}

static void test_L9_X5_mail_waits_during_a_restart(void **state)
{
    (void)state;
    virtually(mail_while_restarting);
}

/* What a culprit, its judge and the test have seen. */
typedef struct trial {
    _Atomic uint32_t failures, decisions;
    _Atomic uint32_t early;  // messages handled between the two
} trial;

typedef struct Culprit {
    trial *seen;
    tr_ref probe;
} Culprit;

static tr_err culprit_fails(tr_ctx *ctx, Culprit *self, const Fail *m)
{
    (void)m;
    self->seen->failures++;
    return tr_fail(ctx, TR_EUSER, "guilty");
}

static tr_err culprit_says(tr_ctx *ctx, Culprit *self, const Say *m)
{
    self->seen->early += self->seen->failures != self->seen->decisions;
    tr_tell(ctx, self->probe, Note, .text = m->text);
    return TR_OK;
}

TR_ACTOR(culprit, Culprit, TR_ON(Fail, culprit_fails),
         TR_ON(Say, culprit_says));

typedef struct Judge {
    trial *seen;
    tr_ref probe;
    tr_directive decision;
} Judge;

/* All messages are in the mailbox of the child before it runs. */
static tr_err judge_starts(tr_ctx *ctx, Judge *self)
{
    tr_ref child = tr_spawn(
        ctx, culprit, .supervision = TR_SUPERVISE(.max_restarts = TR_UNLIMITED),
        TR_INIT(culprit, .seen = self->seen, .probe = self->probe));
    for (int i = 0; i < 3; i++) {
        tr_tell(ctx, child, Fail);
        tr_tell(ctx, child, Say, .text = "held");
    }
    return tr_ref_err(child);
}

static tr_directive judge_decides(const Judge *self, const tr_failure *failure)
{
    (void)failure;
    self->seen->decisions++;
    return self->decision;
}

TR_ACTOR(judge, Judge, TR_HOOK(pre_start, judge_starts),
         TR_HOOK(decide, judge_decides));

static void mail_while_failed(stage *s)
{
    static const tr_directive decisions[] = {TR_RESUME, TR_RESTART};
    for (int i = 0; i < 2; i++) {
        trial seen = {0};
        tr_ref a = tr_spawn(s->sys, judge,
                            TR_INIT(judge, .seen = &seen, .probe = s->to,
                                    .decision = decisions[i]));
        for (int k = 0; k < 3; k++) {
            heard(s, "held");
        }
        assert_int_equal(seen.failures, 3);
        assert_int_equal(seen.decisions, 3);
        assert_int_equal(seen.early, 0);
        watch_end(s, a);
        tr_stop(s->sys, a);
        assert_int_equal(ended(s, a), TR_STOPPED);
    }
}

static void test_L8_X5_mail_waits_for_the_decision(void **state)
{
    (void)state;
    everywhere(mail_while_failed);
}

static void mail_while_stopping(stage *s)
{
    tr_probe_subscribe(s->probe, tr_dead_letter);
    tr_ref a = PLAY(s, "a", (.says = PRE_STOP, .sleepy = true),
                    .stop_timeout = TR_MINUTES(10));
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    tr_stop(s->sys, a);
    tr_sim_advance(s->sim, TR_SECONDS(30));
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_STOPPING);
    tr_tell(s->sys, a, Say, .text = "too late");
    assert_int_equal(tr_expect(s->probe, patience(s), tr_dead_letter)->reason,
                     TR_DEAD_STOPPING);
    heard(s, "a pre_stop");
    (void)joined(s, a);
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_TERMINATED);
    tr_tell(s->sys, a, Say, .text = "much too late");
    assert_int_equal(tr_expect(s->probe, patience(s), tr_dead_letter)->reason,
                     TR_DEAD_NO_SUCH_ACTOR);
    quiet(s);
}

static void test_L6_L7_L10_K2_X5_a_stopping_actor_refuses_mail(void **state)
{
    (void)state;
    virtually(mail_while_stopping);
}

/* ---- hooks ---- */

/* Notes the state that the hook sees. */
static tr_err note_state(tr_ctx *ctx, Player *self)
{
    note(ctx, self, "is", tr_state_of(ctx, tr_self(ctx)), TR_NOBODY);
    return TR_OK;
}

TR_ACTOR(looker, Player, TR_HOOK(pre_start, note_state),
         TR_HOOK(post_start, note_state), TR_HOOK(pre_stop, note_state));

static void states_in_hooks(stage *s)
{
    tr_ref a =
        tr_spawn(s->sys, looker, .name = "a", TR_INIT(looker, .probe = s->to));
    assert_int_equal(heard(s, "a is"), TR_STATE_STARTING);
    assert_int_equal(heard(s, "a is"), TR_STATE_RUNNING);
    tr_stop(s->sys, a);
    assert_int_equal(heard(s, "a is"), TR_STATE_STOPPING);
}

static void test_L4_L15_L18_hooks_run_in_their_states(void **state)
{
    (void)state;
    everywhere(states_in_hooks);
}

static void stop_hooks_fail(stage *s)
{
    tr_nanos start = s->sim != NULL ? tr_sim_now(s->sim) : 0;
    tr_ref a = PLAY(s, "a",
                    (.says = ALL_HOOKS & ~(PRE_START | POST_START),
                     .fails = PRE_STOP | POST_STOP));
    tr_ref b = PLAY(s, "b",
                    (.says = ALL_HOOKS & ~(PRE_START | POST_START),
                     .panics = PRE_STOP | POST_STOP));
    tr_ref refs[] = {a, b};
    for (int i = 0; i < 2; i++) {
        // With a child the stop has work to do after the hook.
        tr_ref child = CHILD(s, refs[i], "child", ());
        watch_end(s, refs[i]);
        tr_stop(s->sys, refs[i]);
        heard(s, i == 0 ? "a pre_stop" : "b pre_stop");
        assert_int_equal(heard(s, i == 0 ? "a post_stop" : "b post_stop"),
                         TR_STOPPED);
        assert_int_equal(tr_state_of(s->sys, child), TR_STATE_TERMINATED);
        assert_int_equal(ended(s, refs[i]), TR_STOPPED);
    }
    assert_true(stage_logged(s, "/user/a failed with EIO") ||
                stage_logged(s, "EIO"));
    if (s->sim != NULL) {  // the stop did not wait for a deadline
        assert_true(tr_sim_now(s->sim) - start < TR_SECONDS(1));
    }
}

static void test_L17_a_stop_goes_on_when_its_hooks_fail(void **state)
{
    (void)state;
    everywhere(stop_hooks_fail);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_L1_L2_X24_the_table_has_these_transitions_and_no_others),
        cmocka_unit_test(test_L20_EV4_every_transition_is_an_event),
        cmocka_unit_test(test_SV12_X4_a_restart_goes_through_these_states),
        cmocka_unit_test(test_L21_X7_the_state_of_a_ref_can_be_read),
        cmocka_unit_test(test_L19_the_last_states_are_kept),
        cmocka_unit_test(test_L3_L4_L5_X5_MB21_mail_waits_for_the_start),
        cmocka_unit_test(test_L9_X5_mail_waits_during_a_restart),
        cmocka_unit_test(test_L8_X5_mail_waits_for_the_decision),
        cmocka_unit_test(test_L6_L7_L10_K2_X5_a_stopping_actor_refuses_mail),
        cmocka_unit_test(test_L4_L15_L18_hooks_run_in_their_states),
        cmocka_unit_test(test_L17_a_stop_goes_on_when_its_hooks_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

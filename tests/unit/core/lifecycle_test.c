/*
 * lifecycle_test.c - the states of an actor, its hooks, its start (L1..L27).
 * Covers TE10.
 */
#include "support/fixture.h"

#include "core/lifecycle.h"

/* ---- the table ---- */

static void test_L1_L2_X24_the_table_has_these_transitions_and_no_others(
    void **state)
{
    (void)state;
    // From each state, in the order of tr_state: C S R s x F r T.
    static const char *const table[] = {
        [TR_STATE_CREATED] = "-S------",
        // X24: a stop may come while it starts.
        [TR_STATE_STARTING] = "--Rs-F--",
        // RESTARTING: a sibling's failure restarts all (SV5).
        [TR_STATE_RUNNING] = "---s-Fr-",
        [TR_STATE_STOPPING] = "----x---",
        [TR_STATE_STOPPED] = "-------T",
        // X24: resume and stop.
        [TR_STATE_FAILED] = "--Rs--r-",
        [TR_STATE_RESTARTING] = "-S-s----",
        [TR_STATE_TERMINATED] = "--------",
    };
    for (int from = TR_STATE_CREATED; from <= TR_STATE_TERMINATED; from++) {
        for (int to = TR_STATE_CREATED; to <= TR_STATE_TERMINATED; to++) {
            bool legal = table[from][to - 1] != '-';
            if (tri_life_legal((tr_state)from, (tr_state)to) != legal) {
                fail_msg("%s -> %s", tri_state_name((tr_state)from),
                         tri_state_name((tr_state)to));
            }
        }
    }
    assert_false(tri_life_legal((tr_state)0, TR_STATE_STARTING));
    assert_false(tri_life_legal((tr_state)99, TR_STATE_STARTING));
    assert_string_equal(tri_state_name(TR_STATE_CREATED), "CREATED");
    assert_string_equal(tri_state_name(TR_STATE_TERMINATED), "TERMINATED");
    assert_string_equal(tri_state_name((tr_state)77), "UNKNOWN");
}

/* ---- states as events ---- */

/* The next state that ref went to. */
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

/* ---- states and mail ---- */

/* A start that takes a minute; mail and a look meanwhile. */
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

static void mail_while_failed(stage *s)
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

static void test_L8_L9_X5_mail_waits_while_it_is_restarted(void **state)
{
    (void)state;
    virtually(mail_while_failed);
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

static void test_L6_L7_L10_K2_X5_no_mail_for_who_is_stopping_or_gone(
    void **state)
{
    (void)state;
    virtually(mail_while_stopping);
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
    // Another actor in the same memory is somebody else.
    tr_ref b = PLAY(s, "b", ());
    assert_int_equal(tr_started(s->sys, b, 0), TR_OK);
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_TERMINATED);
}

static void test_L21_X7_the_state_of_a_ref(void **state)
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

/* ---- starting ---- */

static void start_order(stage *s)
{
    tr_ref a = PLAY(s, "a", (.says = ALL_HOOKS, .count = 7));
    assert_int_equal(tr_ref_err(a), TR_OK);
    assert_int_equal(heard(s, "a pre_start"), 7);  // X51: filled before
    heard(s, "a post_start");
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_RUNNING);
    quiet(s);
}

typedef struct Waking {
    tr_ref probe;
} Waking;

static tr_err waking_pre_start(tr_ctx *ctx, Waking *self)
{
    tr_tell(ctx, self->probe, Note, .text = "before",
            .number = tr_state_of(ctx, tr_self(ctx)));
    return TR_OK;
}

static tr_err waking_post_start(tr_ctx *ctx, Waking *self)
{
    tr_tell(ctx, self->probe, Note, .text = "after",
            .number = tr_state_of(ctx, tr_self(ctx)));
    return TR_OK;
}

TR_ACTOR(waking, Waking, TR_HOOK(pre_start, waking_pre_start),
         TR_HOOK(post_start, waking_post_start));

/* L15: the state changes between the hooks. */
static void start_states(stage *s)
{
    (void)tr_spawn(s->sys, waking, TR_INIT(waking, .probe = s->to));
    assert_int_equal(heard(s, "before"), TR_STATE_STARTING);
    assert_int_equal(heard(s, "after"), TR_STATE_RUNNING);
}

static void test_L13_L15_L16_L22_X51_the_order_of_a_start(void **state)
{
    (void)state;
    everywhere(start_states);
    everywhere(start_order);
}

/* post_start sees RUNNING, pre_start does not. */
static tr_err look_pre(tr_ctx *ctx, Player *self)
{
    note(ctx, self, "is", tr_state_of(ctx, tr_self(ctx)), TR_NOBODY);
    return TR_OK;
}

TR_ACTOR(looker, Player, TR_HOOK(pre_start, look_pre),
         TR_HOOK(post_start, look_pre), TR_HOOK(pre_stop, look_pre));

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

static void start_fails(stage *s, Player as, tr_err wanted)
{
    as.probe = s->to;
    as.says = ALL_HOOKS;
    tr_ref a =
        tr_spawn(s->sys, player, .name = "a", .joinable = true, .init = &as,
                 .init_type = player.state, .init_size = sizeof(as));
    mourn(s, a);
    heard(s, "a pre_start");
    assert_int_equal(heard(s, "a post_stop"), TR_FAILED);
    tr_reason reason = ended(s, a);
    assert_true(reason == TR_FAILED || reason == TR_NO_SUCH_ACTOR);
    assert_int_equal(tr_started(s->sys, a, 0), TR_ENOENT);
    tr_result result;
    assert_int_equal(tr_join(s->sys, a, 0, &result, NULL), TR_OK);
    assert_int_equal(result.reason, TR_FAILED);
    assert_int_equal(result.err, wanted);
    assert_int_equal(result.phase, TR_IN_START);
    // SP15, SP16: the name is free, the caller may try again.
    assert_int_equal(tr_ref_err(PLAY(s, "a", ())), TR_OK);
    quiet(s);
}

static void pre_start_fails(stage *s)
{
    start_fails(s, (Player){.fails = PRE_START}, TR_EIO);
}

static void pre_start_panics(stage *s)
{
    start_fails(s, (Player){.panics = PRE_START}, TR_EPANIC);
}

static void test_L14_L23_SP15_a_start_that_fails_ends_the_actor(void **state)
{
    (void)state;
    everywhere(pre_start_fails);
    everywhere(pre_start_panics);
}

static void started_tells_the_error(stage *s)
{
    tr_ref a =
        PLAY(s, "a", (.says = PRE_START, .sleepy = true, .fails = PRE_START));
    assert_int_equal(tr_started(s->sys, a, TR_MINUTES(5)), TR_EIO);
    tr_ref b = PLAY(s, "b", (.says = PRE_START, .sleepy = true));
    assert_int_equal(tr_started(s->sys, b, TR_SECONDS(1)), TR_ETIMEDOUT);
    assert_int_equal(tr_started(s->sys, b, TR_MINUTES(5)), TR_OK);
    assert_int_equal(tr_started(s->sys, b, 0), TR_OK);
    tr_ref c = PLAY(s, "not/a/name", ());
    assert_int_equal(tr_started(s->sys, c, 0), TR_EINVAL);
    heard(s, "a pre_start");
    heard(s, "b pre_start");
}

static void test_X6_SP16_started_waits_for_running_or_the_error(void **state)
{
    (void)state;
    virtually(started_tells_the_error);
}

static void post_start_fails(stage *s)
{
    tr_ref a = PLAY(s, "a", (.says = ALL_HOOKS, .fails = POST_START));
    mourn(s, a);
    heard(s, "a pre_start");
    heard(s, "a post_start");
    assert_int_equal(heard(s, "a post_stop"), TR_FAILED);
    (void)ended(s, a);
    // A decider of its parent may want it to be tried again.
    tr_ref b = PLAY(s, "b", (.decision = TR_RESTART));
    tr_ref c =
        CHILD(s, b, "c", (.says = ALL_HOOKS, .fails = POST_START, .times = 1));
    heard(s, "c pre_start");
    heard(s, "c post_start");
    assert_int_equal(heard(s, "c pre_restart"), TR_EIO);
    assert_int_equal(heard(s, "c post_stop"), TR_RESTARTING);
    heard(s, "c pre_start");
    heard(s, "c post_start");
    assert_int_equal(heard(s, "c post_restart"), 2);
    assert_int_equal(gotten(s, c).incarnation, 2);
}

static void test_L17_L26_a_hook_that_fails_is_a_failure(void **state)
{
    (void)state;
    everywhere(post_start_fails);
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
        // A child, so that the steps after the hook have something to do.
        tr_ref child = CHILD(s, refs[i], "child", ());
        mourn(s, refs[i]);
        tr_stop(s->sys, refs[i]);
        heard(s, i == 0 ? "a pre_stop" : "b pre_stop");
        assert_int_equal(heard(s, i == 0 ? "a post_stop" : "b post_stop"),
                         TR_STOPPED);
        assert_int_equal(tr_state_of(s->sys, child), TR_STATE_TERMINATED);
        assert_int_equal(ended(s, refs[i]), TR_STOPPED);
    }
    assert_true(stage_logged(s, "/user/a failed with EIO") ||
                stage_logged(s, "EIO"));
    if (s->sim != NULL) {  // nobody waited for a deadline
        assert_true(tr_sim_now(s->sim) - start < TR_SECONDS(1));
    }
}

static void test_L17_the_end_goes_on_when_its_hooks_fail(void **state)
{
    (void)state;
    everywhere(stop_hooks_fail);
}

static void restart_hooks_fail(stage *s)
{
    tr_nanos start = s->sim != NULL ? tr_sim_now(s->sim) : 0;
    tr_ref a = PLAY(s, "a", (.panics = PRE_RESTART, .says = POST_RESTART));
    tr_ref child = CHILD(s, a, "child", ());
    tr_tell(s->sys, a, Fail);
    assert_int_equal(heard(s, "a post_restart"), 2);
    assert_int_equal(tr_state_of(s->sys, child), TR_STATE_TERMINATED);
    tr_ref b =
        PLAY(s, "b", (.fails = PRE_RESTART | POST_STOP, .says = POST_RESTART));
    tr_tell(s->sys, b, Fail);
    assert_int_equal(heard(s, "b post_restart"), 2);
    // post_restart itself: a failure like any other.
    tr_ref c =
        PLAY(s, "c", (.fails = POST_RESTART, .times = 2, .says = POST_RESTART));
    tr_tell(s->sys, c, Fail);
    assert_int_equal(heard(s, "c post_restart"), 2);
    assert_int_equal(heard(s, "c post_restart"), 3);
    if (s->sim != NULL) {
        assert_true(tr_sim_now(s->sim) - start < TR_SECONDS(1));
    }
}

static void test_SV15_a_restart_goes_on_when_its_hooks_fail(void **state)
{
    (void)state;
    everywhere(restart_hooks_fail);
}

static void restart_start_fails(stage *s)
{
    // The first start is good, the second fails: that is one failure more.
    tr_ref a = PLAY(s, "a", (.says = PRE_START | POST_RESTART));
    heard(s, "a pre_start");
    tr_tell(s->sys, a, Fail);
    heard(s, "a pre_start");
    assert_int_equal(heard(s, "a post_restart"), 2);
}

static tr_err start_the_third_time(tr_ctx *ctx, Player *self)
{
    note(ctx, self, "pre_start", tr_incarnation(ctx), TR_NOBODY);
    return tr_incarnation(ctx) == 2 ? TR_EIO : TR_OK;
}

TR_ACTOR(third, Player, TR_HOOK(pre_start, start_the_third_time),
         TR_ON(Fail, on_fail), TR_ON(Get, on_get));

static void second_start_fails(stage *s)
{
    restart_start_fails(s);
    tr_ref b =
        tr_spawn(s->sys, third, .name = "b", TR_INIT(third, .probe = s->to));
    assert_int_equal(heard(s, "b pre_start"), 1);
    tr_tell(s->sys, b, Fail);
    assert_int_equal(heard(s, "b pre_start"), 2);
    assert_int_equal(heard(s, "b pre_start"), 3);
    assert_int_equal(gotten(s, b).incarnation, 3);
}

static void test_SV15_L14_a_start_that_fails_in_a_restart_is_tried_again(
    void **state)
{
    (void)state;
    everywhere(second_start_fails);
}

/* ---- stopping at odd moments ---- */

static void stop_before_start(stage *s)
{
    tr_ref a =
        PLAY(s, "a", (.says = PRE_START | PRE_STOP | POST_STOP, .sleepy = true),
             .stop_timeout = TR_MINUTES(10));
    mourn(s, a);
    tr_sim_advance(s->sim, TR_SECONDS(30));
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_STARTING);
    tr_stop(s->sys, a);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_STOPPING);
    heard(s, "a pre_start");  // the hook is completed
    heard(s, "a pre_stop");
    heard(s, "a post_stop");
    assert_int_equal(ended(s, a), TR_STOPPED);
}

static void test_X24_a_stop_while_it_starts(void **state)
{
    (void)state;
    virtually(stop_before_start);
}

static void stop_at_once(stage *s)
{
    tr_ref a = PLAY(s, "a", (.says = ALL_HOOKS));
    tr_stop(s->sys, a);
    tr_stop(s->sys, a);
    mourn(s, a);
    tr_reason reason = ended(s, a);
    assert_true(reason == TR_STOPPED || reason == TR_NO_SUCH_ACTOR);
    tr_stop(s->sys, a);  // K13
    // Either it never started, or it did and said good-bye, once.
    tr_tell(s->sys, s->to, Note, .text = "over");
    const char *const wanted[] = {"a pre_start", "a post_start", "a pre_stop",
                                  "a post_stop", "over"};
    const Note *n = tr_expect(s->probe, patience(s), Note);
    for (int i = strcmp(n->text, "over") == 0 ? 4 : 0; i < 5; i++) {
        assert_string_equal(n->text, wanted[i]);
        n = i < 4 ? tr_expect(s->probe, patience(s), Note) : n;
    }
    quiet(s);
}

static void test_L11_L12_K13_stopping_again_changes_nothing(void **state)
{
    (void)state;
    everywhere(stop_at_once);
}

/* A restart that waits for its time is stopped: the hooks have run. */
static void stop_in_delay(stage *s)
{
    tr_nanos start = tr_sim_now(s->sim);
    tr_ref a = PLAY(s, "a", (.says = ALL_HOOKS & ~POST_START),
                    .supervision = TR_SUPERVISE(.backoff_min = TR_SECONDS(10),
                                                .backoff_max = TR_SECONDS(10)));
    heard(s, "a pre_start");
    tr_tell(s->sys, a, Fail);
    heard(s, "a pre_restart");
    assert_int_equal(heard(s, "a post_stop"), TR_RESTARTING);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    mourn(s, a);
    tr_stop(s->sys, a);
    assert_int_equal(ended(s, a), TR_STOPPED);
    assert_true(tr_sim_now(s->sim) - start < TR_SECONDS(5));
    quiet(s);
}

static void test_X24_a_stop_while_it_waits_for_its_restart(void **state)
{
    (void)state;
    virtually(stop_in_delay);
}

/* ---- five ways to end (L24), and one more (L25) ---- */

static tr_err end_myself(tr_ctx *ctx, Player *self, const Say *m)
{
    (void)m;
    tr_stop(ctx, tr_self(ctx));
    note(ctx, self, "goes on", tr_stopping(ctx), TR_NOBODY);
    return TR_OK;
}

TR_ACTOR(mortal, Player, TR_ON(Say, end_myself),
         TR_HOOK(post_stop, player_post_stop));

static void ways_to_end(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    mourn(s, a);
    tr_stop(s->sys, a);
    assert_int_equal(ended(s, a), TR_STOPPED);

    tr_ref b =
        PLAY(s, "b", (), .supervision = TR_SUPERVISE(.on_failure = TR_STOP));
    mourn(s, b);
    tr_tell(s->sys, b, Fail);
    assert_int_equal(ended(s, b), TR_FAILED);

    tr_ref c = PLAY(s, "c", ());
    tr_ref child = CHILD(s, c, "child", ());
    mourn(s, child);
    tr_stop(s->sys, c);
    assert_int_equal(ended(s, child), TR_STOPPED);

    tr_ref d =
        tr_spawn(s->sys, mortal, .name = "d", TR_INIT(mortal, .probe = s->to));
    mourn(s, d);
    tr_tell(s->sys, d, Say, .text = "");
    assert_int_equal(heard(s, "d goes on"), true);  // rule 8
    assert_int_equal(ended(s, d), TR_STOPPED);

    tr_ref e = PLAY(s, "e", ());
    mourn(s, e);
    tr_system_terminate(s->sys);
    assert_int_equal(ended(s, e), TR_STOPPED);
}

static void test_L24_the_five_ways_to_end(void **state)
{
    (void)state;
    everywhere(ways_to_end);
}

static void last_handle(stage *s)
{
    tr_ref a = PLAY(s, "a", (.says = POST_STOP), .auto_stop = true);
    mourn(s, a);
    (void)tr_handle_hold(s->sys, a);
    tr_handle_drop(s->sys, a);
    tr_tell(s->sys, a, Say, .text = "still here");
    heard(s, "a still here");
    tr_tell(s->sys, a, Say, .text = "first");
    tr_handle_drop(s->sys, a);
    heard(s, "a first");  // what came before is handled
    assert_int_equal(heard(s, "a post_stop"), TR_STOPPED);
    assert_int_equal(ended(s, a), TR_STOPPED);
    // Without the option handles mean nothing.
    tr_ref b = PLAY(s, "b", ());
    (void)tr_handle_hold(s->sys, b);
    tr_handle_drop(s->sys, b);
    tr_handle_drop(s->sys, b);
    (void)gotten(s, b);
    assert_int_equal(tr_state_of(s->sys, b), TR_STATE_RUNNING);
}

static void test_L25_K23_X37_the_last_handle_ends_it(void **state)
{
    (void)state;
    everywhere(last_handle);
}

/* A pre_stop that takes a minute holds up neither children nor siblings. */
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

static void test_L27_K4_K11_children_stop_side_by_side(void **state)
{
    (void)state;
    virtually(slow_pre_stop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_L1_L2_X24_the_table_has_these_transitions_and_no_others),
        cmocka_unit_test(test_L20_EV4_every_transition_is_an_event),
        cmocka_unit_test(test_SV12_X4_a_restart_goes_through_these_states),
        cmocka_unit_test(test_L3_L4_L5_X5_MB21_mail_waits_for_the_start),
        cmocka_unit_test(test_L8_L9_X5_mail_waits_while_it_is_restarted),
        cmocka_unit_test(
            test_L6_L7_L10_K2_X5_no_mail_for_who_is_stopping_or_gone),
        cmocka_unit_test(test_L21_X7_the_state_of_a_ref),
        cmocka_unit_test(test_L19_the_last_states_are_kept),
        cmocka_unit_test(test_L13_L15_L16_L22_X51_the_order_of_a_start),
        cmocka_unit_test(test_L4_L15_L18_hooks_run_in_their_states),
        cmocka_unit_test(test_L14_L23_SP15_a_start_that_fails_ends_the_actor),
        cmocka_unit_test(test_X6_SP16_started_waits_for_running_or_the_error),
        cmocka_unit_test(test_L17_L26_a_hook_that_fails_is_a_failure),
        cmocka_unit_test(test_L17_the_end_goes_on_when_its_hooks_fail),
        cmocka_unit_test(test_SV15_a_restart_goes_on_when_its_hooks_fail),
        cmocka_unit_test(
            test_SV15_L14_a_start_that_fails_in_a_restart_is_tried_again),
        cmocka_unit_test(test_X24_a_stop_while_it_starts),
        cmocka_unit_test(test_L11_L12_K13_stopping_again_changes_nothing),
        cmocka_unit_test(test_X24_a_stop_while_it_waits_for_its_restart),
        cmocka_unit_test(test_L24_the_five_ways_to_end),
        cmocka_unit_test(test_L25_K23_X37_the_last_handle_ends_it),
        cmocka_unit_test(test_L27_K4_K11_children_stop_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * supervise_limits_test.c - how often, after which delay, and together with
 * which siblings actors are restarted.
 */
#include "support/fixture.h"

/* ---- backoff ---- */

/* Returns the time from the failure to the next start. */
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
    tr_ref a =
        PLAY(s, "a", (.says = PRE_START | POST_STOP),
             .supervision =
                 TR_SUPERVISE(.max_restarts = 100, .within = TR_MINUTES(60),
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
    tr_ref a =
        PLAY(s, "a", (.says = PRE_START | POST_STOP),
             .supervision =
                 TR_SUPERVISE(.max_restarts = 100, .within = TR_MINUTES(60),
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
                     .supervision = TR_SUPERVISE(.backoff_min = TR_MINUTES(1),
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
    TR_SUPERVISE(.max_restarts = 2, .within = TR_MINUTES(10),                  \
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
    tr_sim_advance(s->sim, TR_MINUTES(11));
    fail_and_wait(s, a, 4);  // a new window
    fail_and_wait(s, a, 5);
    watch_end(s, a);
    tr_tell(s->sys, a, Fail);
    assert_int_equal(ended(s, a), TR_FAILED);
    assert_int_equal(gotten(s, p).incarnation, 1);  // on_limit = TR_STOP
}

static void test_SV9_X20_restarts_are_counted_in_a_window(void **state)
{
    (void)state;
    virtually(limit_in_window);
}

#define RESUMES TR_SUPERVISE(.on_failure = TR_RESUME)

static void limit_escalates(stage *s)
{
    tr_ref p = PLAY(s, "p", (.says = PRE_RESTART));
    tr_ref a = CHILD(s, p, "a", (.says = POST_STOP),
                     .supervision = TWICE(TR_ESCALATE));
    tr_tell(s->sys, a, Fail);
    heard(s, "a post_stop");
    tr_tell(s->sys, a, Fail);
    heard(s, "a post_stop");
    watch_end(s, a);
    tr_tell(s->sys, a, Fail, .err = TR_EUSER + 3);
    // The child is stopped and the parent fails.
    bool stopped = false, told = false;
    for (int i = 0; i < 2; i++) {
        const Note *n = tr_expect(s->probe, patience(s), Note);
        stopped |= strcmp(n->text, "a post_stop") == 0;
        told |=
            strcmp(n->text, "p pre_restart") == 0 && n->number == TR_EUSER + 3;
    }
    assert_true(stopped && told);
    tr_reason reason = ended(s, a);
    assert_true(reason == TR_FAILED || reason == TR_STOPPED);
    assert_int_equal(gotten(s, p).incarnation, 2);
}

/* The parent resumes; the child has ended all the same. */
static void limit_stops(stage *s)
{
    tr_ref p = PLAY(s, "p", (), .supervision = RESUMES);
    tr_ref a = CHILD(s, p, "a", (.says = POST_STOP),
                     .supervision = TWICE(TR_ESCALATE));
    watch_end(s, a);
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
    watch_end(s, b);
    tr_tell(s->sys, b, Fail);
    assert_int_equal(ended(s, b), TR_FAILED);
    assert_int_equal(gotten(s, a).incarnation, 3);
}

static void cohort_counts(stage *s)
{
    const tr_supervision *policy =
        TR_SUPERVISE(.scope = TR_ALL_FOR_ONE, .max_restarts = 2,
                     .within = TR_MINUTES(10), .backoff_min = 1,
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
    watch_end(s, a);
    watch_end(s, b);
    tr_tell(s->sys, a, Fail);  // the third restart of the cohort
    (void)tr_expect(s->deaths, patience(s), tr_terminated);
    (void)tr_expect(s->deaths, patience(s), tr_terminated);
    // Restarts of the cohort do not count as restarts of the parent.
    fail_and_wait(s, p, 2);
    fail_and_wait(s, p, 3);
}

static void test_SV21_X21_restarts_are_counted_per_child_or_cohort(void **state)
{
    (void)state;
    everywhere(each_child_counts);
    everywhere(cohort_counts);
}

/* ---- cohorts ---- */

#define SCOPE(which)                                                           \
    TR_SUPERVISE(.scope = which, .backoff_min = 1, .backoff_max = 1)

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
    wait_incarnation(s, c, 2);  // the scope of the failed child counts
    // A failure of c, whose scope is TR_ONE_FOR_ONE, restarts c alone.
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
        all[i] =
            CHILD(s, p, names[i], (), .supervision = SCOPE(TR_REST_FOR_ONE));
        assert_int_equal(tr_started(s->sys, all[i], 0), TR_OK);
    }
    tr_tell(s->sys, all[1], Fail);
    wait_incarnation(s, all[1], 2);
    wait_incarnation(s, all[2], 2);
    wait_incarnation(s, all[3], 2);
    quiet(s);
    assert_int_equal(gotten(s, all[0]).incarnation, 1);
}

static void test_SV5_X44_each_scope_restarts_its_siblings(void **state)
{
    (void)state;
    everywhere(one_for_one);
    everywhere(all_for_one);
    everywhere(rest_for_one);
}

static void cohort_order(stage *s)
{
    enum { SAYS = PRE_START | PRE_RESTART | POST_STOP | POST_RESTART };
    tr_ref p = PLAY(s, "p", ());
    const char *names[] = {"a", "b", "c"};
    tr_ref all[3];
    for (int i = 0; i < 3; i++) {
        all[i] = CHILD(s, p, names[i], (.says = SAYS),
                       .supervision = TR_SUPERVISE(.scope = TR_ALL_FOR_ONE,
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
    if (s->sim != NULL) {  // the delay comes before the first start
        assert_true(tr_sim_now(s->sim) - start >= TR_MS(50));
    }
    heard(s, "a post_restart");
    heard(s, "b pre_start");
    heard(s, "b post_restart");
    heard(s, "c pre_start");
    heard(s, "c post_restart");
    if (s->sim != NULL) {  // one delay for the whole cohort
        assert_true(tr_sim_now(s->sim) - start < TR_MS(100));
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gotten(s, all[i]).incarnation, 2);
    }
}

/* All fail, some of them while the cohort restarts; one is stopped. */
static void cohort_failures(stage *s)
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
    watch_end(s, all[2]);
    tr_stop(s->sys, all[2]);  // while the cohort restarts
    (void)ended(s, all[2]);
    for (int i = 0; i < 4; i++) {
        if (i != 2) {
            assert_true(gotten(s, all[i]).incarnation > 1);
        }
    }
}

static void test_X44_SV6_SV8_a_cohort_restarts_in_order_after_one_delay(
    void **state)
{
    (void)state;
    everywhere(cohort_order);
    everywhere(cohort_failures);
}

static void scope_stop(stage *s)
{
    const tr_supervision *policy =
        TR_SUPERVISE(.scope = TR_ALL_FOR_ONE, .on_failure = TR_STOP);
    tr_ref p = PLAY(s, "p", ());
    tr_ref a = CHILD(s, p, "a", (), .supervision = policy);
    tr_ref b = CHILD(s, p, "b", (), .supervision = policy);
    watch_end(s, a);
    tr_tell(s->sys, b, Fail);
    assert_int_equal(ended(s, a), TR_STOPPED);  // not its own failure
    watch_end(s, b);
    tr_reason reason = ended(s, b);
    assert_true(reason == TR_FAILED || reason == TR_NO_SUCH_ACTOR);
}

static void scope_and_temporary(stage *s)
{
    tr_ref p = PLAY(s, "p", ());
    tr_ref a = CHILD(s, p, "a", (), .restart = TR_TEMPORARY);
    tr_ref b = CHILD(s, p, "b", (), .supervision = SCOPE(TR_ALL_FOR_ONE));
    watch_end(s, a);
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

/* ---- actors that are not restarted ---- */

static void restart_types(stage *s)
{
    tr_ref a = PLAY(s, "a", (), .restart = TR_TEMPORARY);
    tr_ref b = PLAY(s, "b", (), .restart = TR_TRANSIENT);
    watch_end(s, a);
    tr_tell(s->sys, a, Fail);
    assert_int_equal(ended(s, a), TR_FAILED);
    fail_and_wait(s, b, 2);
    watch_end(s, b);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_SV7_X23_backoff_grows_to_its_maximum),
        cmocka_unit_test(test_SV8_backoff_is_spread_by_the_jitter),
        cmocka_unit_test(test_X23_the_parent_does_not_wait_for_a_backoff),
        cmocka_unit_test(test_SV9_X20_restarts_are_counted_in_a_window),
        cmocka_unit_test(test_SV10_X20_beyond_the_limit_stop_and_escalate),
        cmocka_unit_test(
            test_SV21_X21_restarts_are_counted_per_child_or_cohort),
        cmocka_unit_test(test_SV5_X44_each_scope_restarts_its_siblings),
        cmocka_unit_test(
            test_X44_SV6_SV8_a_cohort_restarts_in_order_after_one_delay),
        cmocka_unit_test(test_SV5_X44_siblings_that_may_not_restart_stop),
        cmocka_unit_test(test_SV4_temporary_actors_are_not_restarted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
